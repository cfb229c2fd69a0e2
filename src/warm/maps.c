/* SPDX-License-Identifier: Apache-2.0 */
#include "warm/maps.h"

#include <fcntl.h>

#include "warm/raw.h"
#include "base/banned.h"

bool sg_maps_open(struct sg_maps *m)
{
    m->have = m->at = 0;
    m->fd = (int)sg_raw_open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    return m->fd >= 0;
}

void sg_maps_close(struct sg_maps *m)
{
    sg_raw_close(m->fd);
}

static bool take_hex(char **at, uint64_t *ret)
{
    uint64_t v = 0;
    char *p = *at;
    for (;; p++) {
        char c = *p;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                : 16;
        if (digit == 16 || p - *at > 16)
            break;
        v = v << 4 | digit;
    }
    bool is_number = p > *at && p - *at <= 16;
    *at = p;
    *ret = v;
    return is_number;
}

static bool take_char(char **at, char c)
{
    if (**at != c)
        return false;
    (*at)++;
    return true;
}

/* "r-xp" */
static bool take_rights(char **at, struct sg_map *ret)
{
    static const char letters[] = "rwx";
    ret->prot = 0;
    for (unsigned i = 0; i < 3; i++, (*at)++) {
        if (**at == letters[i])
            ret->prot |= 1u << i;
        else if (**at != '-')
            return false;
    }
    ret->is_shared = **at == 's';
    return take_char(at, 's') || take_char(at, 'p');
}

/* "7f00-8000 r-xp 00001000 fd:00 123        /usr/lib/x.so" */
bool sg_maps_parse(char *line, struct sg_map *ret)
{
    char *at = line;
    if (!take_hex(&at, &ret->start) || !take_char(&at, '-') || !take_hex(&at, &ret->end) ||
        !take_char(&at, ' ') || !take_rights(&at, ret) || !take_char(&at, ' ') ||
        !take_hex(&at, &ret->offset) || !take_char(&at, ' '))
        return false;
    for (unsigned words = 0; words < 2; words++) { /* device, inode */
        while (*at && *at != ' ')
            at++;
        while (*at == ' ')
            at++;
    }
    ret->name = at;
    return ret->start < ret->end;
}

/* The kernel gives whole lines, as many as fit. */
static bool fill(struct sg_maps *m)
{
    sg_raw_copy(m->buffer, m->buffer + m->at, m->have - m->at);
    m->have -= m->at;
    m->at = 0;
    long got = sg_raw3(SYS_read, m->fd, (long)(m->buffer + m->have),
                       (long)(sizeof m->buffer - 1 - m->have));
    if (sg_raw_failed(got) || got == 0)
        return false;
    m->have += (uint32_t)got;
    return true;
}

int sg_maps_next(struct sg_maps *m, struct sg_map *ret)
{
    for (;;) {
        for (uint32_t i = m->at; i < m->have; i++) {
            if (m->buffer[i] != '\n')
                continue;
            m->buffer[i] = '\0';
            char *line = m->buffer + m->at;
            m->at = i + 1;
            return sg_maps_parse(line, ret) ? 1 : -1;
        }
        if (!fill(m))
            return m->have == m->at ? 0 : -1;
    }
}
