#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Finishes the root of `base`. mmdebstrap runs it with the path of the new root.
set -eu
root=$1

chroot "$root" useradd --uid 1000 --user-group --create-home --shell /bin/bash user
echo 'user ALL=(ALL:ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/user"
chmod 0440 "$root/etc/sudoers.d/user"

mkdir -p "$root/workspace"
chroot "$root" chown user:user /workspace

echo sandbox >"$root/etc/hostname"
cat >"$root/etc/hosts" <<'HOSTS'
127.0.0.1	localhost
127.0.1.1	sandbox
::1	localhost ip6-localhost ip6-loopback
HOSTS
echo '# no name server: this sandbox has no network' >"$root/etc/resolv.conf"

# What belongs to the machine that built it: its proxy and options, its caches, its identity.
rm -f "$root/etc/apt/apt.conf.d/99mmdebstrap"
rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*.bin "$root"/var/log/*.log "$root"/var/log/apt
: >"$root/etc/machine-id"
