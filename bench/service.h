/* SPDX-License-Identifier: Apache-2.0 */
/* The service that bench/run has started, as the cases see it. */
#pragma once

#include "bench.h"
#include "http.h"

enum { SG_BENCH_ID = 24 };

struct sg_service {
    uint16_t port, nginx_port; /* nginx_port 0: there is none */
    uint16_t names_port;       /* where the gate asks for names */
    uint16_t tls_port;         /* of the same nginx; 0: there is none */
    char key[64];
    char run_dir[256];
};

/* SG_NOT_FOUND: bench/run has started none. Makes a key. */
int sg_service_find(const struct sg_bench *b, struct sg_service *ret, struct sg_err *err);
int sg_service_connect(const struct sg_service *s, struct sg_http *h, struct sg_err *err);

int sg_service_create(struct sg_http *h, char ret_id[SG_BENCH_ID], struct sg_err *err);
int sg_service_destroy(struct sg_http *h, const char *id, struct sg_err *err);
int sg_service_exec_true(struct sg_http *h, const char *id, struct sg_err *err);
/* Until as many are parked as are wanted. */
int sg_service_await_pool(struct sg_http *h, struct sg_err *err);
/* Of the launcher's child of that name. */
int sg_service_kib(const struct sg_service *s, const char *program, uint64_t *ret_kib,
                   struct sg_err *err);

int sg_case_service(const struct sg_bench *b, struct sg_err *err);
int sg_case_crowd(const struct sg_bench *b, struct sg_err *err);
int sg_case_http(const struct sg_bench *b, struct sg_err *err);
int sg_case_sdk(const struct sg_bench *b, struct sg_err *err);
int sg_case_router(const struct sg_bench *b, struct sg_err *err);
int sg_case_storage(const struct sg_bench *b, struct sg_err *err);
/* case_disk.c: rows of the same case. */
int sg_bench_disk(const struct sg_bench *b, struct sg_http *h, struct sg_err *err);
/* case_build.c: the same. */
int sg_bench_builds(const struct sg_bench *b, struct sg_http *h, struct sg_err *err);
/* case_gvisor.c, case_docker.c: rows of the case of tiers. */
int sg_bench_gvisor(const struct sg_bench *b, const struct sg_service *s, struct sg_err *err);
int sg_bench_docker(const struct sg_bench *b, const struct sg_service *s, struct sg_err *err);
int sg_case_tiers(const struct sg_bench *b, struct sg_err *err);
int sg_case_gate(const struct sg_bench *b, struct sg_err *err);
/* case_swap.c: rows of the same case, while its server of names runs. */
int sg_bench_swap(const struct sg_bench *b, const struct sg_service *s, struct sg_http *h,
                  struct sg_err *err);
int sg_case_code(const struct sg_bench *b, struct sg_err *err);
