/* SPDX-License-Identifier: Apache-2.0 */
/* {"auths": {"HOST": {"auth": "base64 of USER:PASSWORD"}}, "credHelpers": {"HOST": "NAME"}} */
#include "cli/registry_auth.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/buf.h"
#include "base/jsonr.h"
#include "wire/base64.h"
#include "base/banned.h"

enum { FILE_MAX = 1 << 20, SECRET_MAX = 64 << 10 };

static char *default_file(void)
{
    const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
    if (dir && *dir)
        return sg_printf("%s/config.json", dir);
    return home && *home ? sg_printf("%s/.docker/config.json", home) : NULL;
}

/* The entry of a registry: its name has been written in several ways. */
static const struct sg_jval *find_entry(const struct sg_jval *table, const char *account)
{
    static const char *const forms[] = {
        "%s", "https://%s", "https://%s/v1/", "https://%s/v2/", "https://index.%s/v1/", "index.%s"
    };
    if (!table || table->kind != SG_J_OBJECT)
        return NULL;
    const size_t n = strcmp(account, "docker.io") == 0 ? SG_COUNT(forms) : 4;
    for (size_t i = 0; i < n; i++) {
        const char *at = strstr(forms[i], "%s");
        sg_auto_free char *key =
            sg_printf("%.*s%s%s", (int)(at - forms[i]), forms[i], account, at + 2);
        const struct sg_jval *v = sg_json_get(table, key);
        if (v)
            return v;
    }
    return NULL;
}

static const char *text_of(const struct sg_jval *v, const char *key)
{
    const struct sg_jval *m = sg_json_get(v, key);
    return m && m->kind == SG_J_STRING && strlen(m->s.p) == m->s.n ? m->s.p : "";
}

static int split_pair(const char *packed, struct sg_credentials *ret, struct sg_err *err)
{
    struct sg_err unused;
    sg_auto_buf pair;
    sg_buf_init(&pair, SECRET_MAX);
    if (sg_base64_decode(&pair, sg_str_of(packed), &unused) < 0)
        return sg_fail(err, SG_INVALID, "its 'auth' is not base64");
    const char *text = sg_buf_cstr(&pair);
    const char *colon = strchr(text, ':');
    if (colon) {
        ret->user = sg_printf("%.*s", (int)(colon - text), text);
        ret->password = sg_strdup(colon + 1);
    }
    explicit_bzero(pair.p, pair.n);
    return colon ? 0 : sg_fail(err, SG_INVALID, "its 'auth' has no user and password");
}

static int take_entry(const struct sg_jval *v, struct sg_credentials *ret, struct sg_err *err)
{
    if (*text_of(v, "identitytoken"))
        return sg_fail(err, SG_UNSUPPORTED,
                       "it has an identity token; a user and password are needed");
    if (*text_of(v, "auth"))
        return split_pair(text_of(v, "auth"), ret, err);
    ret->user = sg_strdup(text_of(v, "username"));
    ret->password = sg_strdup(text_of(v, "password"));
    return 0;
}

static int read_credentials(struct sg_str text, const char *account, struct sg_credentials *ret,
                            struct sg_err *err)
{
    const struct sg_jval *v;
    sg_auto_arena a;
    sg_arena_init(&a, 4 * FILE_MAX);
    if (sg_json_parse(text, &a, &v, err) < 0)
        return -1;
    const struct sg_jval *entry = find_entry(sg_json_get(v, "auths"), account);
    if (entry && entry->kind == SG_J_OBJECT && entry->list.n)
        return take_entry(entry, ret, err);
    const struct sg_jval *helper = find_entry(sg_json_get(v, "credHelpers"), account);
    if (helper && helper->kind == SG_J_STRING)
        return sg_fail(err, SG_UNSUPPORTED,
                       "credentials of %s are with a helper (%s), which is not asked; name a file "
                       "that has them with --auth-file",
                       sg_quote(account).s, sg_quote(helper->s.p).s);
    return 0;
}

int sg_credentials_find(const char *file, const char *account, struct sg_credentials *ret,
                        struct sg_err *err)
{
    const char *named = getenv("REGISTRY_AUTH_FILE"); /* that others read, too */
    if (!*file && named && *named)
        file = named;
    sg_auto_free char *usual = *file ? NULL : default_file();
    const char *path = *file ? file : usual;
    sg_auto_buf text;
    sg_buf_init(&text, FILE_MAX);
    sg_auto_fd fd = !path ? -1
                    : strcmp(path, "-") == 0
                        ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                        : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct sg_credentials got = { 0 };
    if (fd < 0 && *file)
        return sg_fail_sys(err, "open %s", sg_quote(file).s);
    if (fd >= 0 && (sg_buf_read_fd(&text, fd, path, err) < 0 ||
                    read_credentials((struct sg_str) { (const char *)text.p, text.n }, account,
                                     &got, err) < 0)) {
        sg_credentials_done(&got);
        return sg_wrap(err, "%s", sg_quote(path).s);
    }
    if (text.p)
        explicit_bzero(text.p, text.n);
    ret->user = got.user ? got.user : sg_strdup("");
    ret->password = got.password ? got.password : sg_strdup("");
    return 0;
}

void sg_credentials_done(struct sg_credentials *c)
{
    if (c->password)
        explicit_bzero(c->password, strlen(c->password));
    free(c->user);
    free(c->password);
    *c = (struct sg_credentials) { 0 };
}
