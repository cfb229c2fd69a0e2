/* SPDX-License-Identifier: Apache-2.0 */
/* The service, as the client commands see it: a call is a method, a path and perhaps a JSON body;
 * an answer is a tree, or the service's own error as ours. */
#pragma once

#include "base/json.h"
#include "base/jsonr.h"
#include "cli/cmd.h"
#include "cli/http.h"

enum { SG_API_MAX_REPLY = 64 << 20, SG_API_MAX_PATH = 32 << 10 };

struct sg_api {
    struct sg_http http;
    struct sg_buf reply;   /* the text of the last answer of sg_api_call() */
    struct sg_arena arena; /* its tree; both end with the next call */
};

/* By --url, else the socket of this machine's service. The key is $SANDGLASS_API_KEY or the file
 * that `up` wrote; over the socket none is needed. A command of the operator's takes this machine's
 * socket without a key, whatever `eval "$(sandglass env)"` has set. Connects at the first call. */
void sg_api_open(struct sg_api *a, const struct sg_cli *cli);
void sg_api_open_at(struct sg_api *a, const char *url, const char *key);
void sg_api_done(struct sg_api *a);

/* "/v1/sandboxes/<id>/execs": segments, encoded, up to one that is NULL; then queries. */
#define sg_api_path(out, ...) sg_api_path_(out, __VA_ARGS__, (const char *)0)
void sg_api_path_(struct sg_buf *out, const char *segment, ...) __attribute__((sentinel));
void sg_api_query(struct sg_buf *out, const char *name, const char *value);

/* `body` NULL: none. `ret` NULL: the tree is of no interest; *ret is NULL when there is none. */
int sg_api_call(struct sg_api *a, const char *method, const char *target, struct sg_buf *body,
                const struct sg_jval **ret, struct sg_err *err);

/* After sg_http_send_fd() and its like: the answer, as of sg_api_call(). */
int sg_api_answer(struct sg_api *a, const struct sg_jval **ret, struct sg_err *err);

/* After sg_http_receive(): reads an error to its end and returns it as one. */
int sg_api_check(struct sg_api *a, struct sg_err *err);

/* Members, with "" and 0 for those that are not there or of another kind. */
const char *sg_api_text(const struct sg_jval *v, const char *key);
uint64_t sg_api_u64(const struct sg_jval *v, const char *key);
/* The first element of an array, or NULL; the others are behind its `next`. */
const struct sg_jval *sg_api_first(const struct sg_jval *v, const char *key);

/* Whether a flag was given on the command line: what comes from files is meant for `run`. */
bool sg_cli_has_flag(const struct sg_cli *cli, const char *flag);
/* STATE/client.key. Returns owned. */
char *sg_api_key_file(const struct sg_cli *cli);
/* The key in it; "" when there is none. Returns owned. */
char *sg_api_read_key(const struct sg_cli *cli);
/* "http://127.0.0.1:8787" of serve.listen. Returns owned. */
char *sg_api_listen_url(const struct sg_cli *cli);
/* The same of the service that runs, which may have been started with --listen. Returns owned. */
char *sg_api_running_url(const struct sg_cli *cli);

/* Prints an answer that is JSON already, with a line end. Returns the exit code. */
int sg_api_print(const struct sg_buf *reply);

#define sg_auto_api __attribute__((cleanup(sg_api_done))) struct sg_api
