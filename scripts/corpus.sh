#!/usr/bin/env bash
# `brisk -t` beside `nginx -t` on public configurations; writes its section of docs/conformance.md: corpus.sh [BINARY]
#
# What is not ours is not here. BRISK_CORPUS names a folder with NAME/nginx.conf for each configuration, at least 40, and
# whatever it includes beside it. They must stand by themselves: certificates that exist, back ends by address, logs and
# temporary folders that can be written. Then nginx accepts most of them, and what Brisk refuses is Brisk's doing.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
binary=$(readlink -f "${1:-$here/../target/release/brisk}")
PATH=$PATH:/usr/sbin

if [ ! -d "${BRISK_CORPUS:-}" ]; then
    echo "BRISK_CORPUS names no folder. What it must hold:" >&2
    sed -n '4,6s/^# //p' "$0" >&2
    exit 1
fi
python3 "$here/conformance.py" corpus "$binary" "$(readlink -f "$BRISK_CORPUS")"
