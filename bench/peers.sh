# shellcheck shell=bash disable=SC2154 # read by bench/run, which sets dir, build and sandglass
# SPDX-License-Identifier: Apache-2.0
# The competition: a root directory for all, and a Docker Engine of our own.

engine_pid=''
service_pid=''
nginx_pid=''

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
    tar -C "$image" -c . | docker_client import - sgbench >/dev/null && docker_client tag sgbench sgcold
}

# The same as a root for runsc, and as a template of ours that nothing is kept ready of.
make_runsc()
{
    local file root=$dir/runsc/rootfs
    [ -x /usr/bin/runsc ] || return 1
    mkdir -p "$root/proc" "$root/dev" "$root/tmp" "$root/etc" "$dir/runsc/state"
    for file in /bin/true $(ldd /bin/true | grep -o '/[^ ]*'); do
        mkdir -p "$root$(dirname "$file")"
        cp -L "$file" "$root$file"
    done
    echo 'root:x:0:0::/:/bin/true' >"$root/etc/passwd"
    SANDGLASS_STATE_DIR=$dir/state "$sandglass" template import tiny "$root" >/dev/null
    cat >"$dir/runsc/config.json" <<END
{"ociVersion": "1.0.2", "hostname": "sandbox", "root": {"path": "rootfs", "readonly": false},
 "process": {"terminal": false, "user": {"uid": 0, "gid": 0}, "args": ["/bin/true"], "cwd": "/",
             "env": ["PATH=/bin"], "capabilities": {}},
 "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
 "linux": {"namespaces": [{"type": "pid"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}]}}
END
}

# The service's own template `base`, built by its recipe.
make_base()
{
    python3 "$here/../tests/support/built_template.py" "$sandglass" "$dir/state"
}

# That of the code interpreter: built once, which takes minutes.
make_code()
{
    python3 "$here/../tests/support/built_template.py" "$sandglass" "$dir/state" code-interpreter-v1
}

# The same for docker.
make_base_image()
{
    tar -C "$dir/state/templates/base/root" -c . | docker_client import - sgbase >/dev/null &&
        touch "$dir/docker.base"
}

