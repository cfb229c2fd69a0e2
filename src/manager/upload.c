/* SPDX-License-Identifier: Apache-2.0 */
#include "manager/upload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "manager/manager_internal.h"

#include "base/banned.h"

enum { KEPT_S = 86400, FRESH_S = KEPT_S / 2, NAME_MAX_BYTES = 128 };

struct sg_uploads {
    struct sg_work *work;
    uint8_t secret[32]; /* of this process: tokens end with it */
};

struct sg_upload {
    struct sg_job job;
    struct sg_manager *m;
    struct sg_org *org;
    int dir_fd, fd; /* dir: borrowed */
    char hash[SG_UPLOAD_NAME_LEN + 1];
    char temporary[NAME_MAX_BYTES], name[NAME_MAX_BYTES];
    EVP_MD_CTX *digest; /* NULL: the hash was given */
    uint64_t bytes, room;
    struct sg_err err;
    sg_upload_cb *cb;
    void *arg;
};

bool sg_upload_is_name(const char *hash)
{
    return strlen(hash) == SG_UPLOAD_NAME_LEN &&
           strspn(hash, "0123456789abcdef") == SG_UPLOAD_NAME_LEN;
}

static void name_of(const struct sg_org *org, const char *hash, char ret[NAME_MAX_BYTES])
{
    (void)snprintf(ret, NAME_MAX_BYTES, "%s.%s", org->id.s, hash);
}

/* ---- what is there ---- */

static int64_t age_s(const struct stat *st)
{
    return sg_manager_unix_ms() / 1000 - (int64_t)st->st_mtim.tv_sec;
}

