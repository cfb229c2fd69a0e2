/* SPDX-License-Identifier: Apache-2.0 */
/* The delimiter is searched in whole runs, so that a large file comes in large pieces. A CR is only
 * at its front, which makes a partial match at the end of a piece easy to hold back: it is a prefix
 * of the delimiter, and when it turns out to be data it is handed out from there. */
#include "wire/multipart.h"

#include <string.h>
#include <strings.h>

#include "wire/http1.h"
#include "wire/url.h"
#include "base/banned.h"

enum state {
    SEARCH, /* data of the preamble or of a part */
    AFTER_DELIM,
    AFTER_CR,
    AFTER_DASH,
    PART_HEAD,
    EPILOGUE,
    BAD,
};

/* Takes the next "; name=value" of a header, undoing quotes in place in `to`. -1: malformed. */
static int next_param(struct sg_str *rest, struct sg_str *name, char **to, const char **value)
{
    while (rest->n && (*rest->p == ' ' || *rest->p == '\t' || *rest->p == ';')) {
        rest->p++;
        rest->n--;
    }
    if (!rest->n)
        return 0;
    const char *end = rest->p + rest->n, *p = rest->p;
    while (p < end && sg_http_class[(uint8_t)*p] & SG_HTTP_TOKEN)
        p++;
    *name = (struct sg_str) { rest->p, (size_t)(p - rest->p) };
    if (!name->n || p == end || *p++ != '=')
        return -1;
    bool is_quoted = p < end && *p == '"';
    *value = *to;
    for (p += is_quoted; p < end && *p != (is_quoted ? '"' : ';'); p++) {
        if (is_quoted && *p == '\\' && p + 1 < end && (p[1] == '"' || p[1] == '\\'))
            p++;
        *(*to)++ = *p;
    }
    if (is_quoted && p++ == end)
        return -1;
    *(*to)++ = '\0';
    *rest = (struct sg_str) { p, (size_t)(end - p) };
    return 1;
}

/* Where the parameters begin; NULL when the value is not `kind`. */
static const char *after_kind(const char *value, const char *kind)
{
    size_t n = strcspn(value, "; \t");
    return sg_http1_same((struct sg_str) { value, n }, kind) ? value + n : NULL;
}

static bool is_boundary(const char *s)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "'()+_,-./:=? ";
    size_t n = strlen(s);
    return n && n <= SG_MULTIPART_MAX_BOUNDARY && strspn(s, allowed) == n && s[n - 1] != ' ';
}

int sg_multipart_init(struct sg_multipart *m, const char *content_type, struct sg_err *err)
{
    m->name = m->filename = m->type = NULL;
    m->state = SEARCH;
    m->matched = 2; /* as if a CRLF had been before the first line */
    m->is_in_part = false;
    m->head_n = m->line_n = 0;
    const char *params = content_type ? after_kind(content_type, "multipart/form-data") : NULL;
    if (!params || strlen(params) >= SG_MULTIPART_MAX_HEAD)
        return sg_fail(err, SG_INVALID, "Content-Type is not multipart/form-data");
    struct sg_str rest = sg_str_of(params), name;
    char *to = m->head;
    const char *value, *boundary = NULL;
    int got;
    while ((got = next_param(&rest, &name, &to, &value)) > 0)
        if (sg_http1_same(name, "boundary"))
            boundary = value;
    if (got < 0 || !boundary || !is_boundary(boundary))
        return sg_fail(err, SG_INVALID, "Content-Type of the upload has no usable boundary");
    m->delim_n = (uint8_t)(4 + strlen(boundary));
    memcpy(m->delim, "\r\n--", 4);
    memcpy(m->delim + 4, boundary, m->delim_n - 4u);
    return 0;
}

/* How much of the end of `p` could be the beginning of the delimiter. */
static size_t partial_match(const struct sg_multipart *m, const uint8_t *p, size_t n)
{
    size_t window = n < m->delim_n - 1u ? n : m->delim_n - 1u;
    const uint8_t *cr = window ? memrchr(p + n - window, '\r', window) : NULL;
    size_t tail = cr ? (size_t)(p + n - cr) : 0;
    return tail && memcmp(cr, m->delim, tail) == 0 ? tail : 0;
}

/* Data up to the delimiter. An empty `ret` with state SEARCH: more input is needed. */
static void search(struct sg_multipart *m, struct sg_input *in, struct sg_input *ret)
{
    *ret = (struct sg_input) { 0 };
    if (m->matched) {
        while (in->n && m->matched < m->delim_n && *in->p == (uint8_t)m->delim[m->matched]) {
            (void)sg_input_take(in, 1);
            m->matched++;
        }
        if (m->matched == m->delim_n)
            m->state = AFTER_DELIM;
        else if (in->n) { /* it was data after all */
            *ret = (struct sg_input) { (uint8_t *)m->delim, m->matched };
            m->matched = 0;
        }
        return;
    }
    const uint8_t *found = in->n ? memmem(in->p, in->n, m->delim, m->delim_n) : NULL;
    size_t held = found ? 0 : partial_match(m, in->p, in->n);
    size_t n = found ? (size_t)(found - in->p) : in->n - held;
    *ret = (struct sg_input) { sg_input_take(in, n), n };
    if (found) {
        (void)sg_input_take(in, m->delim_n);
        m->state = AFTER_DELIM;
    } else if (held) {
        (void)sg_input_take(in, held);
        m->matched = (uint8_t)held;
    }
}

