/* SPDX-License-Identifier: Apache-2.0 */
/* After a restart: rows from the store, pipes and ends from init, output from the files.
 *
 * Init is asked what it kept. What has a row goes on where its files end; what has none was never
 * acknowledged, and is killed; a row that says "running" and was not kept is lost. Only an init
 * that has told all can say that, or the end of its cell: until then such a row is believed, and
 * its readers wait. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/log.h"
#include "manager/code_internal.h"
#include "store/store.h"
#include "tier/peer.h"
#include "base/banned.h"

#define RECLAIM_AGAIN_NS 1000000000u

/* ---- rows ---- */

static bool load_row(void *arg, const struct sg_exec_row *r)
{
    struct sg_sandbox *s = arg;
    struct sg_exec *x = sg_exec_of_row(s, r);
    struct sg_err err;
    if (!x)
        return true;
    struct sg_exec_impl *i = x->impl;
    if (sg_journal_load(&i->journal, &err) < 0)
        sg_log(SG_LOG_ERROR, "a journal cannot be read", SG_KV("exec", x->id.s),
               SG_KV("error", err.msg));
    x->total_bytes = sg_journal_total(&i->journal);
    sg_journal_close(&i->journal);
    if (x->ending != SG_EXEC_RUNNING) {
        sg_exec_count_journal(x);
    } else {
        i->awaits_kept = true;
        sg_exec_work_begin(x);
    }
    return true;
}

static void lose_the_rest(struct sg_sandbox *s)
{
    struct sg_exec *older;
    for (struct sg_exec *x = sg_exec_set(s)->newest; x; x = older) {
        older = sg_exec_impl(x)->older;
        if (sg_exec_impl(x)->awaits_kept)
            sg_exec_lost(x);
    }
    sg_exec_prune(s);
}

/* ---- what init kept ---- */

/* Descriptors come in the order of the bits. They come from inside, so only pipes are taken. */
static void take_pipes(struct sg_exec *x, struct sg_packet *p)
{
    struct sg_exec_impl *i = x->impl;
    struct sg_io *const to[] = { &i->in, &i->streams[SG_STREAM_OUT], &i->streams[SG_STREAM_ERR] };
    unsigned next = 0;
    for (unsigned k = 0; k < SG_COUNT(to); k++) {
        struct stat st;
        if (!(p->msg.kept.flags & 1u << k))
            continue;
        sg_auto_fd fd = sg_packet_take_fd(p, next++);
        if (fd >= 0 && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode))
            to[k]->fd = sg_take_fd(&fd);
    }
}

static void go_on(struct sg_exec *x, struct sg_packet *p)
{
    const struct sg_msg_kept *k = &p->msg.kept;
    sg_exec_impl(x)->awaits_kept = false;
    x->pid = k->pid;
    take_pipes(x, p);
    sg_exec_watch_streams(x);
    sg_exec_set_limit(x);
    if (!(k->flags & SG_KEPT_EXITED))
        return;
    const struct sg_msg_exited end = { .pid = k->pid,
                                       .code = k->code,
                                       .signal = k->signal,
                                       .cpu_ns = k->cpu_ns,
                                       .max_rss_bytes = k->max_rss_bytes };
    sg_exec_process_ended(x, &end);
}

void sg_exec_kept(struct sg_sandbox *s, struct sg_packet *p)
{
    const struct sg_msg_kept *k = &p->msg.kept;
    struct sg_exec *x = sg_map_find(&s->execs, k->tag.p);
    if (x && sg_exec_impl(x)->awaits_kept) {
        go_on(x, p);
        return;
    }
    if (x && x->ending == SG_EXEC_RUNNING) /* nothing was asked: init talks out of turn */
        return;
    if (!x) {
        s->manager->counting.unknown_execs++;
        if (!(k->flags & SG_KEPT_EXITED))
            sg_exec_send_signal(s, k->pid, SIGKILL, SG_SIGNAL_SESSION);
    }
    sg_exec_release(s, k->tag.p); /* of one that runs: its end is told, and released then */
}

static void tell(struct sg_sandbox *s)
{
    struct sg_exec_set *set = sg_exec_set(s);
    void (*done)(struct sg_sandbox *, void *) = sg_take_ptr(&set->recovered);
    if (done)
        done(s, set->recovered_arg);
}

/* Where the connection stands, the trouble passes (we may be out of descriptors), and asking twice
 * does no harm. */
static void reclaimed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct sg_sandbox *s = arg;
    struct sg_loop *l = s->manager->loop;
    (void)p;
    if (!err) {
        lose_the_rest(s);
    } else if (err->kind != SG_UNAVAILABLE) {
        sg_log(SG_LOG_WARN, "init could not tell what it kept", SG_KV("sandbox", s->id.s),
               SG_KV("error", err->msg));
        sg_timer_set(l, &sg_exec_set(s)->reclaim, sg_loop_now(l) + RECLAIM_AGAIN_NS);
    }
    tell(s);
}

static void reclaim(struct sg_timer *t, uint64_t now_ns)
{
    struct sg_sandbox *s = SG_OWNER(t, struct sg_exec_set, reclaim)->s;
    struct sg_msg m = { .type = SG_MSG_RECLAIM };
    struct sg_err err;
    (void)now_ns;
    if (!s->peer || sg_peer_ask(s->peer, &m, NULL, 0, reclaimed, s, &err) < 0)
        tell(s); /* the connection is over, and so will be the cell */
}

void sg_exec_recover(struct sg_sandbox *s, void (*done)(struct sg_sandbox *s, void *arg), void *arg)
{
    struct sg_exec_set *set = sg_exec_set(s);
    struct sg_err err;
    if (sg_store_each_exec(s->manager->store, s->id.s, load_row, s, &err) < 0)
        sg_log(SG_LOG_ERROR, "the rows of execs cannot be read", SG_KV("sandbox", s->id.s),
               SG_KV("error", err.msg));
    sg_code_recover(s);
    set->recovered = done;
    set->recovered_arg = arg;
    set->reclaim.fire = reclaim;
    if (!s->peer)
        lose_the_rest(s);
    reclaim(&set->reclaim, 0);
}

/* ---- journals that nobody knows ---- */

/* "x<19>.out", ".err", ".idx": the id, or false. */
static bool id_of_file(const char *name, struct sg_id *ret)
{
    if (strlen(name) != SG_ID_LEN + 4 || name[SG_ID_LEN] != '.')
        return false;
    memcpy(ret->s, name, SG_ID_LEN);
    ret->s[SG_ID_LEN] = '\0';
    return sg_id_is_valid(ret->s, 'x');
}

unsigned sg_journal_sweep(struct sg_manager *m)
{
    struct sg_map known;
    unsigned removed = 0;
    sg_auto_fd fd = openat(m->o.journal_dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_dir dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir)
        return 0;
    (void)sg_take_fd(&fd); /* the directory's now */
    sg_map_init(&known);
    for (struct sg_sandbox *s = m->newest; s; s = s->older) {
        size_t cursor = 0;
        for (struct sg_exec *x; (x = sg_map_next(&s->execs, &cursor));)
            sg_map_put(&known, x->id.s, x);
    }
    for (struct dirent *e; (e = readdir(dir));) {
        struct sg_id id;
        if (id_of_file(e->d_name, &id) && !sg_map_find(&known, id.s))
            removed += unlinkat(m->o.journal_dir_fd, e->d_name, 0) == 0;
    }
    sg_map_done(&known);
    return removed;
}
