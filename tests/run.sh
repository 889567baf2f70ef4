#!/usr/bin/env bash
# tests/run.sh: everything that must be green, with a summary at its end. It installs what it needs from the system,
# leaves out what needs a toolchain that is not there, and goes on after a failure so that one run shows them all.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
. tests/packages.sh

msrv=1.88
# Each set of features that changes what is compiled; the last one has everything.
features=("" "--features=rustls" "--features=native-tls" "--features=embedded" "--features=operate" "--features=cli" "--all-features")

# What the tests are built with, all alike, so that the library is built for them once. The engine's own bench is the same sources
# once more, and has no tests.
tested=(--workspace --exclude engine --all-features)

# How long the storms of tests/it/storm.rs last: on one server; on three masters, where one that forgot counts for nothing for a
# while; and on a cluster, where failovers take their time. RELATCH_STORM_SEED repeats one.
storm_secs=${RELATCH_STORM_SECS:-10}
masters_storm_secs=${RELATCH_STORM_SECS:-15}
cluster_storm_secs=${RELATCH_STORM_SECS:-60}

# How long the simulation of tests/it/simulation.rs lasts; RELATCH_SIM_SEED repeats one of its seeds.
sim_secs=${RELATCH_SIM_SECS:-24}

# How long the worlds of src/state/explore are explored; RELATCH_EXPLORE=full explores each to its end or its cap.
explore_secs=${RELATCH_EXPLORE_SECS:-20}
explored="$explore_secs s"
[ "${RELATCH_EXPLORE:-}" != full ] || explored="each to its end or its cap"

summary=()
failed=0

# step NAME CMD…: runs a command, and notes how it went and how long it took. One that ends with 3 had nothing to do, and has
# said why.
step() {
    local name=$1 started=$SECONDS outcome=ok status=0
    shift
    printf '\n=== %s\n' "$name"
    "$@" || status=$?
    case $status in
        0) ;;
        3) outcome="left out" ;;
        *)
            outcome=FAILED
            failed=$((failed + 1))
            printf '=== %s FAILED\n' "$name"
            ;;
    esac
    summary+=("$(printf '%-8s %4ds  %s' "$outcome" $((SECONDS - started)) "$name")")
}

# left_out NAME WHY
left_out() {
    printf '\n=== %s: left out, %s\n' "$1" "$2"
    summary+=("$(printf '%-8s    –   %s: %s' "left out" "$1" "$2")")
}

installed() { rustup toolchain list 2>/dev/null | grep -q "^$1"; }

# toolchain VERSION: whether it is there, installed first where rustup can.
toolchain() {
    installed "$1" || {
        command -v rustup >/dev/null && rustup toolchain install "$1" --profile minimal --no-self-update >&2
    }
}

# Tests that there must be. Who runs none has lost them, and says so.
some_tests() {
    local said status
    said=$(mktemp) || return
    cargo test "$@" 2>&1 | tee "$said"
    status=${PIPESTATUS[0]}
    grep -q '^test result: ok. [1-9]' "$said" || status=1
    rm -f "$said"
    return "$status"
}


# The same of a program that `builds` has built: cargo would wait for who builds beside it.
some_tests_of() {
    local said status program
    program=$(built "$1") || return
    shift
    said=$(mktemp) || return
    "$program" "$@" 2>&1 | tee "$said"
    status=${PIPESTATUS[0]}
    grep -q '^test result: ok. [1-9]' "$said" || status=1
    rm -f "$said"
    return "$status"
}

# built NAME: where cargo has put this program.
programs=$(mktemp) || exit 1
built() {
    local program
    program=$(sed -n "s|.*Executable .*(\(.*/$1-[0-9a-f]*\))\$|\1|p" "$programs" | tail -n 1)
    [ -x "$program" ] || { echo "$1 was not built" >&2; return 1; }
    echo "$program"
}

