#!/usr/bin/env bash
# Runs nginx's own tests against a binary and writes docs/conformance.md: conformance.sh [BINARY]
#
# What is not ours is not here. BRISK_SUITES names a folder with
#   suite/         a copy of github.com/nginx/nginx-tests (the folder that holds access.t and lib/)
#   nginx-tests/   the runner: run.sh, runner.py, ns.sh, areas.tsv (file, area), baseline-mainline.tsv (nginx's results)
# BRISK_NGINX_TESTS_SUITE and BRISK_NGINX_TESTS_RUNNER name them where they lie elsewhere. BRISK_AREAS chooses areas.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
binary=$(readlink -f "${1:-$here/../target/release/brisk}")
suite=${BRISK_NGINX_TESTS_SUITE:-${BRISK_SUITES:-}/suite}
runner=${BRISK_NGINX_TESTS_RUNNER:-${BRISK_SUITES:-}/nginx-tests}
areas=${BRISK_AREAS:-http-core static-index-range rewrite-vars-map-geo}

for file in "$suite/lib/Test/Nginx.pm" "$runner/run.sh" "$runner/baseline-mainline.tsv"; do
    if [ ! -e "$file" ]; then
        echo "$file is missing. What \$BRISK_SUITES must hold:" >&2
        sed -n '4,7s/^# //p' "$0" >&2
        exit 1
    fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The tests run as nobody, who must be able to start it.
chmod 755 "$work"
install -m 755 "$binary" "$work/brisk"

# Verbose: a test that cannot start the server then says in its log what the server refused.
# shellcheck disable=SC2086
TEST_NGINX_VERBOSE=1 "$runner/run.sh" --suite "$suite" -f -j 2 -t 60 --retry 2 -l "$work/logs" -o "$work/results.tsv" \
    "$work/brisk" $areas
# HTTP/2 as an independent client sees it, where there is one.
if [ -n "${H2SPEC:-$(command -v h2spec || true)}" ]; then
    "$here/h2spec.sh" "$binary"
fi
python3 "$here/conformance.py" nginx-tests "$work/results.tsv" "$work/logs" "$runner/baseline-mainline.tsv"
