#!/bin/sh
# The bank of examples/bank on nginx and PHP-FPM, set up as badly as many sites are: two PHP processes, no OPcache, no keep-alive. `brisk tune`
# has five minutes to find that out on a copy, and writes a page of it. Used by `make tune-demo`; needs root, nginx, php-fpm and MariaDB.
#
#   BRISK     the program (default: target/release/brisk)
#   CHILDREN  how many PHP processes there are at first (default: 2; 200 is the other bad start)
#   BUDGET    how long it may take (default: 5m)
#   REPORT    the page (default: tune-demo.html)
set -eu
here=$(readlink -f "$(dirname "$0")/..")
BRISK=$(readlink -f "${BRISK:-$here/target/release/brisk}")
REPORT=$(readlink -f "${REPORT:-tune-demo.html}")
[ "$(id -u)" = 0 ] || { echo "tune-demo: run it as root: the copy needs namespaces of its own" >&2; exit 1; }

dir=/var/tmp/brisk-tune-demo
export BANK_DIR="$dir" BRISK
"$here/examples/bank/bank.sh" up database
trap '"$here/examples/bank/bank.sh" down' EXIT INT TERM

# What the bank has, without OPcache.
sed -e '/opcache/d' "$dir/php.ini" >"$dir/slow.ini"
grep -h '^zend_extension' "$dir/php.ini" >>"$dir/slow.ini" || true
echo 'opcache.enable = 0' >>"$dir/slow.ini"
cat >"$dir/slow-pool.conf" <<END
[bank]
user = nobody
group = nogroup
listen = $dir/slow.sock
listen.mode = 0666
listen.backlog = 511
pm = static
pm.max_children = ${CHILDREN:-2}
END
cat >"$dir/slow-nginx.conf" <<END
user nobody nogroup;
worker_processes auto;
pid $dir/slow-nginx.pid;
error_log $dir/log/slow-nginx.log;
events { }
http {
    access_log $dir/log/slow-access.log;
    client_body_temp_path $dir/tmp/slow-body;
    fastcgi_temp_path $dir/tmp/slow-fastcgi;
    keepalive_timeout 0;
    server {
        listen 127.0.0.1:8095;
        root $dir/site/public;
        location / {
            fastcgi_pass unix:$dir/slow.sock;
            fastcgi_param SCRIPT_FILENAME \$document_root/index.php;
            fastcgi_param SCRIPT_NAME /index.php;
            fastcgi_param REQUEST_METHOD \$request_method;
            fastcgi_param REQUEST_URI \$request_uri;
            fastcgi_param QUERY_STRING \$query_string;
            fastcgi_param SERVER_PROTOCOL \$server_protocol;
            fastcgi_param REMOTE_ADDR \$remote_addr;
        }
    }
}
END
"$BRISK" tune http://127.0.0.1:8095/ --site "$dir/slow-nginx.conf" --program nginx --fpm "$dir/slow-pool.conf" \
    --php-ini "$dir/slow.ini" --users 20 --budget "${BUDGET:-5m}" --goal 'max rate where p95<500ms, errors<0.1%' \
    --share-database --html "$REPORT" "$@"
echo "The page: $REPORT"
