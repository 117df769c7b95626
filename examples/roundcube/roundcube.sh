#!/bin/sh
# Roundcube on Brisk: roundcube.sh up, down or remove. Needs Debian or its kin with apt's lists, and no rights: Debian's
# packages are unpacked into a folder of their own, so nothing is installed, and no service of this machine is touched.
# `up database` leaves PHP and the web server to you.
#
#   ROUNDCUBE_DIR       where everything lies (default: /var/tmp/brisk-roundcube)
#   ROUNDCUBE_PORT      the port on 127.0.0.1 (default: 8094)
#   ROUNDCUBE_PASSWORD  of the two users, alice and bob (default: one is made and printed)
#   BRISK               the program (default: target/release/brisk, else target/debug/brisk)
# shellcheck disable=SC2034
set -eu
name=roundcube
here=$(readlink -f "$(dirname "$0")")
dir=${ROUNDCUBE_DIR:-/var/tmp/brisk-roundcube}
port=${ROUNDCUBE_PORT:-8094}
url=http://127.0.0.1:$port

# Roundcube comes without what it depends on: that would be another web server.
packages='php-fpm php-cli php-mysql php-gd php-xml php-mbstring php-curl php-intl mariadb-server-core'
alone='roundcube-core php-pear php-auth-sasl php-mail-mime php-net-smtp php-net-socket php-masterminds-html5 libjs-bootstrap4
    libjs-popper.js libjs-jquery libjs-jquery-ui libjs-jquery-minicolors libjs-jstimezonedetect libjs-codemirror'
extensions='mysqlnd pdo mysqli pdo_mysql gd dom simplexml xml xmlreader xmlwriter mbstring curl ctype exif fileinfo iconv intl
    posix tokenizer'

# shellcheck source=../stack.sh
. "$here/../stack.sh"

# The pages; what Debian links to folders of the machine is put in its place.
make_site() {
    [ ! -e "$dir/site/index.php" ] || return 0
    rm -rf "$dir/site" "$dir/site.new"
    mkdir -p "$dir/site.new/config" "$dir/mail"
    (cd "$root/usr/share/roundcube" && cp -rL SQL index.php program skins plugins "$dir/site.new/" 2>"$dir/log/copy.log") || true
    [ -e "$dir/site.new/program/js/jquery.min.js" ] || die "Roundcube was not copied: see $dir/log/copy.log"
    cp "$root/etc/roundcube/defaults.inc.php" "$root/etc/roundcube/mimetypes.php" "$dir/site.new/config/"
    sed -i -e "s#'/var/lib/roundcube/'#'$dir/site/'#" \
        -e "s#'program/lib' \\. PATH_SEPARATOR#'program/lib' . PATH_SEPARATOR . '$root/usr/share/php' . PATH_SEPARATOR#" \
        "$dir/site.new/program/include/iniset.php"
    mv "$dir/site.new" "$dir/site"
}

# The mail server says where it listens.
start_mail() {
    if ! pid_of mail/mail.pid mail.php >/dev/null; then
        rm -f "$dir/mail/ports"
        cp "$here/mail.php" "$dir/mail.php"
        (
            exec >"$dir/log/mail.log" 2>&1 </dev/null
            php "$dir/mail.php" "$dir/mail"
        ) &
    fi
    wait_for "the mail server" [ -s "$dir/mail/ports" ]
}

stop_site() {
    stop mail/mail.pid mail.php
}

install_site() {
    if [ ! -e "$dir/mail/users" ]; then
        secret=${ROUNDCUBE_PASSWORD:-$(secret | cut -c 1-16)}
        cp "$here/install.php" "$dir/install.php"
        php "$dir/install.php" "$dir" "$(password)" "$(secret | cut -c 1-24)" >"$dir/log/install.log" 2>&1 ||
            die "Roundcube's database cannot be made: see $dir/log/install.log"
        sed -e "s#@DIR@#$dir#g" "$here/config.php" >"$dir/site/config/config.inc.php"
        (umask 077 && printf 'alice %s\nbob %s\n' "$secret" "$secret" >"$dir/mail/users.new")
        [ -z "$as_user" ] || chown -R 65534:65534 "$dir/mail" "$dir/site/config"
        mv "$dir/mail/users.new" "$dir/mail/users"
        say "log in on $url as alice or bob with the password $secret"
    fi
    start_mail
}

example "$@"
