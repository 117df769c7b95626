#!/usr/bin/env bash
# Runs h2spec (github.com/summerwind/h2spec) strictly against a binary, over cleartext and over TLS: h2spec.sh [BINARY]
#
# H2SPEC names it, else it is looked for in PATH; `go install github.com/summerwind/h2spec/cmd/h2spec@latest` makes it.
# Over cleartext one case cannot be: an invalid preface on a port that speaks HTTP/1.1 too is a bad request of that.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
binary=$(readlink -f "${1:-$here/../target/release/brisk}")
h2spec=${H2SPEC:-$(command -v h2spec || true)}
if [ -z "$h2spec" ]; then
    echo "h2spec is missing: go install github.com/summerwind/h2spec/cmd/h2spec@latest" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir "$work/html"
# More than a window: some cases need an answer that has to wait.
head -c 200000 /dev/zero | tr '\0' x >"$work/html/index.html"
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/key.pem" -out "$work/cert.pem" -days 2 -subj /CN=localhost 2>/dev/null
chmod -R a+rX "$work"
port=${PORT:-18190}
cat >"$work/brisk.conf" <<CONF
daemon off;
pid brisk.pid;
error_log error.log info;
events { }
http {
    access_log off;
    server {
        listen 127.0.0.1:$port;
        listen 127.0.0.1:$((port + 1)) ssl;
        http2 on;
        root html;
        ssl_certificate cert.pem;
        ssl_certificate_key key.pem;
    }
}
CONF
"$binary" -p "$work/" -c brisk.conf &
server=$!
until [ -s "$work/brisk.pid" ]; do
    kill -0 "$server"
    sleep 0.1
done

"$h2spec" --strict -t -k -h 127.0.0.1 -p $((port + 1)) | tee "$work/tls" | tail -n 3
"$h2spec" --strict -h 127.0.0.1 -p "$port" >"$work/plain" || true
tail -n 3 "$work/plain"
grep -q '146 tests, 146 passed' "$work/tls"
grep -q '146 tests, 145 passed' "$work/plain"
grep -q '× 2: Sends invalid connection preface' "$work/plain"
