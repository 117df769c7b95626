#!/bin/sh
# Serves the example site; or the folder $DIR; or the configuration $CONF. Ends with Ctrl-C. Used by `make run`.
set -eu
BRISK=$(readlink -f "${BRISK:-target/release/brisk}")

if [ -n "${CONF:-}" ]; then
    conf=$(readlink -f "$CONF")
    echo "serving as $conf says (Ctrl-C ends); relative paths start at $(dirname "$conf")"
    # In the foreground, unless the file has an opinion of its own: nginx allows one "daemon" only.
    if grep -Eq '^[[:space:]]*daemon[[:space:]]' "$conf"; then
        exec "$BRISK" -p "$(dirname "$conf")" -c "$conf"
    fi
    exec "$BRISK" -p "$(dirname "$conf")" -c "$conf" -g 'daemon off;'
fi

if [ -n "${DIR:-}" ]; then
    exec "$BRISK" serve "$DIR"
fi

site=$(readlink -f "$(dirname "$0")/../examples/site")
cat <<END
The example site is on http://127.0.0.1:8080 (Ctrl-C ends). It is served as $site/brisk.conf says.
  your own folder:      make run DIR=/srv/www
  your own nginx.conf:  make run CONF=/etc/nginx/nginx.conf
END
# A server that root starts answers as the user "nobody", who may not enter a checkout in root's home folder.
if [ "$(id -u)" = 0 ]; then
    folder=$site/html
    while [ "$folder" != / ]; do
        case $(stat -c %A "$folder") in
        *[xt]) folder=$(dirname "$folder") ;;
        *)
            echo "  The user \"nobody\" may not enter $folder: the site is served with root's rights, to this machine only."
            exec "$BRISK" -p "$site" -c brisk.conf -g 'user root;'
            ;;
        esac
    done
fi
exec "$BRISK" -p "$site" -c brisk.conf
