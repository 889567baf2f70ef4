#!/usr/bin/env bash
# tests/interop/build.sh: builds the Java program that the interop tests talk to, once for each state of its sources, outside
# of this tree, and prints the folder that it is in. It needs Maven, a JDK, and at its first run Maven Central.
#
# By hand: java -cp "$(tests/interop/build.sh)/*" relatch.interop.Peer --redis 127.0.0.1:6379
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/java"

sources=$({ cat ../build.sh pom.xml; find src -name '*.java' | LC_ALL=C sort | xargs cat; } | sha256sum)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/relatch-interop
built=$cache/${sources:0:16}

if [ ! -d "$built" ]; then
    mkdir -p "$cache"
    # Built aside and put in its place in one piece: somebody else may be doing the same.
    aside=$(mktemp -d "$cache/building.XXXXXX")
    trap 'rm -rf "$aside"' EXIT
    cp -r pom.xml src "$aside"
    # No phases: those would fetch plugins for tests and resources that there are none of.
    # Nor does Maven leave a file of its own behind when it is killed.
    (cd "$aside" && MAVEN_OPTS="${MAVEN_OPTS:-} -XX:-UsePerfData" mvn -B -q compiler:compile jar:jar dependency:copy-dependencies -DoutputDirectory=lib) >&2
    mv "$aside/target/peer.jar" "$aside/lib"
    # Where it is there by now, `mv` would put this one into that one.
    [ -d "$built" ] || mv "$aside/lib" "$built"
    rm -rf "$built/lib"
fi
# Of other states, and of builds that were killed, nothing is kept that nobody used for a day.
touch "$built"
find "$cache" -mindepth 1 -maxdepth 1 ! -path "$built" -mmin +1440 -exec rm -rf {} +
echo "$built"
