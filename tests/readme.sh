#!/usr/bin/env bash
# tests/readme.sh: what the README says of installing and testing, done by somebody who believes it: an empty crate, the
# tables and the code as they stand there, and `cargo test`. No Redis is needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
project=$PWD

crate=$(mktemp -d)
trap 'rm -rf "$crate"' EXIT
mkdir "$crate/src"

# block SECTION LANGUAGE: the section's first block of it.
block() {
    awk -v title="## $1" -v language="$2" '
        /^## / { section = ($0 == title) }
        section && $0 == "```" language { inside = 1; next }
        inside && $0 == "```" { exit }
        inside { print }' README.md
}

{
    printf '[package]\nname = "reader"\nversion = "0.1.0"\nedition = "2024"\n\n'
    block Install toml
    # The version that the table names is this one.
    printf '\n[patch.crates-io]\nrelatch = { path = "%s" }\n\n[workspace]\n' "$project"
} >"$crate/Cargo.toml"
block 'Testing your service' rust >"$crate/src/lib.rs"
cp Cargo.lock "$crate"
case ${CARGO_TARGET_DIR:=target} in
    /*) ;;
    *) CARGO_TARGET_DIR=$project/$CARGO_TARGET_DIR ;;
esac
export CARGO_TARGET_DIR

cd "$crate"
# With the versions that are known here; without a network what is already here must do.
said=$(env -u REDIS_URL cargo test --quiet --offline 2>&1) ||
    said=$(env -u REDIS_URL cargo test --quiet 2>&1) || {
    printf '%s\n' "$said"
    exit 1
}
printf '%s\n' "$said"
grep -q '^test result: ok. 1 passed' <<<"$said" || {
    echo "the README's test did not run"
    exit 1
}
