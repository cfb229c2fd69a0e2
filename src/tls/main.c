/* SPDX-License-Identifier: Apache-2.0 */
/* sandglass-tls: what the CLI, which links libc only, leaves to OpenSSL.
 *
 *   sandglass-tls make DOMAIN DIRECTORY new|force    an authority and a certificate of its own
 *   sandglass-tls dial HOST:PORT CAFILE              TLS between stdin, a socket, and a server
 *
 * Says nothing where all went well. Otherwise one line on stderr, "KIND MESSAGE" with the number
 * of the kind (base/err.h), and exit status 1. Not for people: the CLI starts it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tls/dial.h"
#include "tls/files.h"
#include "base/banned.h"

static int make(char *const *args, struct sg_err *err)
{
    struct sg_tls_made made;
    if (sg_tls_make(args[0], &made, err) < 0)
        return -1;
    const int r = sg_tls_write(args[1], &made, strcmp(args[2], "force") == 0, err);
    sg_tls_made_done(&made);
    return r;
}

static int dial(char *const *args, struct sg_err *err)
{
    return sg_tls_dial(args[0], args[1], 0, err);
}

static const struct {
    const char *name;
    int args;
    int (*run)(char *const *args, struct sg_err *err);
} modes[] = { { "make", 3, make }, { "dial", 2, dial } };

int main(int argc, char **argv)
{
    struct sg_err err = { 0 };
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    int r = sg_fail(&err, SG_INVALID, "'sandglass tls init' and clients of https start this");
    (void)sigaction(SIGPIPE, &ignore, NULL);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (argc > 1 && strcmp(argv[1], modes[i].name) == 0 && argc == 2 + modes[i].args)
            r = modes[i].run(argv + 2, &err);
    if (r == 0)
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "%d %s\n", (int)err.kind, err.msg);
    return EXIT_FAILURE;
}
