#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# musl-build.sh CC OUTPUT DEPFILE INCLUDE WERROR SOURCES...: one static program from all sources.
# Meson has one compiler per machine, and that one is glibc's.
set -eu
cc=$1 output=$2 depfile=$3 include=$4 werror=$5
shift 5

# The kernel's headers come after musl's own. No -Wconversion: musl's socket macros fail it, and the
# library of the same sources is built with it.
compile() {
    "$cc" -std=gnu17 -D_GNU_SOURCE -I"$include" -idirafter /usr/include \
        -idirafter "/usr/include/$("$cc" -print-multiarch)" \
        -Wall -Wextra -Wshadow -Wvla -Wstrict-prototypes -Wmissing-prototypes -Wno-format-truncation \
        "$@"
}

if [ "$werror" = true ]; then
    set -- -Werror "$@"
fi
compile -MM -MT "$output" "$@" >"$depfile"
compile -Os -static -s -fstack-protector-strong -fno-common -fno-asynchronous-unwind-tables \
    -ffunction-sections -fdata-sections -Wl,--gc-sections -fmacro-prefix-map="$include/=src/" \
    "$@" -o "$output"
