#!/usr/bin/env bash
# tests/interop/clients.sh LANGUAGE: installs the lock clients of a language that the interop tests talk to, once for each state
# of its folder, into the target folder, and prints where they are. LANGUAGE is python, go or node. It needs the language's own
# tools, and at its first run the packages. It ends with 3 where the tools are missing or too old, and says what is needed.
#
# By hand: python3 "$(tests/interop/clients.sh python)/peer.py" --redis 127.0.0.1:6379 --client redis-py
set -euo pipefail
language=${1:-}
case $language in
    python | go | node) cd "$(dirname "${BASH_SOURCE[0]}")/$language" ;;
    *)
        sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
        exit 2
        ;;
esac

# needs WHAT CMD…
needs() {
    local what=$1
    shift
    "$@" >/dev/null 2>&1 || {
        echo "clients of $language need $what" >&2
        exit 3
    }
}

case $language in
    python)
        needs "Python 3.10 or newer" python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))'
        needs "pip" python3 -m pip --version
        export PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1
        install() { python3 -m pip install --quiet --no-input --require-hashes --only-binary=:all: --target "$1" --requirement requirements.txt; }
        ;;
    go)
        needs "Go" go version
        # A later one is fetched by itself, unless that was switched off.
        needs "Go $(sed -n 's/^go //p' go.mod) or newer" go list -m
        # Not optimized: where nothing has been compiled yet, that takes half as long.
        install() { go build -gcflags='all=-N -l' -buildvcs=false -mod=readonly -o "$1/peer" .; }
        ;;
    node)
        needs "Node 18 or newer" node -e 'process.exit(+(parseInt(process.versions.node) < 18))'
        needs "npm" npm --version
        install() { (cd "$1" && npm ci --silent --ignore-scripts --no-audit --no-fund --no-update-notifier); }
        ;;
esac

target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/interop
sources() { find . -maxdepth 1 -type f | LC_ALL=C sort; }
state=$({ cat ../clients.sh; sources | xargs cat; } | sha256sum)
built=$target/$language-${state:0:16}

if [ ! -d "$built" ]; then
    mkdir -p "$target"
    # Built aside and put in its place in one piece: somebody else may be doing the same.
    aside=$(mktemp -d "$target/$language-building.XXXXXX")
    trap 'rm -rf "$aside"' EXIT
    mkdir "$aside/done"
    sources | xargs -I{} cp {} "$aside/done"
    install "$aside/done" >&2
    # Where it is there by now, `mv` would put this one into that one.
    [ -d "$built" ] || mv "$aside/done" "$built"
    rm -rf "$built/done"
fi
# Of other states, and of builds that were killed, nothing is kept that nobody used for a day.
touch "$built"
find "$target" -mindepth 1 -maxdepth 1 -name "$language-*" ! -path "$built" -mmin +1440 -exec rm -rf {} +
echo "$built"