# The public surface; 3 where no toolchain is there that can write it down.
surface() {
    local said status
    said=$(mktemp) || return
    some_tests "${tested[@]}" --test public_api 2>&1 | tee "$said"
    status=${PIPESTATUS[0]}
    [ "$status" != 0 ] || ! grep -q 'left out: ' "$said" || status=3
    rm -f "$said"
    return "$status"
}

# What ships must hold every script: the crate does not compile without them.
package() {
    local shipped script
    shipped=$(cargo package --list --allow-dirty) || return
    for script in lua/*/*.lua README.md; do
        grep -qxF "$script" <<<"$shipped" || {
            echo "the package lacks $script"
            return 1
        }
    done
    # Without a network what is already here must do.
    cargo package --allow-dirty --no-verify --quiet || cargo package --allow-dirty --no-verify --quiet --offline
}

# The oldest versions that the manifest names must fit together, and have what is used of them: somebody may have just these.
oldest() {
    local aside status
    aside=$(mktemp -d) || return
    cp -r Cargo.toml README.md src lua examples benches tests "$aside" &&
        (cd "$aside" && CARGO_TARGET_DIR="$aside/target" cargo +nightly -Z direct-minimal-versions check --quiet --lib --features embedded,rustls)
    status=$?
    rm -rf "$aside"
    return "$status"
}

# licences PROGRAM: asks for the packages of every system; without a network those that are here must do.
licences() { "$1" check licenses sources bans || "$1" --offline check licenses sources bans; }

# Java's Redisson and the lock clients of other languages beside us, and recorded steps of Redisson; none of those whose program
# could not be built, which has failed by then. Without their tools the live ones say so and do nothing; they are counted.
interop() {
    local said status
    said=$(mktemp) || return
    some_tests_of it "$interop" --nocapture "$@" 2>&1 | tee "$said"
    status=${PIPESTATUS[0]}
    skipped "$said" "there is no Maven" "a live Redisson" "Maven and a JDK of 17 or newer"
    skipped "$said" "only some were asked for" "a live Redisson, what lasts by sentinels and on a cluster" "RELATCH_INTEROP=all"
    skipped "$said" "there are no tools of python" "redis-py" "Python 3.10 or newer with pip"
    skipped "$said" "there are no tools of go" "redsync and bsm/redislock" "Go of the version in tests/interop/go/go.mod or newer"
    skipped "$said" "there are no tools of node" "node-redlock" "Node 18 or newer with npm"
    rm -f "$said"
    return "$status"
}

# skipped SAID WHY WHOM WHAT: names the tests with somebody that were skipped for that reason, and what they need.
skipped() {
    local count
    count=$(grep -c "skipped, $2" "$1") || return 0
    left_out "interop with $3" "$count tests skipped, they need $4"
}

java_program() {
    tests/interop/build.sh || {
        unbuilt+=(--skip ::standalone:: --skip ::sentinel:: --skip ::cluster:: --skip ::several::)
        left_out "interop with a live Redisson" "its Java program was not built"
        return 1
    }
}

# clients LANGUAGE TESTS…: 3 where its tools are missing, of which the tests tell, too.
clients() {
    local language=$1 status=0 tests
    shift
    tests/interop/clients.sh "$language" || status=$?
    case $status in
        0 | 3) ;;
        *)
            for tests in "$@" tokens::all; do unbuilt+=(--skip "$tests"); done
            left_out "interop with clients of $language" "they could not be installed"
            ;;
    esac
    return "$status"
}

# What reads the sources, and what takes long to build and no time when it runs, goes on beside all else as soon as the tests are
# built, and only while a processor has nothing to do: so it takes no time from a test that watches the clock. It shares their
# folder, since half of what it needs is there; what shares nothing with it goes on beside that, in folders of its own. The words of
# each come in one piece at the end, and their summaries with the others'.
besides=()
beside_says=
# beside STEPS…: begins them, one after the other.
beside() {
    local says=$beside_says/${#besides[@]} steps
    # A group of its own, so that its end is that of its compilers, which would keep the folder to themselves.
    set -m
    (
        chrt --idle --pid 0 "$BASHPID" 2>/dev/null || renice -n 19 "$BASHPID" >/dev/null
        summary=()
        failed=0
        for steps in "$@"; do "$steps"; done
        printf '%s\n' ${summary[@]+"${summary[@]}"} >"$says.summary"
        printf '%s\n' "$failed" >"$says.failed"
    ) </dev/null >"$says.said" 2>&1 &
    besides+=($!)
    set +m
}

besides_are_over() {
    wait ${besides[@]+"${besides[@]}"}
}

# One that was killed has failed.
besides_say_how_it_went() {
    local number
    for number in ${besides[@]+"${!besides[@]}"}; do
        cat "$beside_says/$number.said"
        if [ -s "$beside_says/$number.failed" ]; then
            mapfile -t -O "${#summary[@]}" summary <"$beside_says/$number.summary"
            failed=$((failed + $(<"$beside_says/$number.failed")))
        else
            failed=$((failed + 1))
            summary+=("FAILED        what goes on beside the tests")
        fi
    done
    besides=()
}

ends() {
    local group
    for group in ${besides[@]+"${besides[@]}"}; do kill -- "-$group" 2>/dev/null; done
    rm -rf "$beside_says" "$programs"
}
trap ends EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# With the feature off nothing of the store may be there.
no_lua() {
    local tree
    tree=$(cargo tree --edges normal --prefix none) && ! grep "^mlua" <<<"$tree"
}

# Whoever builds an example waits for all that the tests beside it need.
no_foreign() {
    local tree
    tree=$(cargo tree --all-features --edges all --prefix none) && ! grep -E "^(criterion|proptest|public-api) " <<<"$tree"
}

readings() {
    local set targets deny
    step "fmt" cargo fmt --all --check
    for set in "${features[@]}"; do
        # With all features the tests of each single one are there. The empty set is no argument at all.
        case $set in
            --all-features) targets=--all-targets ;;
            "") targets="--lib --bins --examples --tests" ;;
            *tls) targets="--lib --test tls" ;;
            *) targets="--lib --bins" ;;
        esac
        step "clippy ${set:-without features}" cargo clippy --quiet $targets $set -- -D warnings
    done
    # The package that ships is without this member.
    # `inside` is the library's own sources once more.
    [ ! -d tests/foreign ] || step "clippy of what needs foreign crates" cargo clippy --quiet -p foreign --benches --test cron --test examples --test fencing --test public_api -- -D warnings
    # Nor has it this one, which is the library's own sources once more, too.
    [ ! -d benches/engine ] || step "clippy of the engine's own bench" cargo clippy --quiet -p engine --benches -- -D warnings
    # Nor this one.
    [ ! -d tests/explore ] || step "clippy of the explorer" cargo clippy --quiet -p explore --all-targets -- -D warnings
    # Nor this one, whose other targets are tests that are compiled elsewhere.
    [ ! -d tests/mutants ] || step "clippy of the mutants" cargo clippy --quiet -p mutants --bins --tests -- -D warnings
    for set in "${features[@]}"; do
        step "rustdoc ${set:-without features}" env RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps $set
    done
    step "no Lua without the feature" no_lua
    step "no foreign crates for an example" no_foreign
    step "package" package
}

# What other compilers and other versions make of it, for which nothing can be shared.
other_versions() {
    if toolchain "$msrv"; then
        step "Rust $msrv" env CARGO_TARGET_DIR="$target/$msrv" cargo "+$msrv" check --quiet --all-features
    else
        left_out "Rust $msrv" "rustup toolchain install $msrv --profile minimal"
    fi
    if deny=$(cargo_deny); then
        step "licences" licences "$deny"
    else
        left_out "licences" "cargo install cargo-deny"
    fi
    if [ -z "${RELATCH_BUILDS:-}" ]; then
        left_out "the oldest versions fit together" "RELATCH_BUILDS=all"
    elif installed nightly; then
        step "the oldest versions fit together" oldest
    else
        left_out "public surface, oldest versions" "rustup toolchain install nightly --profile minimal"
    fi
}

# What takes long to build, and no time at all when it runs; and what runs when all else is over.
other_builds() {
    step "the README's test in an empty crate" tests/readme.sh
    # Compilers have been wrong about code of ours where they optimise.
    if [ -n "${RELATCH_BUILDS:-}" ]; then
        step "a library that is optimised otherwise" some_tests --config 'profile.dev.package.relatch.opt-level=2' --features embedded --test optimised
    else
        left_out "a library that is optimised otherwise" "RELATCH_BUILDS=all"
    fi
    step "doc tests, without features" cargo test --quiet --doc
    [ ! -d tests/foreign ] || step "public surface" surface
    [ ! -d tests/explore ] || step "builds for the explorer" cargo build --quiet --profile checked -p explore
    step "builds for TLS" builds_for_tls
}

builds_for_tls() {
    cargo test --quiet --no-run --features rustls --test tls &&
        cargo test --quiet --no-run --features native-tls --test tls &&
        cargo test --quiet --no-run --features "native-tls redis/tokio-rustls-comp" --test tls
}

# What is run later, so that no compiler takes time from a test that watches the clock: tests, and examples beside them.
builds() {
    cargo test --color never --no-run "${tested[@]}" 2>&1 | tee "$programs"
    [ "${PIPESTATUS[0]}" = 0 ] || return 1
    cargo test --color never --no-run "${tested[@]}" --bench allocations 2>&1 | tee -a "$programs"
    return "${PIPESTATUS[0]}"
}

target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
step "redis-server is installed" redis_server
step "OpenSSL's headers are installed" openssl_headers
step "openssl is installed" openssl_program
step "the library for a stepped clock is installed" clock_library
step "builds" builds
beside_says=$(mktemp -d) || exit 1
beside readings other_builds
beside other_versions
unbuilt=()
if command -v mvn >/dev/null; then
    step "the Java program beside us" java_program
fi
step "the lock clients of Python" clients python tokens::redis_py
step "the lock clients of Go" clients go tokens::redsync tokens::redislock
step "the lock clients of Node" clients node tokens::redlock4 tokens::redlock5
export RELATCH_EXAMPLES=$target/debug/examples
step "the quick start without a server" env -u REDIS_URL "$RELATCH_EXAMPLES/quickstart"
step "doc tests" tests/with-redis.sh cargo test "${tested[@]}" --doc

# The storm, the long simulation and Java are left out of the others' company: they are to have the machine for themselves.
storm=storm::no_two_believed_holds_overlap_whatever_happens_for_a_while
simulation=simulation::whatever_befalls_the_clients_of_a_store_nothing_is_seen_that_must_not_be
simulation_of_nodes=simulation::whatever_befalls_the_nodes_of_a_store_too_nothing_is_seen_that_must_not_be
simulation_of_fleets=simulation::jobs::whatever_befalls_a_fleet_that_does_a_job_nothing_is_seen_that_must_not_be
interop=interop::
# Most tests wait most of the time. Beyond that many at once a machine has other bounds than its processors.
threads=$((3 * $(getconf _NPROCESSORS_ONLN)))
threads=${RUST_TEST_THREADS:-$((threads < 12 ? threads : 12))}
step "tests" env RUST_TEST_THREADS="$threads" tests/with-redis.sh cargo test "${tested[@]}" --no-fail-fast --lib --bins --test it --test operate --test cli -- --skip "$storm" --skip "$simulation" --skip "$simulation_of_nodes" --skip "$simulation_of_fleets" --skip "$interop"
if [ -d tests/foreign ]; then
    # What is refused without TLS is seen there, too.
    step "the store beside a real server, with proptest" some_tests_of inside server::tests::differential tls_names_its_features
    step "the statements of the guide, in a database" some_tests_of fencing
    step "a job under somebody else's scheduler" some_tests_of cron
    REDIS_SERVER="$(redis_server)" step "no example is warned of a misuse" some_tests_of examples
else
    left_out "the store beside a real server, the statements of the guide, a job under cron, the warnings of examples, public surface" "tests/foreign is in the repository only"
fi
if [ -d tests/mutants ]; then
    step "each mutant's patch applies once" some_tests_of mutants table::tests
else
    left_out "each mutant's patch applies once" "tests/mutants is in the repository only"
fi
step "allocations of a section" env REDIS_SERVER="$(redis_server)" "$(built allocations)"
# Most of these wait for leases to end, and for Java to begin.
RELATCH_INTEROP=${RELATCH_INTEROP:-some} RUST_TEST_THREADS=$threads step "interop with other languages" interop ${unbuilt[@]+"${unbuilt[@]}"}
RELATCH_SIM_SECS="$sim_secs" step "a simulation of $sim_secs s" some_tests_of it "$simulation" --exact --nocapture
RELATCH_SIM_SECS="$((sim_secs / 3))" RUST_TEST_THREADS=2 step "simulations of nodes, and of fleets with a job, $((sim_secs / 3)) s each" some_tests_of it "$simulation_of_nodes" "$simulation_of_fleets" --exact --nocapture
step "what goes on beside the tests is over" besides_are_over
besides_say_how_it_went
if [ -d tests/explore ]; then
    step "all that may happen to a name, $explored" cargo run --quiet --profile checked -p explore -- --secs "$explore_secs"
else
    left_out "all that may happen to a name" "tests/explore is in the repository only"
fi
RELATCH_STORM_SECS="$storm_secs" step "a storm of $storm_secs s" some_tests_of it "$storm" --exact --nocapture
RELATCH_STORM_ON=masters RELATCH_STORM_SECS="$masters_storm_secs" step "a storm of $masters_storm_secs s on three masters" some_tests_of it "$storm" --exact --nocapture
RELATCH_STORM_ON=cluster RELATCH_STORM_SECS="$cluster_storm_secs" step "a storm of $cluster_storm_secs s on a cluster" some_tests_of it "$storm" --exact --nocapture
# Each library alone, and the system's beside another crate of the program that has switched on the driver's rustls.
for set in "rustls" "native-tls"; do
    step "TLS, --features=$set" some_tests --features "$set" --test tls live::
done
step "TLS, rustls by somebody else" some_tests --features "native-tls redis/tokio-rustls-comp" --test tls live::a_lock_lives

# What takes too long for every day, unless it is asked for.
[ -n "${RELATCH_FAILOVERS:-}" ] || left_out "failovers of each kind, three in a row" "RELATCH_FAILOVERS=3"
[ -n "${RELATCH_LOST_HOLDS:-}" ] || left_out "10 000 holds lost in one failover" "RELATCH_LOST_HOLDS=10000"
[ -n "${RELATCH_HALF_MOVED:-}" ] || left_out "a slot that is half moved for a minute" "RELATCH_HALF_MOVED=60"
[ "${RELATCH_SIM_SECS:-0}" -ge 600 ] || left_out "simulations of ten minutes" "RELATCH_SIM_SECS=600"
[ "${RELATCH_STORM_SECS:-0}" -ge 600 ] || left_out "storms of ten minutes" "RELATCH_STORM_SECS=600"
[ "${RELATCH_EXPLORE:-}" = full ] || left_out "each world of a name to its end" "RELATCH_EXPLORE=full cargo run --profile checked -p explore"
left_out "rules and lines of scripts, taken out one at a time" "cargo run -p mutants"
left_out "a storm on sentinels" "RELATCH_STORM_ON=sentinel cargo test --features embedded --test it storm::no_two -- --nocapture"
left_out "every lock on Redis 6.2, 8.2 and Valkey 9.1, and on a cluster over TLS" "tests/matrix.sh"

echo
printf '%s\n' ${summary[@]+"${summary[@]}"}
if [ "$failed" != 0 ]; then
    printf '\n%d of these FAILED\n' "$failed"
    exit 1
fi
printf '\nall green\n'
