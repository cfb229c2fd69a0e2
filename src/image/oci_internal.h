/* SPDX-License-Identifier: Apache-2.0 */
/* Members of the documents of images: absent and null are the same, another type is SG_INVALID. */
#pragma once

#include "base/jsonr.h"
#include "image/oci.h"

const struct sg_jval *sg_oci_member(const struct sg_jval *v, const char *key);
int sg_oci_text(const struct sg_jval *v, const char *key, const char **ret, struct sg_err *err);
int sg_oci_number(const struct sg_jval *v, const char *key, uint64_t *ret, struct sg_err *err);
int sg_oci_array(const struct sg_jval *v, const char *key, size_t max, const struct sg_jval **ret,
                 size_t *ret_n, struct sg_err *err);
int sg_oci_words(const struct sg_jval *v, const char *key, struct sg_arena *a, const char ***ret,
                 struct sg_err *err);
int sg_oci_hex_of(const struct sg_jval *v, const char *key, struct sg_oci_hex *ret,
                  struct sg_err *err);
int sg_oci_no_memory(struct sg_err *err);
