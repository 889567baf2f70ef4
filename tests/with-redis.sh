#!/usr/bin/env bash
# tests/with-redis.sh CMD…: runs a command with a server of its own, found at REDIS_URL, and ends with its status.
# The server keeps nothing, and it is gone with this script, however that ends.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/packages.sh"

[ $# -gt 0 ] || {
    echo "usage: tests/with-redis.sh CMD…" >&2
    exit 2
}
server=$(redis_server) || exit 2
folder=$(mktemp -d "${TMPDIR:-/tmp}/relatch.XXXXXX") || exit 1
# As the server will name it: it tells our own server from another one.
folder=$(cd "$folder" && pwd -P) || exit 1

# Starts a server on each port that it reads, instead of the one before. The end of its input is the end of the script,
# a SIGKILL included, and then of the server and its folder.
watch() {
    local pid= port
    trap '' HUP INT TERM PIPE
    # A process group of its own keeps the server from a Ctrl-C that is meant for the command.
    set -m
    end() { [ -z "$pid" ] || { kill -KILL "$pid" && wait "$pid"; }; }
    while read -r port; do
        end
        "$server" --bind 127.0.0.1 --port "$port" --dir "$folder" \
            --save '' --appendonly no </dev/null >"$folder/log" 2>&1 &
        pid=$!
    done
    end
    rm -rf "$folder"
}
exec 9> >(watch >/dev/null 2>&1)

finish() {
    trap '' INT TERM
    exec 9>&-
    for _ in {1..200}; do
        [ -d "$folder" ] || break
        sleep 0.05
    done
    exit "$1"
}
trap 'finish 130' INT
trap 'finish 143' TERM

# answers PORT: whether our own server is there. Another one may have been quicker and would answer a PING just as well.
answers() {
    local line
    { exec 8<>"/dev/tcp/127.0.0.1/$1"; } 2>/dev/null || return 1
    printf 'CONFIG GET dir\r\n' >&8
    while read -r -t 2 line <&8; do
        case $line in
            "$folder"$'\r') exec 8>&-; return 0 ;;
            -*) break ;;
        esac
    done
    exec 8>&-
    return 1
}

# start PORT: 0 when the server is there, 1 when the port was taken, 2 when it cannot start.
start() {
    rm -f "$folder/log"
    echo "$1" >&9
    for _ in {1..400}; do
        answers "$1" && return 0
        grep -q 'Address already in use' "$folder/log" 2>/dev/null && return 1
        sleep 0.05
    done
    cat "$folder/log" >&2
    return 2
}

for _ in {1..20}; do
    # Below the ports that systems give out by themselves.
    port=$((10000 + RANDOM % 20000))
    start "$port"
    started=$?
    [ "$started" = 1 ] || break
done
[ "$started" = 0 ] || {
    echo "no server could be started" >&2
    finish 1
}
export REDIS_URL=redis://127.0.0.1:$port/

if [ -t 0 ]; then
    # At a terminal the command may read from it, and the terminal sends Ctrl-C to both of us.
    trap : INT
    "$@" 9>&-
    finish $?
fi
# Signals are noted, and passed on once there is somebody to pass them to.
signal=
trap 'signal=INT' INT
trap 'signal=TERM' TERM
mkfifo "$folder/never" && exec 6<>"$folder/never" || finish 1
# A group of its own, so that a signal reaches all that the command starts.
set -m
"$@" <&0 6>&- 9>&- &
command=$!
set +m
# No plain wait: it would sleep through a signal that comes just before it.
while kill -0 "$command" 2>/dev/null; do
    # Nothing ever comes there. An old shell that takes no fractions says so at once.
    read -r -t 0.05 -u 6 2>/dev/null || [ $? -gt 128 ] || sleep 0.05
    [ -z "$signal" ] || {
        kill "-$signal" -- "-$command" 2>/dev/null
        signal=
    }
done
wait "$command"
finish $?
