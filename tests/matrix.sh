#!/usr/bin/env bash
# tests/matrix.sh: the suite of tests/it/conformance.rs on every server that tests/servers.sh knows, alone, by sentinels and on a
# cluster, and on a cluster over TLS by either library; and there, too, what rights are enough, whose answers are whose, each command
# of the program, and what operators are told. It takes some minutes, and no part of tests/run.sh does it: that takes what the system has.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tests/packages.sh

failed=0
# suite NAME VARIABLES… -- ARGUMENTS…
suite() {
    local name=$1 said status
    local -a variables=()
    shift
    while [ "$1" != -- ]; do
        variables+=("$1")
        shift
    done
    shift
    said=$(env ${variables[@]+"${variables[@]}"} cargo test --quiet "$@" 2>&1) && status=0 || status=1
    # Who runs none has lost them.
    grep -q '^test result: ok. [1-9]' <<<"$said" || status=1
    printf '%-28s %s\n' "$name" "$(grep '^test result' <<<"$said" || tail -n 20 <<<"$said")"
    if [ "$status" != 0 ]; then
        failed=1
        # Which, and why.
        grep -A 3 'panicked at' <<<"$said"
    fi
}

for flavour in redis70 redis62 redis82 valkey91; do
    server=$(tests/servers.sh install "$flavour") || {
        failed=1
        continue
    }
    on=(REDIS_SERVER="$server" RELATCH_FLAVOUR="$flavour")
    # The same features for all: they are built once.
    suite "$flavour" "${on[@]}" -- --features embedded,cli --test it conformance::
    suite "$flavour, rights and moves" "${on[@]}" -- --features embedded,cli --test it acl:: -- cluster::the_rights cluster::moving::nobody
    suite "$flavour, program" "${on[@]}" -- --features embedded,cli --test cli -- deployments:: guide::
    suite "$flavour, operate" "${on[@]}" -- --features embedded,cli --test operate -- diagnosing:: finding:: forcing:: rights::
done
# The other wheels come without TLS. Whom the tests trust they say themselves: OpenSSL would read all that the system trusts for each
# connection, which takes many times as long as all the rest.
not_over_tls=(--skip ::plain --skip ::by_sentinels --skip ::with_forgotten_scripts --skip ::on_replicas --skip ::in_this_process)
for library in rustls native-tls; do
    suite "redis70, cluster, $library" RELATCH_TLS=1 SSL_CERT_FILE=/dev/null SSL_CERT_DIR=/dev/null -- --features "embedded,$library" --test it conformance:: -- "${not_over_tls[@]}"
done
exit "$failed"
