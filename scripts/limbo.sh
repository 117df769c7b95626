#!/usr/bin/env bash
# Runs the x509-limbo corpus against a binary and `openssl verify`, and writes docs/conformance.md: limbo.sh [BINARY]
#
# BRISK_LIMBO names the corpus, limbo.json of github.com/C2SP/x509-limbo. It is not ours and not here. The repository makes it
# from its folder limbo/ with `python -m limbo compile`.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
binary=$(readlink -f "${1:-$here/../target/release/brisk}")
corpus=${BRISK_LIMBO:?the path of limbo.json}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo run -q --locked --manifest-path "$here/../Cargo.toml" -p brisk-testkit --bin limbo -- "$binary" "$corpus" "$work/limbo.tsv"
python3 "$here/conformance.py" limbo "$work/limbo.tsv"
