/* SPDX-License-Identifier: Apache-2.0 */
/* The cell of a sandbox: its control connection, and its end.
 *
 * C1. A cell ends in one order: the launcher says that it is gone; the connection is cut, so that
 *     every open question to init is answered; execs and files are told; the peer is freed.
 * C2. What the launcher tells of a cell comes before its answer to the destroy of it, so news that
 *     arrive while a cell is ending are about that cell and are of no interest.
 * C3. What takes as long as there are bytes (archives, searches, trees to remove) and what a new
 *     connection begins with may take any time; all else is asked again rather than waited for. */
#include <sys/socket.h>

#include "base/auto.h"
#include "manager/life.h"
#include "manager/traits.h"
#include "tier/peer.h"
#include "tier/tier.h"

#include "base/banned.h"

#define GRACE_NS    1000000000u  /* between the end of a connection and the launcher's word on it */
#define PATIENCE_NS 30000000000u /* with init, where an answer is a matter of moments */

/* ---- news of init ---- */

/* Late answers, too: what was begun for nobody is ended. */
static void news(void *arg, struct sg_packet *p)
{
    struct sg_sandbox *s = arg;
    const enum sg_msg_type type = p->msg.type;

    if (type == SG_MSG_EXITED || type == SG_MSG_KEPT || type == SG_MSG_SPAWNED)
        sg_exec_news(s, p);
    else if (type == SG_MSG_CHANGED || type == SG_MSG_WATCHED)
        sg_files_news(s, p);
}

static void grace_over(struct sg_timer *t, uint64_t now_ns)
{
    (void)now_ns;
    struct sg_life *life = SG_OWNER(t, struct sg_life, grace);
    sg_death_report(life->s, EV_CRASH, "its control connection ended");
}

static void lost(void *arg, const struct sg_err *err)
{
    struct sg_sandbox *s = arg;
    struct sg_life *life = s->life;
    struct sg_loop *l = s->manager->loop;

    (void)err;
    life->peer_fd = -1;
    if (life->awaits_loss) {
        life->awaits_loss = false;
        sg_life_got(s, NULL);
    } else if (!life->is_cell_ending && !life->has_died) {
        life->grace.fire = grace_over;
        sg_timer_set(l, &life->grace, sg_loop_now(l) + GRACE_NS);
    }
}

/* ---- beginning ---- */

static char **copy_texts(struct sg_texts list)
{
    char **v = sg_alloc((list.count + 1) * sizeof *v);
    struct sg_text one;

    for (size_t i = 0; sg_text_next(&list, &one); i++)
        v[i] = sg_strdup(one.p);
    return v;
}

static void set_text(char **to, struct sg_text from)
{
    free(*to);
    *to = sg_strdup(from.p);
}

static void copy_cell(struct sg_sandbox *s, const struct sg_msg_l_cell *c)
{
    s->missing = c->missing;
    s->host_pid = c->pid;
    if (s->life->op != OP_ADOPT) /* how it was made, which a later launcher does not know */
        s->was_parked = (c->flags & SG_L_PARKED) != 0;
    s->is_pooled = (c->flags & SG_L_POOL) != 0;
    if (c->disk_bytes && s->limits.disk_bytes == 0)
        s->limits.disk_bytes = c->disk_bytes;
    set_text(&s->identity, c->identity);
    set_text(&s->user, c->user);
    set_text(&s->home, c->home);
    set_text(&s->workdir, c->workdir);
    set_text(&s->path, c->path);
    sg_traits_apply(s);
    for (size_t i = 0; s->template_env && s->template_env[i]; i++)
        free(s->template_env[i]);
    free(s->template_env);
    s->template_env = copy_texts(c->env);
}

int sg_cell_connect(struct sg_sandbox *s, struct sg_packet *p, struct sg_err *err)
{
    static const struct sg_peer_ops ops = {
        .answer_role = SG_ROLE_REPLY,
        .news_role = SG_ROLE_EVENT,
        .news = news,
        .lost = lost,
        .late = news,
        .patience_ns = PATIENCE_NS,
        .impatient = 1u << SG_MSG_SPAWN | 1u << SG_MSG_OPEN | 1u << SG_MSG_STAT |
                     1u << SG_MSG_LIST | 1u << SG_MSG_MAKE | 1u << SG_MSG_MOVE |
                     1u << SG_MSG_SETATTR | 1u << SG_MSG_WATCH | 1u << SG_MSG_DIAL |
                     1u << SG_MSG_INFO,
    };
    int fd = sg_packet_take_fd(p, 0);

    s->life->has_cell = true;
    copy_cell(s, &p->msg.l_cell);
    sg_usage_reset(s, s->life->op == OP_ADOPT);
    s->peer = sg_peer_new(s->manager->loop, fd, s->manager->epoch, &ops, s, err);
    if (!s->peer)
        return sg_wrap(err, "connect to the sandbox");
    s->life->peer_fd = fd;
    sg_cell_keep_time(s);
    return 0;
}

void sg_cell_keep_time(struct sg_sandbox *s)
{
    if (s->peer)
        sg_peer_hold(s->peer,
                     s->state == SBX_PAUSING || s->state == SBX_PAUSED || s->state == SBX_RESUMING);
}

int sg_cell_hello(struct sg_sandbox *s, sg_peer_answer *answered, struct sg_err *err)
{
    bool is_rootless = (sg_tier_flags(s->manager->tier) & SG_L_ROOTLESS) != 0;
    struct sg_msg m = {
        .type = SG_MSG_HELLO,
        .hello = { SG_CTL_VERSION,
                   SG_HELLO_KEEP | (is_rootless ? SG_HELLO_ONE_USER : 0u) |
                       (s->is_internal && s->life->mount_at ? SG_HELLO_VIEW : 0u),
                   s->manager->epoch },
    };

    return sg_peer_ask(s->peer, &m, NULL, 0, answered, s, err);
}

struct sg_tier_limits sg_cell_limits(const struct sg_sandbox_limits *l)
{
    return (struct sg_tier_limits) { l->mem_bytes, l->cpu_milli, l->pids, l->disk_bytes };
}

/* ---- end ---- */

void sg_cell_cut(struct sg_sandbox *s)
{
    if (s->life->peer_fd >= 0)
        (void)shutdown(s->life->peer_fd, SHUT_RDWR);
}

static void all_told(struct sg_sandbox *s)
{
    struct sg_life *life = s->life;

    if (life->has_cell) {
        sg_exec_sandbox_ended(s);
        sg_files_sandbox_ended(s);
    }
    sg_peer_free(s->peer);
    s->peer = NULL;
    sg_timer_stop(s->manager->loop, &life->grace);
    life->has_cell = false;
    life->is_cell_ending = false;
    life->has_died = false;
    life->after_cell(s);
}

/* Also when the launcher could not do it: nobody talks to that cell any more. */
static void launcher_done(struct sg_sandbox *s)
{
    if (s->life->peer_fd < 0) {
        all_told(s);
        return;
    }
    s->life->awaits_loss = true;
    sg_life_expect(s, 1, all_told);
    sg_cell_cut(s);
}

void sg_cell_end(struct sg_sandbox *s, void (*next)(struct sg_sandbox *s))
{
    struct sg_life *life = s->life;

    life->is_cell_ending = true;
    life->after_cell = next;
    sg_usage_look(s);
    sg_life_expect(s, 1, launcher_done);
    sg_tier_destroy(s->manager->tier, s->id.s, sg_life_tier_answer, s);
}