bool sg_upload_has(struct sg_manager *m, const struct sg_org *org, const char *hash)
{
    char name[NAME_MAX_BYTES];
    struct stat st;
    name_of(org, hash, name);
    return m->o.upload_dir_fd >= 0 && sg_upload_is_name(hash) &&
           fstatat(m->o.upload_dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && age_s(&st) < FRESH_S;
}

int sg_upload_open(struct sg_manager *m, const struct sg_org *org, const char *hash,
                   struct sg_err *err)
{
    char name[NAME_MAX_BYTES];
    name_of(org, hash, name);
    int fd = openat(m->o.upload_dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return sg_fail(err, SG_NOT_FOUND, "files %.12s... were not uploaded, or have expired",
                       hash);
    return fd;
}

/* Removes what is old; the bytes that an organisation has. */
static uint64_t sweep(struct sg_manager *m, const struct sg_org *org, bool is_start)
{
    uint64_t bytes = 0;
    int fd = openat(m->o.upload_dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sg_auto_dir dir = fd >= 0 ? fdopendir(fd) : NULL;
    for (struct dirent *d; dir && (d = readdir(dir));) {
        struct stat st;
        if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
            fstatat(m->o.upload_dir_fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (age_s(&st) > KEPT_S || (is_start && d->d_name[0] == '.'))
            (void)unlinkat(m->o.upload_dir_fd, d->d_name, 0);
        else if (org && strncmp(d->d_name, org->id.s, SG_ID_LEN) == 0)
            bytes += (uint64_t)st.st_size;
    }
    return bytes;
}

/* ---- tokens ---- */

static void sign(const struct sg_manager *m, const char *org, const char *hash, char ret[33])
{
    uint8_t h[EVP_MAX_MD_SIZE] = { 0 };
    unsigned n = sizeof h;
    sg_auto_free char *text = sg_printf("%s.%s", org, hash);
    if (!HMAC(EVP_sha256(), m->uploads->secret, sizeof m->uploads->secret, (const uint8_t *)text,
              strlen(text), h, &n))
        abort();
    for (unsigned i = 0; i < 16; i++)
        (void)snprintf(ret + (size_t)2 * i, 3, "%02x", h[i]);
}

int sg_upload_token(struct sg_manager *m, const struct sg_who *who, const char *hash,
                    char ret[SG_UPLOAD_TOKEN_LEN + 1], struct sg_err *err)
{
    char mac[33];
    if (!sg_upload_is_name(hash))
        return sg_fail(err, SG_INVALID, "a hash of files has 64 hex digits");
    if (!m->uploads)
        return sg_fail(err, SG_UNSUPPORTED, "this server takes no files for builds");
    if (sg_tenant_demand(who, SG_SCOPE_EXEC, err) < 0)
        return sg_manager_denied(m, who, "template.upload", NULL, err);
    sign(m, who->org->id.s, hash, mac);
    (void)snprintf(ret, SG_UPLOAD_TOKEN_LEN + 1, "%s.%s.%s", who->org->id.s, hash, mac);
    return 0;
}

struct sg_org *sg_upload_by_token(struct sg_manager *m, const char *token,
                                  char ret_hash[SG_UPLOAD_NAME_LEN + 1])
{
    char org[SG_ID_LEN + 1], mac[33];
    if (!m->uploads || strlen(token) != SG_UPLOAD_TOKEN_LEN || token[SG_ID_LEN] != '.' ||
        token[SG_ID_LEN + 1 + SG_UPLOAD_NAME_LEN] != '.')
        return NULL;
    (void)snprintf(org, sizeof org, "%.*s", SG_ID_LEN, token);
    (void)snprintf(ret_hash, SG_UPLOAD_NAME_LEN + 1, "%.*s", SG_UPLOAD_NAME_LEN,
                   token + SG_ID_LEN + 1);
    sign(m, org, ret_hash, mac);
    if (CRYPTO_memcmp(mac, token + SG_UPLOAD_TOKEN_LEN - 32, 32) != 0)
        return NULL;
    return sg_map_find(&m->orgs, org);
}

/* ---- one that comes ---- */

void sg_upload_drop(struct sg_upload *u)
{
    EVP_MD_CTX_free(u->digest);
    sg_close_p(&u->fd);
    if (u->temporary[0])
        (void)unlinkat(u->dir_fd, u->temporary, 0);
    free(u);
}

struct sg_upload *sg_upload_new(struct sg_manager *m, struct sg_org *org, const char *hash,
                                struct sg_err *err)
{
    const struct sg_id id = sg_id_new('u');
    if (!m->uploads) {
        (void)sg_fail(err, SG_UNSUPPORTED, "this server takes no files for builds");
        return NULL;
    }
    const uint64_t used = sweep(m, org, false);
    struct sg_upload *u = sg_new(struct sg_upload);
    *u = (struct sg_upload) { .m = m, .org = org, .dir_fd = m->o.upload_dir_fd, .fd = -1 };
    u->room = used < SG_UPLOAD_BYTES_MAX ? SG_UPLOAD_BYTES_MAX - used : 0;
    (void)snprintf(u->temporary, sizeof u->temporary, ".%s", id.s);
    u->fd = openat(u->dir_fd, u->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (hash)
        (void)snprintf(u->hash, sizeof u->hash, "%s", hash);
    else if (!(u->digest = EVP_MD_CTX_new()) ||
             EVP_DigestInit_ex(u->digest, EVP_sha256(), NULL) != 1)
        abort();
    if (u->fd < 0) {
        (void)sg_fail_sys(err, "make a file for the upload");
        u->temporary[0] = '\0';
        sg_upload_drop(u);
        return NULL;
    }
    return u;
}

int sg_upload_add(struct sg_upload *u, const void *p, size_t n, struct sg_err *err)
{
    const uint8_t *at = p;
    if (n > u->room - u->bytes)
        return sg_fail(err, SG_EXHAUSTED,
                       "files for builds have %llu MiB in an organisation, for a day",
                       (unsigned long long)(SG_UPLOAD_BYTES_MAX >> 20));
    u->bytes += n;
    if (u->digest)
        (void)EVP_DigestUpdate(u->digest, p, n);
    while (n) {
        const ssize_t got = write(u->fd, at, n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sg_fail_sys(err, "keep the upload");
        at += got;
        n -= (size_t)got;
    }
    return 0;
}

/* In the thread: H1. */
static void work(struct sg_job *j)
{
    struct sg_upload *u = SG_OWNER(j, struct sg_upload, job);
    if (fsync(u->fd) < 0 || renameat(u->dir_fd, u->temporary, u->dir_fd, u->name) < 0 ||
        fsync(u->dir_fd) < 0)
        (void)sg_fail_sys(&u->err, "keep the upload");
    else
        u->temporary[0] = '\0';
}

static void worked(struct sg_job *j)
{
    struct sg_upload *u = SG_OWNER(j, struct sg_upload, job);
    u->cb(u->arg, u->hash, u->err.kind == SG_OK ? NULL : &u->err);
    sg_upload_drop(u);
}

void sg_upload_finish(struct sg_upload *u, sg_upload_cb *cb, void *arg)
{
    uint8_t h[EVP_MAX_MD_SIZE] = { 0 };
    if (u->digest && EVP_DigestFinal_ex(u->digest, h, NULL) != 1)
        abort();
    for (unsigned i = 0; u->digest && i < 32; i++)
        (void)snprintf(u->hash + (size_t)2 * i, 3, "%02x", h[i]);
    name_of(u->org, u->hash, u->name);
    u->cb = cb;
    u->arg = arg;
    u->job = (struct sg_job) { .work = work, .done = worked };
    sg_work_add(u->m->uploads->work, &u->job);
}

/* ---- beginning and end ---- */

int sg_uploads_load(struct sg_manager *m, struct sg_err *err)
{
    if (m->o.upload_dir_fd < 0)
        return 0;
    struct sg_uploads *u = sg_new(struct sg_uploads);
    m->uploads = u;
    if (getrandom(u->secret, sizeof u->secret, 0) != (ssize_t)sizeof u->secret)
        return sg_fail_sys(err, "get random bytes");
    u->work = sg_work_new(m->loop, "uploads", 1, err);
    if (!u->work)
        return -1;
    (void)sweep(m, NULL, true);
    return 0;
}

void sg_uploads_free(struct sg_manager *m)
{
    struct sg_uploads *u = m->uploads;
    if (!u)
        return;
    m->uploads = NULL;
    if (u->work)
        sg_work_free(u->work);
    OPENSSL_cleanse(u->secret, sizeof u->secret);
    free(u);
}
