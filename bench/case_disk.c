/* SPDX-License-Identifier: Apache-2.0 */
/* Writing inside a sandbox against writing to the disk that its storage pool lies on: fio, the same
 * job in turns. Without fsync, since what it says inside is not the disk's word (docs/design/
 * storage.md, "Volatile"): what is compared is the way of the bytes through overlay, quota and
 * btrfs, and the pressure of what has to go to the disk meanwhile. A volume is compared with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/parse.h"
#include "service.h"
#include "base/banned.h"

enum { ROUNDS = 7, MAX_LINE = 4096, BANDWIDTH_AT = 47, NS = 1000000000 };

struct job {
    const char *what, *options; /* options: of fio, without the directory */
    const char *inside;         /* the directory */
    double mib, bar;            /* bar: how much longer it may take than on the host */
};

#define COMMON "--name=w --fallocate=none --output-format=terse --terse-version=3 --rw=write"
#define STREAM COMMON " --bs=1M --size=512M --unlink=1"
#define CREATES                                                                                    \
    COMMON " --bs=4k --filesize=4k --nrfiles=8000 --openfiles=1 --create_on_open=1 "               \
           "--file_service_type=sequential --unlink=1"

static const struct job jobs[] = {
    { "fio, 512 MiB in a row (other: host)", STREAM, "/workspace", 512, 1 / 0.7 },
    { "fio, 8000 files of 4 KiB (host)", CREATES, "/workspace", 31.25, 1 / 0.5 },
    { "fio, 512 MiB to a volume, fsync (host)", STREAM " --end_fsync=1", "/v", 512, 1 / 0.7 },
};

/* A line of semicolons; the bandwidth of writing in KiB/s as the time of all. */
static int read_time(const char *line, double mib, uint64_t *ret_ns, struct sg_err *err)
{
    const char *p = line;
    uint64_t kib = 0;
    for (int i = 0; i < BANDWIDTH_AT && p; i++)
        p = (p = strchr(p, ';')) ? p + 1 : NULL;
    if (!p || sg_parse_u64((struct sg_str) { p, strcspn(p, ";") }, 1, UINT32_MAX, &kib, err) < 0)
        return sg_fail(err, SG_INTERNAL, "fio said %.60s", line);
    *ret_ns = (uint64_t)(mib * 1024 / (double)kib * NS);
    return 0;
}

static int on_host(const struct sg_bench *b, const struct job *j, uint64_t *ret_ns,
                   struct sg_err *err)
{
    char line[MAX_LINE] = "";
    sg_auto_free char *command = sg_printf(
        "d=%s/disk; mkdir -p $d && fio %s --directory=$d 2>/dev/null", b->dir, j->options);
    FILE *f = popen(command, "r");
    if (!f)
        return sg_fail_sys(err, "run fio");
    const bool is_read = fgets(line, sizeof line, f) != NULL;
    if (pclose(f) != 0 || !is_read)
        return sg_fail(err, SG_NOT_FOUND, "fio does not run here: 'tools/deps bench'");
    return read_time(line, j->mib, ret_ns, err);
}

static int in_sandbox(struct sg_http *h, const char *id, const struct job *j, uint64_t *ret_ns,
                      struct sg_err *err)
{
    char path[96], line[MAX_LINE];
    sg_auto_free char *body = sg_printf("{\"argv\":[\"sh\",\"-c\",\"exec fio %s --directory=%s\"]}",
                                        j->options, j->inside);
    (void)snprintf(path, sizeof path, "/v1/sandboxes/%s/exec", id);
    if (sg_http_ask(h, "POST", path, body, 200, err) < 0 ||
        sg_http_member(h, "stdout", line, sizeof line, err) < 0)
        return -1;
    return read_time(line, j->mib, ret_ns, err);
}

static int compare(const struct sg_bench *b, struct sg_http *h, const char *id, const struct job *j,
                   struct sg_err *err)
{
    const unsigned n = sg_bench_rounds(b, ROUNDS);
    struct sg_series ours, host;
    int result = 0;
    sg_series_init(&ours, n);
    sg_series_init(&host, n);
    for (unsigned i = 0; i < n && result == 0; i++) {
        uint64_t here = 0, there = 0;
        sync(); /* nobody pays for what another left */
        result = on_host(b, j, &there, err);
        sync();
        if (result == 0)
            result = in_sandbox(h, id, j, &here, err);
        sg_series_add(&host, there);
        sg_series_add(&ours, here);
    }
    if (result == 0)
        sg_report_add(b->report,
                      &(struct sg_row) { .case_name = "storage",
                                         .what = j->what,
                                         .unit = SG_UNIT_MS,
                                         .n = n,
                                         .peer_n = n,
                                         .median = (double)sg_series_median(&ours) / 1e6,
                                         .min = (double)sg_series_min(&ours) / 1e6,
                                         .peer_median = (double)sg_series_median(&host) / 1e6,
                                         .peer_min = (double)sg_series_min(&host) / 1e6,
                                         .bar = j->bar });
    sg_series_done(&ours);
    sg_series_done(&host);
    return result;
}

int sg_bench_disk(const struct sg_bench *b, struct sg_http *h, struct sg_err *err)
{
    /* The host has all of its memory for what is on the way to the disk. With the usual 512 MiB the
     * same 512 MiB would be waited for inside, and the race be one of memory. */
    static const char create[] = "{\"timeoutMs\":0,"
                                 "\"limits\":{\"diskBytes\":2147483648,\"memoryBytes\":2147483648},"
                                 "\"mounts\":[{\"volume\":\"bench\",\"path\":\"/v\"}]}";
    char id[SG_BENCH_ID];
    if (sg_http_ask(h, "POST", "/v1/volumes", "{\"name\":\"bench\",\"bytes\":2147483648}", 201,
                    err) < 0 ||
        sg_http_ask(h, "POST", "/v1/sandboxes", create, 201, err) < 0 ||
        sg_http_member(h, "id", id, sizeof id, err) < 0)
        return -1;
    for (size_t i = 0; i < SG_COUNT(jobs); i++)
        if (compare(b, h, id, &jobs[i], err) < 0)
            return -1;
    if (sg_service_destroy(h, id, err) < 0)
        return -1;
    return sg_http_ask(h, "DELETE", "/v1/volumes/bench", NULL, 204, err);
}
