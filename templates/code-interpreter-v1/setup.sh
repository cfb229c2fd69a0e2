#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Finishes the root of `code-interpreter-v1`. mmdebstrap runs it with the path of the new root.
set -eu
root=$1
here=$(dirname "$0")
"$here/../base/setup.sh" "$root"

# Tests of the libraries, and data of their examples: files that no program reads. Not by path rules of
# dpkg: the packages' own scripts compile what they think is there.
find "$root/usr/lib/python3/dist-packages" -depth -type d -name tests -exec rm -rf {} +
rm -rf "$root/usr/share/matplotlib/sample_data"

# One program per language in kernels/, named after it; what they need lies beside.
mkdir -p "$root/opt/sandglass/kernels" "$root/opt/sandglass/lib" "$root/opt/sandglass/warm"
cp -R "$here/kernels/python" "$root/opt/sandglass/python"
cp -R "$here/parse" "$root/opt/sandglass/parse"
install -m 0755 "$here/parse/parse.py" "$root/opt/sandglass/parse/parse"
install -m 0644 "$here/lib/driver.py" "$here/lib/javascript.cjs" "$root/opt/sandglass/lib"
install -m 0755 "$here/kernels/bash.py" "$root/opt/sandglass/kernels/bash"
install -m 0755 "$here/kernels/javascript.py" "$root/opt/sandglass/kernels/javascript"
chroot "$root" python3 -m compileall -q /opt/sandglass/python /opt/sandglass/parse /opt/sandglass/lib
install -m 0755 "$here/kernels/sandglass-thaw" "$root/opt/sandglass/kernels/python"
install -m 0644 "$here/kernels/libsandglass-freeze.so" "$root/opt/sandglass/lib"
install -m 0755 "$here/finish.sh" "$root/opt/sandglass/finish"

# IPython makes the directories of a profile where they are missing: here nobody may write.
for part in db log pid security startup; do
    mkdir -p "$root/opt/sandglass/ipython/profile_default/$part"
done
: >"$root/opt/sandglass/ipython/profile_default/startup/README"
mkdir -p "$root/opt/sandglass/ipython/extensions" "$root/opt/sandglass/ipython/nbextensions"
chmod -R go-w,a+rX "$root/opt/sandglass"
chown -R 0:0 "$root/opt/sandglass"
