/* SPDX-License-Identifier: Apache-2.0 */
#include "api/e2b/entry.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "manager/files.h"
#include "base/banned.h"

/* ---- how it looks ---- */

static const char *type_name(uint32_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return "FILE_TYPE_FILE";
    case S_IFDIR:
        return "FILE_TYPE_DIRECTORY";
    case S_IFLNK:
        return "FILE_TYPE_SYMLINK";
    default:
        return "FILE_TYPE_UNSPECIFIED";
    }
}

/* "-rw-r--r--", with the letters that these clients know. */
static void permissions(uint32_t mode, char ret[11])
{
    static const struct {
        mode_t type;
        char letter;
    } letters[] = { { S_IFDIR, 'd' },  { S_IFLNK, 'L' }, { S_IFIFO, 'p' },
                    { S_IFSOCK, 'S' }, { S_IFCHR, 'c' }, { S_IFBLK, 'D' } };
    (void)snprintf(ret, 11, "-rwxrwxrwx");
    for (size_t i = 0; i < SG_COUNT(letters); i++)
        if ((mode & S_IFMT) == letters[i].type)
            ret[0] = letters[i].letter;
    for (unsigned i = 0; i < 9; i++)
        if (!(mode >> (8 - i) & 1u))
            ret[1 + i] = '-';
}

/* The oldest clients refuse members that they do not know. */
static bool is_minimal(const struct sg_call *c)
{
    const char *agent = c ? sg_call_header(c, "User-Agent") : NULL;
    return agent && strcmp(agent, "connect-python") == 0;
}

void sg_e2b_put_labels(struct sg_json *j, struct sg_texts labels)
{
    struct sg_text name, value;
    if (!labels.count)
        return;
    sg_json_key(j, "metadata");
    sg_json_open(j, '{');
    while (sg_text_next(&labels, &name) && sg_text_next(&labels, &value))
        sg_json_put_str(j, name.p, value.p);
    sg_json_close(j, '}');
}

void sg_e2b_put_entry(struct sg_call *c, struct sg_json *j, const struct sg_e2b_entry *e)
{
    const bool is_link = S_ISLNK(e->mode);
    const uint32_t seen = is_link ? e->target_mode : e->mode;
    char text[24], letters[11];
    sg_json_open(j, '{');
    sg_json_put_str(j, "name", sg_e2b_basename(e->path));
    sg_json_put_str(j, "type", type_name(seen));
    sg_json_put_str(j, "path", e->path);
    if (!is_minimal(c)) {
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)e->bytes);
        permissions(e->mode, letters);
        sg_json_put_str(j, "size", text);
        sg_json_put_u64(j, "mode", seen & 0777);
        sg_json_put_str(j, "permissions", letters);
        sg_json_put_str(j, "owner", e->owner);
        sg_json_put_str(j, "group", e->group);
        sg_e2b_put_time_ns(j, "modifiedTime", e->mtime_ns);
        if (is_link && e->target)
            sg_json_put_str(j, "symlinkTarget", e->target);
        sg_e2b_put_labels(j, e->labels);
    }
    sg_json_close(j, '}');
}

/* ---- asking ---- */

struct looking {
    struct sg_call *call;
    struct sg_e2b_entry entry;
    sg_e2b_entry_cb *done;
    void *arg;
};

static int ask(struct looking *l, struct sg_sandbox *s, const char *path, uint32_t flags,
               sg_files_cb *cb, struct sg_err *err)
{
    struct sg_call *c = l->call;
    struct sg_msg m = { .type = SG_MSG_STAT };
    m.stat = (struct sg_msg_path) { sg_text_of(sg_e2b_visit(c)->user), sg_text_of(path), flags };
    return sg_files_ask(s, &c->who, &m, NULL, 0, cb, l, err);
}

static const char *name_or_number(struct sg_call *c, struct sg_text name, uint32_t id)
{
    return name.n ? sg_arena_copy(&c->arena, name.p, name.n)
                  : sg_arena_printf(&c->arena, "%u", (unsigned)id);
}

/* Absolute; a relative one starts where the link is. */
static const char *resolve(struct sg_call *c, const char *link, struct sg_text target)
{
    if (target.n && target.p[0] == '/')
        return sg_arena_copy(&c->arena, target.p, target.n);
    const char *parent = sg_e2b_parent(c, link);
    return sg_arena_printf(&c->arena, "%s/%.*s", strcmp(parent, "/") == 0 ? "" : parent,
                           (int)target.n, target.p);
}

/* They outlive the packet that they came in. */
static struct sg_texts keep_labels(struct sg_call *c, struct sg_texts labels)
{
    const uint8_t *copy =
        labels.count ? (uint8_t *)sg_arena_copy(&c->arena, (const char *)labels.p, labels.n) : NULL;
    return copy ? (struct sg_texts) { copy, labels.n, labels.count } : (struct sg_texts) { 0 };
}

/* A link that leads nowhere is still there. */
static void followed(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct looking *l = arg;
    (void)err;
    if (p && p->msg.type == SG_MSG_STATED) {
        l->entry.target_mode = p->msg.stated.mode;
        l->entry.labels = keep_labels(l->call, p->msg.stated.labels);
    }
    l->done(l->call, l->arg, &l->entry, NULL);
}

static void stated(void *arg, struct sg_packet *p, const struct sg_err *err)
{
    struct looking *l = arg;
    struct sg_call *c = l->call;
    struct sg_e2b_entry *e = &l->entry;
    struct sg_err own;
    if (!p || p->msg.type != SG_MSG_STATED) {
        if (p)
            (void)sg_fail(&own, SG_UNAVAILABLE, "the sandbox gave no answer");
        l->done(c, l->arg, NULL, p ? &own : err);
        return;
    }
    const struct sg_msg_stated *m = &p->msg.stated;
    e->mode = m->mode;
    e->bytes = m->bytes;
    e->mtime_ns = m->mtime_ns;
    e->labels = keep_labels(c, m->labels);
    e->owner = name_or_number(c, m->owner, m->uid);
    e->group = name_or_number(c, m->group, m->gid);
    if (!S_ISLNK(m->mode)) {
        l->done(c, l->arg, e, NULL);
        return;
    }
    e->target = resolve(c, e->path, m->target);
    struct sg_sandbox *s = sg_e2b_visited(c, &own);
    if (!s || ask(l, s, e->path, SG_STAT_LABELS, followed, &own) < 0)
        l->done(c, l->arg, NULL, &own);
}

int sg_e2b_look(struct sg_call *c, struct sg_sandbox *s, const char *path, sg_e2b_entry_cb *done,
                void *arg, struct sg_err *err)
{
    struct looking *l = sg_arena_alloc(&c->arena, sizeof *l);
    if (!l)
        return sg_fail(err, SG_EXHAUSTED, "no room for the call");
    *l = (struct looking) { .call = c, .entry.path = path, .done = done, .arg = arg };
    return ask(l, s, path, SG_STAT_NOFOLLOW | SG_STAT_LABELS, stated, err);
}
