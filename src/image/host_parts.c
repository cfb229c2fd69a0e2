/* SPDX-License-Identifier: Apache-2.0 */
/* The rule for /etc: a file gets in by being named here with a reason, never by default. What can
 * hold a secret or a private address (ssh, sudoers, pip.conf, npmrc, gitconfig, resolv.conf,
 * ssl/private, machine-id, fstab) is not copied. */
#include "image/host_parts.h"

#include "base/auto.h"

#include "base/banned.h"

const struct sg_host_dir sg_host_dirs[] = {
    { "dev", 0755, false },      { "etc", 0755, false },       { "home", 0755, false },
    { "home/user", 0755, true }, { "media", 0755, false },     { "mnt", 0755, false },
    { "opt", 0755, false },      { "proc", 0555, false },      { "root", 0700, false },
    { "run", 0755, false },      { "run/lock", 01777, false }, { "srv", 0755, false },
    { "sys", 0555, false },      { "tmp", 01777, false },      { "usr", 0755, false },
    { "var", 0755, false },      { "var/cache", 0755, false }, { "var/lib", 0755, false },
    { "var/log", 0755, false },  { "var/tmp", 01777, false },  { "workspace", 0755, true },
};
const size_t sg_host_dir_count = SG_COUNT(sg_host_dirs);

const struct sg_host_file sg_host_files[] = {
    { "etc/passwd", 0644,
      "root:x:0:0:root:/root:/bin/bash\n"
      "user:x:1000:1000:user:/home/user:/bin/bash\n"
      "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
    { "etc/group", 0644,
      "root:x:0:\n"
      "tty:x:5:\n"
      "user:x:1000:\n"
      "nogroup:x:65534:\n" },
    { "etc/shadow", 0640,
      "root:*:19000:0:99999:7:::\n"
      "user:*:19000:0:99999:7:::\n"
      "nobody:*:19000:0:99999:7:::\n" },
    { "etc/hosts", 0644,
      "127.0.0.1\tlocalhost\n"
      "127.0.1.1\tsandbox\n"
      "::1\tlocalhost ip6-localhost ip6-loopback\n" },
    { "etc/hostname", 0644, "sandbox\n" },
    /* The gate's, as SG_CELL_RESOLV_CONF has it: a cell that finds it so writes no other. Without a
     * network nobody is there. */
    { "etc/resolv.conf", 0644, "nameserver 198.18.0.1\n" },
    { "etc/machine-id", 0444, "" }, /* each cell's own is bound over it */
    { "etc/nsswitch.conf", 0644,
      "passwd: files\n"
      "group: files\n"
      "shadow: files\n"
      "hosts: files dns\n"
      "networks: files\n"
      "protocols: files\n"
      "services: files\n" },
    { "etc/host.conf", 0644, "multi on\n" },
    { "etc/shells", 0644, "/bin/sh\n/bin/bash\n/usr/bin/sh\n/usr/bin/bash\n" },
    { "etc/environment", 0644, "" },
    { "etc/profile", 0644,
      "if [ \"${BASH-}\" ] && [ -r /etc/bash.bashrc ]; then . /etc/bash.bashrc; fi\n" },
    { "etc/bash.bashrc", 0644,
      "[ -z \"$PS1\" ] && return\n"
      "shopt -s checkwinsize\n"
      "PS1='\\u@\\h:\\w\\$ '\n" },
};
const size_t sg_host_file_count = SG_COUNT(sg_host_files);

const struct sg_host_link sg_host_links[] = {
    { "etc/localtime", "/usr/share/zoneinfo/Etc/UTC" },
    { "etc/mtab", "../proc/self/mounts" },
    { "etc/os-release", "../usr/lib/os-release" },
    { "var/run", "../run" },
    { "var/lock", "../run/lock" },
};
const size_t sg_host_link_count = SG_COUNT(sg_host_links);

const struct sg_host_copy sg_host_copies[] = {
    { "ld.so.cache", false, "every program finds its libraries by it" },
    { "ld.so.conf", false, "ldconfig inside gives the same result" },
    { "ld.so.conf.d", false, "the same" },
    { "ld-musl-", true, "library path of musl programs" },
    { "alternatives", false, "/usr/bin/awk, editor, java, ... are links through it" },
    { "ssl/certs", false, "certificate authorities of OpenSSL, curl, Python" },
    { "ssl/openssl.cnf", false, "OpenSSL refuses some calls without it" },
    { "ca-certificates.conf", false, "update-ca-certificates inside" },
    { "pki/tls/certs", false, "certificate authorities on Fedora and its like" },
    { "pki/ca-trust/extracted", false, "the same" },
    { "localtime", false, "the clock reads as on the host" },
    { "timezone", false, "the same" },
    { "mime.types", false, "Python, web servers: type by file name" },
    { "magic", false, "file(1) and libmagic" },
    { "magic.mime", false, "the same" },
    { "protocols", false, "getprotobyname()" },
    { "services", false, "getservbyname()" },
    { "ethertypes", false, "network tools" },
    { "rpc", false, "getrpcbyname()" },
    { "terminfo", false, "terminals that /usr/share/terminfo lacks" },
    { "inputrc", false, "keys of readline programs" },
    { "fonts", false, "fontconfig: browsers, plots, documents" },
    { "python3", true, "defaults of the Python interpreters" },
    { "perl", false, "Perl's site configuration" },
    { "java", true, "the JVM does not start without its conf directory" },
    { "gai.conf", false, "order of addresses" },
    { "debian_version", false, "installers ask for it" },
    { "lsb-release", false, "the same" },
};
const size_t sg_host_copy_count = SG_COUNT(sg_host_copies);

const char *const sg_host_roots[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };
const size_t sg_host_root_count = SG_COUNT(sg_host_roots);
