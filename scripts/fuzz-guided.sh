#!/usr/bin/env bash
# libFuzzer on stable Rust, without a sanitizer: fuzz-guided.sh MINUTES [TARGET ...]
# Finds are kept in target/fuzz-guided: broken-* are inputs that break something, corpus-TARGET what widens the coverage.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
minutes=${1:-1}
[ "$minutes" -gt 0 ] || { echo "usage: $0 MINUTES [TARGET ...]" >&2; exit 1; }
shift || true
targets=${*:-conf config head chunked uri proxy_protocol}

command -v c++ >/dev/null || { echo "a C++ compiler is needed: apt-get install g++" >&2; exit 1; }

# What cargo-fuzz passes for `--sanitizer none`.
coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
# With a --target the flags are for our code alone, not for build scripts.
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS=$coverage cargo build --quiet --release --manifest-path fuzz/Cargo.toml --target "$host" \
    --target-dir target/fuzz-guided/build

for target in $targets; do
    found=target/fuzz-guided/corpus-$target
    mkdir -p "$found"
    # The seeds that the repository keeps.
    cargo run --quiet --profile fuzz -p brisk-fuzz -- seeds "$target" "$found"
    echo "== $target, $minutes min"
    TARGET=$target "target/fuzz-guided/build/$host/release/brisk-fuzz-guided" -max_total_time=$((minutes * 60)) -max_len=600 \
        -timeout=5 -artifact_prefix=target/fuzz-guided/broken-"$target"- -print_final_stats=1 "$found" 2>&1 | tail -n 12
done
