/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resolv.h"

#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "base/banned.h"

#define BLANKS " \t\r"

size_t sg_resolv_servers(char *text, char **ret, size_t max)
{
    size_t n = 0;
    for (char *line = text; *line && n < max;) {
        char *end = line + strcspn(line, "\n");
        const bool is_last = !*end;
        *end = '\0';
        if (sg_starts_with(line, "nameserver") && (line[10] == ' ' || line[10] == '\t')) {
            char *word = line + 10 + strspn(line + 10, " \t");
            word[strcspn(word, " \t#;%")] = '\0';
            ret[n++] = word;
        }
        line = is_last ? end : end + 1;
    }
    return n;
}

static bool names(struct sg_str line, const char *name)
{
    const size_t wanted = strlen(name);
    for (size_t at = 0; at < line.n;) {
        while (at < line.n && strchr(BLANKS, line.p[at]))
            at++;
        size_t end = at;
        while (end < line.n && !strchr(BLANKS, line.p[end]))
            end++;
        if (end - at == wanted && strncasecmp(line.p + at, name, wanted) == 0)
            return true;
        at = end;
    }
    return false;
}

size_t sg_hosts_find(const char *text, const char *name, struct sg_addr *ret, size_t max)
{
    size_t n = 0;
    for (const char *line = text; *line && n < max; line += *line == '\n') {
        const size_t all = strcspn(line, "\n"), length = strcspn(line, "\n#");
        const size_t word = strcspn(line, BLANKS "\n#");
        struct sg_addr a;
        if (word && word < length && names((struct sg_str) { line + word, length - word }, name) &&
            sg_addr_parse((struct sg_str) { line, word }, &a, NULL) == 0)
            ret[n++] = a;
        line += all;
    }
    return n;
}