static int disposition(struct sg_multipart *m, const char *value, char **to)
{
    const char *params = after_kind(value, "form-data");
    if (!params || m->name)
        return -1;
    struct sg_str rest = sg_str_of(params), name;
    const char *text, *wide = NULL;
    int got;
    while ((got = next_param(&rest, &name, to, &text)) > 0) {
        if (!sg_utf8_valid(text, strlen(text)))
            return -1;
        if (sg_http1_same(name, "name"))
            m->name = text;
        else if (sg_http1_same(name, "filename"))
            m->filename = text;
        else if (sg_http1_same(name, "filename*"))
            wide = text;
    }
    if (wide && strncasecmp(wide, "utf-8''", 7) == 0) { /* RFC 8187; shrinks in place */
        if (sg_url_decode(sg_str_of(wide + 7), false, *to, NULL) < 0)
            return -1;
        m->filename = *to;
        *to += strlen(*to) + 1;
    }
    return got < 0 || !m->name ? -1 : 0;
}

/* The gathered lines, each ended by CRLF, and the empty one. Values are decoded over what was read
 * already: they only shrink. */
static int parse_part_head(struct sg_multipart *m)
{
    char copy[SG_MULTIPART_MAX_HEAD + 1];
    memcpy(copy, m->head, m->head_n);
    char *to = m->head;
    m->name = m->filename = m->type = NULL;
    for (size_t at = 0; at < m->head_n - 2;) {
        char *line = copy + at, *end = memchr(line, '\n', m->head_n - at);
        if (!end || end == line || end[-1] != '\r')
            return -1;
        end[-1] = '\0';
        at = (size_t)(end + 1 - copy);
        char *colon = strchr(line, ':');
        struct sg_str name = { line, colon ? (size_t)(colon - line) : 0 };
        if (!name.n || !sg_http1_all(name, SG_HTTP_TOKEN))
            return -1;
        const char *value = colon + 1 + strspn(colon + 1, " \t");
        if (!sg_http1_all(sg_str_of(value), SG_HTTP_VALUE) ||
            strlen(value) != (size_t)(end - 1 - value))
            return -1;
        if (sg_http1_same(name, "content-disposition") && disposition(m, value, &to) < 0)
            return -1;
        if (sg_http1_same(name, "content-type") && !m->type) {
            m->type = to;
            to = mempcpy(to, value, strlen(value) + 1);
        }
    }
    return m->name ? 0 : -1;
}

/* One byte around and in the head of a part. */
static enum state step(struct sg_multipart *m, uint8_t b)
{
    switch ((enum state)m->state) {
    case AFTER_DELIM:
        return b == '\r' ? AFTER_CR : b == '-' ? AFTER_DASH : BAD;
    case AFTER_CR:
        m->head_n = m->line_n = 0;
        return b == '\n' ? PART_HEAD : BAD;
    case AFTER_DASH:
        return b == '-' ? EPILOGUE : BAD;
    case PART_HEAD:
        if (m->head_n == SG_MULTIPART_MAX_HEAD / 2) /* decoding never needs more than the rest */
            return BAD;
        m->head[m->head_n++] = (char)b;
        m->line_n++;
        if (b != '\n')
            return PART_HEAD;
        if (m->line_n == 2 && m->head[m->head_n - 2] == '\r')
            return SEARCH;
        m->line_n = 0;
        return PART_HEAD;
    case SEARCH:
    case EPILOGUE:
    case BAD:
        break;
    }
    return BAD;
}

static enum sg_multipart_got bad(struct sg_multipart *m, struct sg_err *err)
{
    m->state = BAD;
    sg_fail(err, SG_INVALID, "the multipart body is malformed");
    return SG_MULTIPART_BAD;
}

static enum sg_multipart_got head_done(struct sg_multipart *m, struct sg_err *err)
{
    if (parse_part_head(m) < 0)
        return bad(m, err);
    m->is_in_part = true;
    m->matched = 0;
    return SG_MULTIPART_PART;
}

enum sg_multipart_got sg_multipart_next(struct sg_multipart *m, struct sg_input *in,
                                        struct sg_input *ret, struct sg_err *err)
{
    for (;;) {
        if (m->state == BAD)
            return SG_MULTIPART_BAD;
        if (m->state == EPILOGUE) {
            (void)sg_input_take(in, in->n);
            return SG_MULTIPART_END;
        }
        if (!in->n)
            return SG_MULTIPART_MORE;
        if (m->state == SEARCH) {
            search(m, in, ret);
            if (ret->n && m->is_in_part)
                return SG_MULTIPART_DATA;
            continue;
        }
        if (m->state == AFTER_DELIM && m->is_in_part) {
            m->is_in_part = false;
            return SG_MULTIPART_PART_END;
        }
        m->state = (uint8_t)step(m, *sg_input_take(in, 1));
        if (m->state == SEARCH)
            return head_done(m, err);
        if (m->state == BAD)
            return bad(m, err);
    }
}
