#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Finishes the root of `code-interpreter-full`. mmdebstrap runs it with the path of the new root.
set -eu
root=$1
here=$(dirname "$0")
"$here/../code-interpreter-v1/setup.sh" "$root"

# One program for both languages: it looks at its own name.
install -m 0755 "$here/kernels/fields.py" "$root/opt/sandglass/kernels/r"
ln "$root/opt/sandglass/kernels/r" "$root/opt/sandglass/kernels/java"
install -m 0644 "$here/lib/kernel.R" "$root/opt/sandglass/lib"
install -m 0644 "$here/lib/Kernel.java" "$root/opt/sandglass/lib"
chroot "$root" javac -d /opt/sandglass/lib /opt/sandglass/lib/Kernel.java
