#!/bin/sh
# Faults under load in a PHP pool, each so many times: php_faults.sh [TIMES [FAULT]]. Crashes of scripts, scripts without memory and without end (in PHP,
# in C, waiting), pool masters that are killed, a database that is gone for five seconds, clients that give up. Whatever else fails ends it.
# 1,000 times take about an hour; `make test` runs each a few times.
set -eu
cd "$(dirname "$0")/.."
BRISK_FAULTS=${1:-1000} exec cargo test --locked -p brisk --test php_pool -- --test-threads 1 --nocapture "faults::${2:-}"
