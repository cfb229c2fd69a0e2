#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the warm image of the Python kernel; run inside, at the end of the build. A new image gets its
# name when it is whole. Without one kernels start cold: slower, otherwise the same.
set -eu
dir=/opt/sandglass/warm
trap 'rm -f "$dir/python.new"' EXIT

# One thread, as a frozen process has; hashes of their own for each image.
export HOME=/home/user OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
unset PYTHONHASHSEED
/usr/bin/python3 /opt/sandglass/python/kernel.py --freeze "$dir/python.new" >/dev/null
chmod 0444 "$dir/python.new"
mv "$dir/python.new" "$dir/python.img"
