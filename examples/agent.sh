#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same as agent.py with nothing but curl: create, upload, run in the background, follow, download, destroy.
#
#   sandglass up
#   eval "$(sandglass env)"        # SANDGLASS_URL and SANDGLASS_API_KEY
#   examples/agent.sh
set -eu
: "${SANDGLASS_URL:?first: eval \"\$(sandglass env)\"}" "${SANDGLASS_API_KEY:?first: eval \"\$(sandglass env)\"}"

api() # METHOD PATH [curl's options]
{
    method=$1 path=$2
    shift 2
    curl -sS --fail-with-body --no-buffer -X "$method" -H "Authorization: Bearer $SANDGLASS_API_KEY" \
        "$@" "$SANDGLASS_URL/v1$path"
}

# Makes what the other arguments of api say; prints its id, which stands first. Where there is jq: jq -r .id
make()
{
    reply=$(api POST "$@") || { printf '%s\n' "$reply" >&2; return 1; }
    printf '%s\n' "$reply" | sed 's/^{"id":"\([a-z0-9]*\)".*/\1/'
}

# It ends by itself after two minutes, whatever becomes of us.
id=$(make /sandboxes -d '{"timeoutMs":120000,"metadata":{"example":"agent.sh"}}')
box=/sandboxes/$id
trap 'api DELETE "$box"' EXIT

# Relative paths begin at the sandbox's working directory, for files and commands alike.
printf '%s\n' 3 1 4 1 5 | api PUT "$box/files?path=numbers.txt" --data-binary @- >/dev/null
api PUT "$box/files?path=job.sh" --data-binary @- >/dev/null <<'END'
total=0
while read -r n; do
    echo "and $n"
    total=$((total + n))
    sleep 0.1
done <numbers.txt
echo "total $total" >result.txt
END

job=$(make "$box/exec" -d '{"argv":["sh","job.sh"],"background":true,"timeoutMs":30000}')
api GET "$box/execs/$job/output?follow=1&raw=1" # bytes as they come; without raw=1 lines of JSON, the last has the end
api GET "$box/files?path=result.txt"
