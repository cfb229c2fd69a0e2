/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/json.h"
#include "export/post.h"
#include "base/banned.h"

static void put_text(struct sg_json *j, const char *key, const char *value)
{
    sg_json_open(j, '{');
    sg_json_key(j, "key");
    sg_json_str(j, key);
    sg_json_key(j, "value");
    sg_json_open(j, '{');
    sg_json_key(j, "stringValue");
    sg_json_str(j, value);
    sg_json_close(j, '}');
    sg_json_close(j, '}');
}

static void put_head(struct sg_json *j, const char *host_name)
{
    sg_json_open(j, '{');
    sg_json_key(j, "resourceSpans");
    sg_json_open(j, '[');
    sg_json_open(j, '{');
    sg_json_key(j, "resource");
    sg_json_open(j, '{');
    sg_json_key(j, "attributes");
    sg_json_open(j, '[');
    put_text(j, "service.name", "sandglass");
    put_text(j, "service.version", SG_VERSION);
    put_text(j, "host.name", host_name);
    sg_json_close(j, ']');
    sg_json_close(j, '}');
    sg_json_key(j, "scopeSpans");
    sg_json_open(j, '[');
    sg_json_open(j, '{');
    sg_json_key(j, "scope");
    sg_json_open(j, '{');
    sg_json_key(j, "name");
    sg_json_str(j, "sandglass");
    sg_json_key(j, "version");
    sg_json_str(j, SG_VERSION);
    sg_json_close(j, '}');
    sg_json_key(j, "spans");
    sg_json_open(j, '[');
}

unsigned sg_body_format(struct sg_str text, const char *host_name, struct sg_buf *out)
{
    static const char tail[] = "]}]}]}";
    struct sg_json j;
    unsigned n = 0;
    sg_json_init(&j, out);
    put_head(&j, host_name);
    while (text.n) {
        const char *end = memchr(text.p, '\n', text.n);
        if (!end)
            break;
        const size_t line = (size_t)(end - text.p);
        if (line > 2 && text.p[0] == '{' && text.p[line - 1] == '}') {
            if (n++)
                sg_buf_add(out, ",", 1);
            sg_buf_add(out, text.p, line);
        }
        text.p += line + 1;
        text.n -= line + 1;
    }
    sg_buf_add(out, tail, sizeof tail - 1);
    return n;
}
