/* SPDX-License-Identifier: Apache-2.0 */
#include "net/name.h"

#include <string.h>

#include "base/banned.h"

enum { LABEL_MAX = 63 };

static bool is_fine(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* The last label of a spelled address is a number: decimal, octal, or hexadecimal behind 0x. */
static bool is_number(const char *label)
{
    if (label[0] == '0' && label[1] == 'x')
        return strspn(label + 2, "0123456789abcdef") == strlen(label + 2);
    return strspn(label, "0123456789") == strlen(label);
}

static int check_label(const char *label, size_t n, struct sg_str whole, struct sg_err *err)
{
    if (n == 0 || n > LABEL_MAX)
        return sg_fail(err, SG_INVALID, "%s is no name: a part of it is %s", sg_quote_str(whole).s,
                       n ? "over 63 bytes" : "empty");
    if (label[0] == '-' || label[n - 1] == '-')
        return sg_fail(err, SG_INVALID, "%s is no name: a part of it begins or ends with '-'",
                       sg_quote_str(whole).s);
    return 0;
}

int sg_name_parse(struct sg_str text, struct sg_name *ret, struct sg_err *err)
{
    struct sg_name own = { 0 };
    size_t n = text.n, start = 0;
    if (n && text.p[n - 1] == '.')
        n--;
    if (n == 0 || n > SG_NAME_MAX)
        return sg_fail(err, SG_INVALID, "%s is no name: it is %s", sg_quote_str(text).s,
                       n ? "over 253 bytes" : "empty");
    for (size_t i = 0; i <= n; i++) {
        char c = i < n ? text.p[i] : '.';
        if (c >= 'A' && c <= 'Z')
            c = (char)(c + ('a' - 'A'));
        if (c != '.' && !is_fine(c))
            return sg_fail(err, SG_INVALID, "%s is no name: only letters, digits, '-' and '_'",
                           sg_quote_str(text).s);
        if (c == '.') {
            if (check_label(own.s + start, i - start, text, err) < 0)
                return -1;
            start = i + 1;
        }
        if (i < n)
            own.s[i] = c;
    }
    const char *dot = strrchr(own.s, '.');
    if (is_number(dot ? dot + 1 : own.s))
        return sg_fail(err, SG_INVALID, "%s is an address, in a spelling that is not accepted",
                       sg_quote_str(text).s);
    *ret = own;
    return 0;
}

bool sg_name_is_below(const char *name, const char *suffix)
{
    const size_t n = strlen(name), m = strlen(suffix);
    return n > m + 1 && name[n - m - 1] == '.' && memcmp(name + n - m, suffix, m) == 0;
}