# The client that is pinned first, with what drives it.
find_sdk()
{
    python3 "$here/../tests/sdk/clients.py" npm url >"$dir/sdk.folder.new" || return 1
    echo "$here/sdk.mjs" >"$dir/sdk.script"
    mv "$dir/sdk.folder.new" "$dir/sdk.folder"
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

free_port()
{
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# $1: a command that succeeds when it is there; $2: who must live meanwhile.
await()
{
    local tries
    for ((tries = 0; tries < 300; tries++)); do
        ! eval "$1" >/dev/null 2>&1 || return 0
        kill -0 "$2" 2>/dev/null || break
        sleep 0.1
    done
    return 1
}

# The service, from an installation of its own.
start_service()
{
    local port names program base=0 code=0 gvisor="" ahead="" containers=()
    port=$(free_port)
    names=$(free_port)
    [ ! -d "$dir/state/templates/base" ] || base=16
    [ ! -d "$dir/state/templates/code-interpreter-v1" ] || code=8
    mkdir -p "$dir/inst/bin" "$dir/inst/libexec/sandglass" "$dir/run"
    mount -t tmpfs -o mode=0700 run "$dir/run" # as /run is
    cp "$sandglass" "$dir/inst/bin/"
    for program in "$build"/src/*/sandglassd "$build"/src/*/sandglass-*; do
        [ ! -f "$program" ] || cp "$program" "$dir/inst/libexec/sandglass/"
    done
    [ ! -S "$dir/docker.sock" ] || containers=(', "docker:host=1"' "[docker]" "socket = \"$dir/docker.sock\""
        'image = "sgbench"' 'pull = false')
    if [ -d "$dir/runsc" ]; then
        gvisor=runsc ahead=', "gvisor:host=1"'
    fi
    cat >"$dir/service.toml" <<END
state_dir = "$dir/state"
[serve]
listen = "127.0.0.1:$port"
run_dir = "$dir/run"
template = "host"
pool = ["host=64", "base=$base", "code-interpreter-v1=$code"$ahead${containers[0]:-}]
max_sandboxes = 2000
[router]
templates = ["host=cell", "base=cell", "code-interpreter-v1=cell"]
[gvisor]
runtime = "$gvisor"
[gate]
resolvers = ["127.0.0.1:$names"]
permit = ["127.0.0.1/32"]
END
    make_certificate && echo "ca_file = \"$dir/tls.pem\"" >>"$dir/service.toml"
    [ ${#containers[@]} = 0 ] || printf '%s\n' "${containers[@]:1}" >>"$dir/service.toml"
    SANDGLASS_CONFIG=$dir/service.toml setpriv --pdeathsig INT "$dir/inst/bin/sandglass" serve \
        >"$dir/service.log" 2>&1 &
    service_pid=$!
    if ! await "(exec 3<>/dev/tcp/127.0.0.1/$port) && test -S $dir/run/api.sock" "$service_pid"; then
        tail -n 5 "$dir/service.log" >&2
        return 1
    fi
    echo "$port" >"$dir/service.port"
    echo "$names" >"$dir/names.port"
}

# Of two names, which the gate's server of names takes to nginx; the gate trusts it.
make_certificate()
{
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=bench \
        -addext subjectAltName=DNS:far.bench.test,DNS:swap.bench.test \
        -keyout "$dir/tls.key" -out "$dir/tls.pem" 2>"$dir/tls.log"
}

# One worker, sendfile, no log: what it is best at.
start_nginx()
{
    local port tls secure=
    port=$(free_port)
    tls=$(free_port)
    if [ -f "$dir/tls.pem" ]; then
        secure="listen 127.0.0.1:$tls ssl; ssl_certificate $dir/tls.pem; ssl_certificate_key $dir/tls.key;"
        echo "$tls" >"$dir/tls.port"
    fi
    mkdir -p "$dir/nginx"
    chmod 755 "$dir" "$dir/nginx"
    printf '{"status":"ok"}' >"$dir/nginx/small"
    head -c 128M /dev/urandom >"$dir/nginx/large"
    cat >"$dir/nginx.conf" <<END
worker_processes 1;
user root;
daemon off;
pid $dir/nginx.pid;
error_log $dir/nginx.log;
events { worker_connections 256; }
http {
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 10000000;
    client_body_temp_path $dir/nginx-tmp; proxy_temp_path $dir/nginx-tmp; fastcgi_temp_path $dir/nginx-tmp;
    uwsgi_temp_path $dir/nginx-tmp; scgi_temp_path $dir/nginx-tmp;
    server {
        listen 127.0.0.1:$port; $secure root $dir/nginx;
        location /swapped { if (\$http_x_key = bench-secret-value) { return 204; } return 403; }
        location /put/ { dav_methods PUT; create_full_put_path on; client_max_body_size 1g; }
    }
}
END
    setpriv --pdeathsig TERM nginx -c "$dir/nginx.conf" 2>"$dir/nginx.err" &
    nginx_pid=$!
    await "exec 3<>/dev/tcp/127.0.0.1/$port" "$nginx_pid" && echo "$port" >"$dir/nginx.port"
}

stop()
{
    if [ -n "$1" ]; then
        kill "-$2" "$1" 2>/dev/null || true
        wait "$1" 2>/dev/null || true
    fi
}

# Docker, and an image by the function $1.
start_docker()
{
    [ -x /usr/bin/docker ] && [ -x /usr/sbin/dockerd ] || return 0
    if ! { { [ -n "$engine_pid" ] || start_engine; } && "$1"; }; then
        echo "bench: docker does not run here:" >&2
        tail -n 3 "$dir/docker.log" >&2
        stop_engine
    fi
}

# What a case needs beside the rootfs; in the order in which it is made.
needs_of()
{
    case $1 in
    run) echo image ;;
    service | crowd | storage | router) echo service ;;
    gate | http) echo service nginx ;;
    sdk) echo base service nginx base_image ;;
    code) echo code service ;;
    tiers) echo image runsc service ;;
    all) echo base code image runsc service nginx base_image ;;
    esac
}

# $*: the arguments of the benchmark: a case that runs alone needs only its own peers.
peers_up()
{
    local program need only=all
    case " $* " in
    *" --only "*) only=" $* " only=${only#* --only } only=${only%% *} ;;
    esac
    make_rootfs
    for need in $(needs_of "$only"); do
        case $need in
        base) { make_base && find_sdk; } || echo "bench: no client or no template for it" >&2 ;;
        code) make_code || echo "bench: no template of the code interpreter" >&2 ;;
        runsc) make_runsc || echo "bench: no runsc: 'tools/deps run' installs it" >&2 ;;
        service) start_service ;;
        nginx) start_nginx || true ;;
        image) start_docker make_image ;;
        base_image) [ ! -f "$dir/sdk.folder" ] || start_docker make_base_image ;;
        esac
    done
    [ "$only" = all ] || return 0
    for program in bwrap crun dockerd docker; do
        [ -x "/usr/bin/$program" ] || [ -x "/usr/sbin/$program" ] ||
            echo "bench: no $program: 'tools/deps bench' installs it" >&2
    done
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
    stop "$service_pid" INT # it has containers of the engine
    stop_engine
    stop "$nginx_pid" TERM
    ! mountpoint -q "$dir/run" || umount "$dir/run"
    rmdir "/sys/fs/cgroup/sgbench-$$" /sys/fs/cgroup/*/"sgbench-$$" 2>/dev/null || true
}
