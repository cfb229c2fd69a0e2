/* SPDX-License-Identifier: Apache-2.0 */
/* `sandglass tls init`: a local authority and a certificate that it signs, where the service finds
 * them. The keys are made by sandglass-tls (cli/secure.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/auto.h"
#include "base/json.h"
#include "cli/out.h"
#include "cli/secure.h"
#include "base/banned.h"

/* Browsers and curl find what ends so on this machine, without a name server. */
static const char DEFAULT_DOMAIN[] = "sandglass.localhost";

struct made {
    char *domain, *dir; /* owned */
};

static void free_made(struct made *m)
{
    free(m->domain);
    free(m->dir);
}

static int make(const struct sg_cli *cli, struct made *m, struct sg_err *err)
{
    const struct sg_config *c = &cli->config;
    const bool is_default = !*c->dir;
    sg_auto_free char *dir = is_default ? sg_printf("%s/tls", c->state_dir) : sg_strdup(c->dir);
    char mode[] = "make", force[] = "force", fresh[] = "new";
    m->domain = *c->serve_domain
                    ? sg_printf("%.*s", (int)strcspn(c->serve_domain, ":"), c->serve_domain)
                    : sg_strdup(DEFAULT_DOMAIN);
    if (is_default && mkdir(c->state_dir, 0755) < 0 && errno != EEXIST)
        return sg_fail_sys(err, "make the directory %s", sg_quote(c->state_dir).s);
    char *args[] = { mode, m->domain, dir, c->force ? force : fresh, NULL };
    if (sg_secure_run(args, -1, err) < 0)
        return -1;
    m->dir = realpath(dir, NULL);
    return m->dir ? 0 : sg_fail_sys(err, "find %s", sg_quote(dir).s);
}

static const struct {
    const char *name, *file;
} files[] = {
    { "ca", "ca.pem" }, { "caKey", "ca.key" }, { "cert", "cert.pem" }, { "key", "key.pem" }
};

static void put_json(struct sg_buf *out, const struct made *m)
{
    static const char *const variables[] = { "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS" };
    sg_auto_free char *ca = sg_printf("%s/%s", m->dir, files[0].file);
    struct sg_json j;
    sg_json_init(&j, out);
    sg_json_open(&j, '{');
    sg_json_key(&j, "domain");
    sg_json_str(&j, m->domain);
    for (size_t i = 0; i < SG_COUNT(files); i++) {
        sg_auto_free char *path = sg_printf("%s/%s", m->dir, files[i].file);
        sg_json_key(&j, files[i].name);
        sg_json_str(&j, path);
    }
    sg_json_key(&j, "environment");
    sg_json_open(&j, '{');
    for (size_t i = 0; i < SG_COUNT(variables); i++) {
        sg_json_key(&j, variables[i]);
        sg_json_str(&j, ca);
    }
    sg_json_close(&j, '}');
    sg_json_close(&j, '}');
    sg_buf_add_str(out, "\n");
}

static void tell(const struct sg_cli *cli, const struct made *m)
{
    sg_cli_note(cli,
                "clients trust it by these variables: NODE_EXTRA_CA_CERTS=%s/ca.pem (Node), "
                "SSL_CERT_FILE=%s/ca.pem (Python, curl and what else uses OpenSSL; it stands "
                "in for the system's list)",
                m->dir, m->dir);
    if (*cli->config.dir)
        sg_cli_note(cli,
                    "the service uses it where its settings say so: serve.tls_cert = "
                    "\"%s/cert.pem\", serve.tls_key = \"%s/key.pem\"",
                    m->dir, m->dir);
    else
        sg_cli_note(cli, "the service uses it from its next start on");
}

int sg_cmd_tls_init(struct sg_cli *cli)
{
    struct sg_err err = { 0 };
    struct made m = { 0 };
    sg_auto_buf out;
    sg_buf_init(&out, 64 << 10);
    int code;
    if (make(cli, &m, &err) < 0) {
        code = sg_cli_fail(cli, &err);
    } else if (cli->config.json) {
        put_json(&out, &m);
        code = sg_cli_print(&out);
    } else {
        sg_buf_addf(&out, "domain  %s\n", m.domain);
        for (size_t i = 0; i < SG_COUNT(files); i++)
            sg_buf_addf(&out, "%-7s %s/%s\n", files[i].name, m.dir, files[i].file);
        code = sg_cli_print(&out);
        tell(cli, &m);
    }
    free_made(&m);
    return code;
}
