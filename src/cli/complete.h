/* SPDX-License-Identifier: Apache-2.0 */
/* Completion scripts, written from the tables of commands and options. */
#pragma once

#include "base/buf.h"

void sg_complete_bash(struct sg_buf *out);
void sg_complete_zsh(struct sg_buf *out);
void sg_complete_fish(struct sg_buf *out);
