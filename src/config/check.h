/* SPDX-License-Identifier: Apache-2.0 */
/* What a text setting may hold; for the rows of the option table. Each fails as SG_INVALID. */
#pragma once

#include "base/err.h"

int sg_check_filled(const char *text, struct sg_err *err);
int sg_check_proxy(const char *text, struct sg_err *err); /* [USER@]HOST:PORT, without a password */
int sg_check_absolute(const char *text, struct sg_err *err);
int sg_check_hostname(const char *text, struct sg_err *err);
int sg_check_user(const char *text, struct sg_err *err);
int sg_check_env(const char *text, struct sg_err *err);
int sg_check_copy(const char *text, struct sg_err *err);
int sg_check_bind(const char *text, struct sg_err *err);
int sg_check_pair(const char *text, struct sg_err *err);     /* NAME=VALUE */
int sg_check_listen(const char *text, struct sg_err *err);   /* 127.0.0.1:8787, [::1]:8787 */
int sg_check_domain(const char *text, struct sg_err *err);   /* example.org:8443; or "" */
int sg_check_pool(const char *text, struct sg_err *err);     /* TEMPLATE=NUMBER */
int sg_check_level(const char *text, struct sg_err *err);    /* of a log */
int sg_check_url(const char *text, struct sg_err *err);      /* http://HOST[:PORT], unix:PATH */
int sg_check_endpoint(const char *text, struct sg_err *err); /* http[s]://HOST/PATH; or "" */
int sg_check_storage(const char *text, struct sg_err *err);  /* auto, image, tmpfs, /DIR */
