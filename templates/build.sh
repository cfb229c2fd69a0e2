#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds a Debian root and writes it to stdout as a tar archive; talk goes to stderr.
#
#   build.sh MODE SUITE VARIANT PACKAGES SETUP [DPKG-OPTION...]
#
# Packages come from where this machine's own apt gets them: its sources (when they know the suite;
# mmdebstrap's default otherwise) and its proxy settings. Neither stays in the result's options.
set -eu
mode=$1 suite=$2 variant=$3 packages=$4 setup=$5
shift 5

count=$#
while [ "$count" -gt 0 ]; do
    set -- "$@" "--dpkgopt=$1"
    shift
    count=$((count - 1))
done

# "Acquire::http::Proxy "http://...";" and the like, one option each.
settings=$(apt-config dump Acquire 2>/dev/null |
    grep -E '^Acquire::(https?|ftp)::([^ ]*::)?Proxy[^ ]* "[^"]+";$|^Acquire::Retries "' || true)
if [ -n "$settings" ]; then
    while IFS= read -r setting; do
        set -- "$@" "--aptopt=$setting"
    done <<SETTINGS
$settings
SETTINGS
fi

set -- "$@" "$suite" -
for sources in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    if [ -s "$sources" ] && grep -v '^ *#' "$sources" | grep -qw "$suite"; then
        set -- "$@" "$sources"
    fi
done

# When the program that started us is gone, so is the reason to go on. In a process namespace of
# its own everything ends at once; mmdebstrap alone would first finish the step it is at.
guard="setpriv --pdeathsig TERM"
apart="unshare --mount --pid --fork --kill-child --mount-proc"
if [ "$mode" = root ] && $apart true 2>/dev/null; then
    guard="setpriv --pdeathsig KILL $apart"
fi
# shellcheck disable=SC2086 # words, not one name
exec $guard mmdebstrap --mode="$mode" --variant="$variant" --include="$packages" \
    --customize-hook="$setup" "$@"
