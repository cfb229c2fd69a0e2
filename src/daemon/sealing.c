/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/sealing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "seal/keyfile.h"
#include "tls/authority.h"
#include "base/banned.h"

struct report {
    struct sg_sealing sealing;
    struct sg_err err; /* kind SG_OK: none. Its `where` is static, and the same after a fork */
};
_Static_assert(sizeof(struct report) <= 4096, "one write of a pipe");

/* ---- in the process of its own ---- */

static int find(const char *path, struct sg_sealing *ret, struct sg_err *err)
{
    struct sg_seal_key key;
    struct sg_authority_text ca;
    sg_auto_fd dir = sg_seal_dir_open(path, err);
    if (dir < 0 || sg_seal_key_open(dir, &key, err) < 0)
        return sg_wrap(err, "the key of the secrets, %s/key", path);
    int got = sg_seal_public(&key, &ret->to, err);
    explicit_bzero(&key, sizeof key);
    if (got < 0 || sg_authority_open(dir, &ca, err) < 0)
        return sg_wrap(err, "the keys of the gate, in %s", path);
    if ((size_t)snprintf(ret->gate_cert, sizeof ret->gate_cert, "%s", ca.cert) >=
        sizeof ret->gate_cert)
        got = sg_fail(err, SG_INVALID, "%s/ca.pem is too long", path);
    sg_authority_text_done(&ca);
    return got;
}

static _Noreturn void report(const char *path, int fd)
{
    struct report r = { 0 };
    if (find(path, &r.sealing, &r.err) < 0 && r.err.kind == SG_OK)
        r.err.kind = SG_INTERNAL;
    (void)!write(fd, &r, sizeof r);
    _exit(0);
}

/* ---- here ---- */

int sg_sealing_open(const char *dir, struct sg_sealing *ret, struct sg_err *err)
{
    struct report r;
    int ends[2], status;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return sg_fail_sys(err, "make a pipe");
    sg_auto_fd near = ends[0], far = ends[1];
    const pid_t pid = fork();
    if (pid < 0)
        return sg_fail_sys(err, "start the process that reads the keys");
    if (pid == 0)
        report(dir, far);
    sg_drop_fd(&far);
    const ssize_t n = read(near, &r, sizeof r);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (n != (ssize_t)sizeof r)
        return sg_fail(err, SG_INTERNAL, "the process that reads the keys in %s ended", dir);
    if (r.err.kind != SG_OK) {
        if (err)
            *err = r.err;
        return -1;
    }
    *ret = r.sealing;
    return 0;
}
