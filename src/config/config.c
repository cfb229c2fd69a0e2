/* SPDX-License-Identifier: Apache-2.0 */
/* Where settings come from: defaults, files, environment. Flags are applied on top by the program
 * that has them. At most one open a file, and nothing is looked for: `sandglass run` starts here.
 */
#include "config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "config/option.h"
#include "base/banned.h"

static const char system_file[] = "/etc/sandglass/sandglass.toml";
static const char root_state_dir[] = "/var/lib/sandglass";
static const char root_run_dir[] = "/run/sandglass";

void sg_config_init(struct sg_config *c, struct sg_origins *o)
{
    *c = (struct sg_config) { 0 };
    *o = (struct sg_origins) { 0 };
    for (size_t i = 0; i < sg_option_count; i++) {
        const struct sg_option *option = &sg_options[i];
        struct sg_str text = sg_str_of(option->fallback ? option->fallback : "");
        if (option->type == SG_OPTION_STRING) /* "" is a default that no check needs to like */
            *(char **)(void *)((char *)c + option->offset) = sg_strdup(text.p);
        else if (option->fallback && sg_option_set(option, c, text, NULL) < 0)
            abort(); /* a row whose default breaks its own range; the unit test walks them all */
    }
}

static void free_list(struct sg_strlist *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->v[i]);
    free(list->v);
}

void sg_config_done(struct sg_config *c, struct sg_origins *o)
{
    for (size_t i = 0; i < sg_option_count; i++) {
        void *field = (char *)c + sg_options[i].offset;
        if (sg_options[i].type == SG_OPTION_STRING)
            free(*(char **)field);
        else if (sg_options[i].type == SG_OPTION_LIST)
            free_list(field);
    }
    for (size_t i = 0; i < o->file_count; i++)
        free(o->files[i]);
    *c = (struct sg_config) { 0 };
    *o = (struct sg_origins) { 0 };
}

static const char *env_get(char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; env && *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return *env + n + 1;
    return NULL;
}

/* "$xdg/sandglass<tail>", "$HOME/<fallback>/sandglass<tail>" or NULL. The XDG rules say that a
 * relative path counts as unset. Returns owned. */
static char *home_path(char *const *env, const char *xdg, const char *fallback, const char *tail)
{
    const char *base = env_get(env, xdg);
    if (base && base[0] == '/')
        return sg_printf("%s/sandglass%s", base, tail);
    const char *home = env_get(env, "HOME");
    if (home && home[0] == '/')
        return sg_printf("%s/%s/sandglass%s", home, fallback, tail);
    return NULL;
}

enum if_absent { MUST_EXIST, MAY_BE_MISSING, MAY_BE_HIDDEN };

static bool is_tolerated(enum if_absent rule, int sys)
{
    bool is_missing = sys == ENOENT || sys == ENOTDIR;
    return (rule != MUST_EXIST && is_missing) || (rule == MAY_BE_HIDDEN && sys == EACCES);
}

/* Takes `path`. */
static int read_file(struct sg_config *c, struct sg_origins *o, char *path, enum if_absent rule,
                     struct sg_err *err)
{
    sg_auto_free char *owned = path;
    sg_auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 && is_tolerated(rule, errno))
        return 0;
    if (fd < 0)
        return sg_fail_sys(err, "open the settings %s", sg_quote(path).s);
    sg_auto_buf text;
    sg_buf_init(&text, SG_MAX_CONFIG_BYTES);
    if (sg_buf_read_fd(&text, fd, "the settings", err) < 0)
        return sg_wrap(err, "%s", sg_quote(path).s);
    o->files[o->file_count++] = sg_take_ptr(&owned);
    return sg_config_apply_toml(c, o, path, (struct sg_str) { (char *)text.p, text.n }, err);
}

static int read_files(struct sg_config *c, struct sg_origins *o, const char *named_file,
                      char *const *env, struct sg_err *err)
{
    if (!named_file)
        named_file = env_get(env, "SANDGLASS_CONFIG");
    if (named_file && *named_file)
        return read_file(c, o, sg_strdup(named_file), MUST_EXIST, err);
    if (read_file(c, o, sg_strdup(system_file), MAY_BE_MISSING, err) < 0)
        return -1;
    char *own = home_path(env, "XDG_CONFIG_HOME", ".config", "/sandglass.toml");
    /* HOME of another account (su without a login): there is no file of ours in it. */
    return own ? read_file(c, o, own, MAY_BE_HIDDEN, err) : 0;
}

/* A list has commas between its entries. */
static int set_from_environment(const struct sg_option *o, struct sg_config *c, const char *text,
                                struct sg_err *err)
{
    if (o->type != SG_OPTION_LIST)
        return sg_option_set(o, c, sg_str_of(text), err);
    for (size_t n = 0;; text += n + 1) {
        n = strcspn(text, ",");
        if (n && sg_option_set(o, c, (struct sg_str) { text, n }, err) < 0)
            return -1;
        if (!text[n])
            return 0;
    }
}

/* One pass over the environment, not one search a row. Other SANDGLASS_ names are left alone. */
static int read_environment(struct sg_config *c, struct sg_origins *o, char *const *env,
                            struct sg_err *err)
{
    for (; env && *env; env++) {
        const char *eq = sg_starts_with(*env, "SANDGLASS_") ? strchr(*env, '=') : NULL;
        if (!eq)
            continue;
        struct sg_str name = { *env, (size_t)(eq - *env) };
        for (size_t i = 0; i < sg_option_count; i++) {
            if (!sg_options[i].env || !sg_str_is(name, sg_options[i].env))
                continue;
            if (set_from_environment(&sg_options[i], c, eq + 1, err) < 0)
                return sg_wrap(err, "$%s", sg_options[i].env);
            o->of[i] = (struct sg_origin) { .kind = SG_FROM_ENVIRONMENT };
        }
    }
    return 0;
}

static int find_state_dir(struct sg_config *c, char *const *env, struct sg_err *err)
{
    if (*c->state_dir)
        return 0;
    char *found = geteuid() == 0 ? sg_strdup(root_state_dir)
                                 : home_path(env, "XDG_DATA_HOME", ".local/share", "");
    if (!found)
        return sg_fail(err, SG_INVALID,
                       "no place for templates: set $HOME or $SANDGLASS_STATE_DIR");
    free(c->state_dir);
    c->state_dir = found;
    return 0;
}

/* Without root: the session's own directory, which is gone with it, as are its processes; where
 * there is no session, a place beside the templates. */
static void find_run_dir(struct sg_config *c, char *const *env)
{
    if (*c->serve_run_dir)
        return;
    const char *session = env_get(env, "XDG_RUNTIME_DIR");
    free(c->serve_run_dir);
    if (geteuid() == 0)
        c->serve_run_dir = sg_strdup(root_run_dir);
    else if (session && session[0] == '/')
        c->serve_run_dir = sg_printf("%s/sandglass", session);
    else
        c->serve_run_dir = sg_printf("%s/run", c->state_dir);
}

int sg_config_load(struct sg_config *c, struct sg_origins *o, const char *named_file,
                   char *const *env, struct sg_err *err)
{
    if (read_files(c, o, named_file, env, err) < 0 || read_environment(c, o, env, err) < 0)
        return -1;
    if (find_state_dir(c, env, err) < 0)
        return -1;
    find_run_dir(c, env);
    return 0;
}
