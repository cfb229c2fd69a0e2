/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/str.h"
#include "base/banned.h"

/* The rest of the first line of `path` that starts with `key`, without blanks and colon. */
static void find_line(const char *path, const char *key, char *ret, size_t size)
{
    char line[256];
    sg_auto_file f = fopen(path, "re");
    ret[0] = '\0';
    while (f && fgets(line, sizeof line, f)) {
        if (!sg_starts_with(line, key))
            continue;
        const char *rest = line + strlen(key);
        rest += strspn(rest, " \t:");
        (void)snprintf(ret, size, "%.*s", (int)strcspn(rest, "\n"), rest);
        return;
    }
}

static uint64_t memory_kib(const char *key)
{
    char text[64];
    uint64_t kib = 0;
    find_line("/proc/meminfo", key, text, sizeof text);
    return sscanf(text, "%" SCNu64, &kib) == 1 ? kib : 0;
}

uint64_t sg_machine_available_kib(void)
{
    return memory_kib("MemAvailable");
}

void sg_machine_look(struct sg_machine *m)
{
    struct utsname u;
    *m = (struct sg_machine) { .mem_mib = memory_kib("MemTotal") / 1024 };
    find_line("/proc/cpuinfo", "model name", m->cpu, sizeof m->cpu);
    if (uname(&u) == 0)
        (void)snprintf(m->kernel, sizeof m->kernel, "%s", u.release);
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    m->cores = cores > 0 ? (unsigned)cores : 0;
    if (getloadavg(&m->load, 1) < 1)
        m->load = 0;
}
