# shellcheck shell=bash disable=SC2154 # read by bench/run, which sets dir and sandglass
# SPDX-License-Identifier: Apache-2.0
# The competition: a root directory for all, and a Docker Engine of our own.

engine_pid=

# A skeleton as `sandglass run` makes it, copied to where others can use it.
make_rootfs()
{
    SANDGLASS_STATE_DIR=$dir/state "$sandglass" run -- /bin/true
    cp -a "$dir"/state/templates/.host-*/root "$dir/rootfs"
}

# /bin/true and what it is linked with, nothing else.
make_image()
{
    local file image=$dir/image
    for file in /bin/true $(ldd /bin/true | grep -o '/[^ ]*'); do
        mkdir -p "$image$(dirname "$file")"
        cp -L "$file" "$image$file"
    done
    tar -C "$image" -c . | docker_client import - sgbench >/dev/null
}

docker_client()
{
    /usr/bin/docker --host "unix://$dir/docker.sock" "$@"
}

# No bridge and no firewall rules: nothing of the machine's network is touched.
start_engine()
{
    local tries
    echo '{}' >"$dir/docker.json"
    setpriv --pdeathsig TERM dockerd --config-file "$dir/docker.json" --host "unix://$dir/docker.sock" \
        --data-root "$dir/docker" --exec-root "$dir/docker-run" --pidfile "$dir/docker.pid" \
        --cgroup-parent "/sgbench-$$" --bridge=none --iptables=false --ip6tables=false \
        >"$dir/docker.log" 2>&1 &
    engine_pid=$!
    for ((tries = 0; tries < 150; tries++)); do
        ! docker_client version >/dev/null 2>&1 || return 0
        kill -0 "$engine_pid" 2>/dev/null || break
        sleep 0.1
    done
    return 1
}

# $*: the arguments of the benchmark. Only one case has peers.
peers_up()
{
    local program
    make_rootfs
    case " $* " in
    *" --only run "*) ;;
    *" --only "*) return ;;
    esac
    for program in bwrap crun dockerd docker; do
        [ -x "/usr/bin/$program" ] || [ -x "/usr/sbin/$program" ] ||
            echo "bench: no $program: 'tools/deps bench' installs it" >&2
    done
    if [ -x /usr/bin/docker ] && [ -x /usr/sbin/dockerd ]; then
        if ! { start_engine && make_image; }; then
            echo "bench: docker does not run here:" >&2
            tail -n 3 "$dir/docker.log" >&2
            stop_engine
        fi
    fi
}

stop_engine()
{
    if [ -n "$engine_pid" ]; then
        kill "$engine_pid" 2>/dev/null || true
        wait "$engine_pid" 2>/dev/null || true
        engine_pid=
    fi
    rm -f "$dir/docker.sock"
}

peers_down()
{
    stop_engine
    rmdir "/sys/fs/cgroup/sgbench-$$" /sys/fs/cgroup/*/"sgbench-$$" 2>/dev/null || true
}
