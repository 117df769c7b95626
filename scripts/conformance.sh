#!/usr/bin/env bash
# Runs nginx's own tests against a binary and writes docs/conformance.md: conformance.sh [BINARY]
#
# What is not ours is not here. BRISK_SUITES names a folder with
#   suite/         a copy of github.com/nginx/nginx-tests (the folder that holds access.t and lib/)
#   nginx-tests/   the runner: run.sh, runner.py, ns.sh, areas.tsv (file, area), baseline-mainline.tsv (nginx's results)
#   cache-tests/   a copy of github.com/http-tests/cache-tests after `npm install` (Node 18 or newer); without it that part is
#                  left as it is
#   php-src/       the source of the PHP that is installed (Debian: apt-get source php8.2); without it that part is left as it is
#   httpd-tests/   a copy of github.com/apache/httpd-tests, with apache-tests.tsv beside it (program, subtests that Apache passes, those
#                  without CGI) and Apache-Test/, which holds Apache/Test.pm (Debian: libapache2-mod-perl2, unpacked); without it that
#                  part is left as it is
#   htaccess/      .htaccess files of others, of whatever names; without it that part is left as it is
#   x509-limbo/limbo.json   of github.com/C2SP/x509-limbo; without it that part is left as it is
# BRISK_NGINX_TESTS_SUITE, BRISK_NGINX_TESTS_RUNNER and BRISK_LIMBO (limbo.json) name them where they lie elsewhere. BRISK_AREAS chooses areas.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
binary=$(readlink -f "${1:-$here/../target/release/brisk}")
suite=${BRISK_NGINX_TESTS_SUITE:-${BRISK_SUITES:-}/suite}
runner=${BRISK_NGINX_TESTS_RUNNER:-${BRISK_SUITES:-}/nginx-tests}
areas=${BRISK_AREAS:-http-core static-index-range rewrite-vars-map-geo access-auth-limit gzip-gunzip image-filter \
    log-syslog-debug ssi sub-addition-charset ssl h2 proxy proxy-cache proxy-ssl proxy-h2-backend grpc fastcgi scgi uwsgi \
    upstream-lb upstream-resolve upstream-sticky http-resolver realip-proxyprotocol memcached dav mp4-flv}

for file in "$suite/lib/Test/Nginx.pm" "$runner/run.sh" "$runner/baseline-mainline.tsv"; do
    if [ ! -e "$file" ]; then
        echo "$file is missing. What \$BRISK_SUITES must hold:" >&2
        sed -n '4,15s/^# //p' "$0" >&2
        exit 1
    fi
done

work=$(mktemp -d)
servers=()
trap 'kill "${servers[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
# The tests run as nobody, who must be able to start it.
chmod 755 "$work"
install -m 755 "$binary" "$work/brisk"

# Verbose: a test that cannot start the server then says in its log what the server refused.
# shellcheck disable=SC2086
TEST_NGINX_VERBOSE=1 "$runner/run.sh" --suite "$suite" -f -j 2 -t 60 --retry 2 -l "$work/logs" -o "$work/results.tsv" \
    "$work/brisk" $areas
python3 "$here/conformance.py" nginx-tests "$work/results.tsv" "$work/logs" "$runner/baseline-mainline.tsv"

# .htaccess files of others beside Debian's Apache: nothing may be readable that Apache refuses.
if [ -d "${BRISK_SUITES:-}/htaccess" ]; then
    python3 "$here/htaccess.py" "$work/brisk" "$BRISK_SUITES/htaccess" "$work/htaccess.tsv"
fi

# What is edited under load counts in time.
if [ "$(id -u)" = 0 ]; then
    python3 "$here/htaccess_edits.py" "$work/brisk"
fi

# Apache's own tests, through `brisk httpd`.
if [ -d "${BRISK_SUITES:-}/httpd-tests" ]; then
    python3 "$here/apache_tests.py" "$work/brisk" "$BRISK_SUITES/httpd-tests" "$BRISK_SUITES/Apache-Test" \
        "$BRISK_SUITES/apache-tests.tsv" "$work/apache-tests.tsv"
    python3 "$here/conformance.py" apache-tests "$work/apache-tests.tsv"
fi

# The cache tests: a back end in Node, Brisk before it, a client in Node.
caches=${BRISK_SUITES:-}/cache-tests
if [ -e "$caches/test-engine/cli.mjs" ]; then
    backend=18000 port=18002
    sed -e "s|WORK|$work|g; s|BACKEND|$backend|; s|PORT|$port|" "$here/cache-tests.conf" > "$work/brisk.conf"
    mkdir "$work/cache" && chmod 777 "$work" "$work/cache"
    (cd "$caches" && npm_config_protocol=http npm_config_port=$backend npm_config_pidfile="$work/node.pid" \
        exec node test-engine/server/server.mjs) > "$work/node.log" 2>&1 &
    servers+=($!)
    "$work/brisk" -p "$work/" -c "$work/brisk.conf" -e "$work/error.log" &
    servers+=($!)
    for server in $backend $port; do
        until (exec 3<> "/dev/tcp/127.0.0.1/$server") 2>/dev/null; do sleep 0.1; done
    done
    (cd "$caches" && npm_config_base="http://127.0.0.1:$port" npm_config_id="" npm_package_config_id="" \
        node --no-warnings test-engine/cli.mjs) > "$work/cache-tests.json"
    node "$here/cache-tests.mjs" "$caches" "$work/cache-tests.json" > "$work/cache-tests.tsv"
    python3 "$here/conformance.py" cache-tests "$work/cache-tests.tsv"
fi

# PHP's tests, in a pool. The pool master is looked for beside the program.
php=${BRISK_SUITES:-}/php-src
if [ -e "$php/run-tests.php" ]; then
    "$here/php.sh" "$work"
    python3 "$here/php_tests.py" run "$work/brisk" "$php" "$work/php.tsv"
    python3 "$here/conformance.py" php "$work/php.tsv"
    python3 "$here/php_tests.py" fpm "$work/brisk" "$php" "$work/php-fpm.tsv"
    python3 "$here/conformance.py" php-fpm "$work/php-fpm.tsv"
fi

limbo=${BRISK_LIMBO:-${BRISK_SUITES:-}/x509-limbo/limbo.json}
if [ -e "$limbo" ]; then
    BRISK_LIMBO=$limbo "$here/limbo.sh" "$work/brisk"
fi
