#!/bin/sh
# WordPress on Brisk: wordpress.sh up, down or remove. Needs Debian or its kin with apt's lists, and no rights: Debian's
# packages are unpacked into a folder of their own, so nothing is installed, and no service of this machine is touched.
#
#   WORDPRESS_DIR   where everything lies (default: /var/tmp/brisk-wordpress)
#   WORDPRESS_PORT  the port on 127.0.0.1 (default: 8090)
#   WORDPRESS_BARE  if set, WordPress's own installer is left to you
#   BRISK           the program (default: target/release/brisk, else target/debug/brisk)
set -eu
here=$(readlink -f "$(dirname "$0")")
dir=${WORDPRESS_DIR:-/var/tmp/brisk-wordpress}
port=${WORDPRESS_PORT:-8090}
root=$dir/debian
url=http://127.0.0.1:$port

# What is unpacked. The database server is the package without a service; WordPress comes last, without what it depends on:
# that would be another web server.
packages='php-fpm php-cli php-mysql php-gd php-xml php-mbstring php-curl php-getid3 libjs-cropper libjs-underscore
    mariadb-server-core'
wordpress='wordpress wordpress-theme-twentytwentythree'
extensions='mysqlnd pdo mysqli pdo_mysql gd dom simplexml xml xmlreader xmlwriter mbstring curl ctype exif fileinfo iconv
    posix tokenizer'

say() { echo "wordpress: $*"; }
die() {
    echo "wordpress: $*" >&2
    exit 1
}

# Servers refuse to run as root: they get another user then, who owns the folder.
as_user=
if [ "$(id -u)" = 0 ]; then
    as_user="setpriv --reuid=65534 --regid=65534 --clear-groups"
fi

# Runs a program of the folder with the libraries that are there.
run() {
    env -i PATH=/usr/bin:/bin HOME="$dir" TMPDIR="$dir/tmp" LD_LIBRARY_PATH="$libraries" $as_user "$@"
}

# The first that exists of these paths, in the folder or on the machine: what is installed is not unpacked.
find_one() {
    for path in "$@"; do
        for found in "$root"$path $path; do
            [ ! -e "$found" ] || { echo "$found"; return; }
        done
    done
    die "none of these exists: $*"
}

download() {
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
        die "this machine is no Debian: apt-get and dpkg-deb are not there"
    mkdir -p "$dir/packages"
    cd "$dir/packages"
    missing=$(apt-get install -s --no-install-recommends $packages | awk '$1 == "Inst" { print $2 }') ||
        die "apt knows not all of: $packages; have somebody run \`apt-get update\`"
    say "downloading" $missing $wordpress
    apt-get -q -o APT::Sandbox::User=root download $missing $wordpress >apt.log 2>&1 ||
        die "apt-get download failed: $(tail -n 3 apt.log); perhaps \`apt-get update\` helps"
    for package in *.deb; do
        dpkg-deb -x "$package" "$root"
    done
    rm -f -- *.deb
    # Debian's WordPress takes these from other packages; what is installed is not here.
    for folder in javascript/cropper javascript/underscore php/getid3; do
        [ -e "$root/usr/share/$folder" ] || ln -s "/usr/share/$folder" "$root/usr/share/$folder"
    done
}

# The pages, with a configuration of their own and a folder for what is uploaded.
make_site() {
    rm -f "$root/usr/share/wordpress/.htaccess"
    cp -rL "$root/usr/share/wordpress" "$dir/site"
    cp -r "$root/var/lib/wordpress/wp-content/index.php" "$dir/site/wp-content/"
    mkdir -p "$dir/site/wp-content/uploads" "$dir/site/wp-content/languages"
    secret() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
    {
        echo "<?php"
        for name in AUTH_KEY SECURE_AUTH_KEY LOGGED_IN_KEY NONCE_KEY AUTH_SALT SECURE_AUTH_SALT LOGGED_IN_SALT NONCE_SALT
        do
            echo "define('$name', '$(secret)');"
        done
        sed -e "s#@DIR@#$dir#g" -e "s#@URL@#$url#g" "$here/wp-config.php"
    } >"$dir/site/wp-config.php"
}

make_database() {
    rm -rf "$dir/data"
    mkdir -p "$dir/data"
    [ -z "$as_user" ] || chown -R 65534:65534 "$dir"
    mysql=$root/usr/share/mysql
    [ -e "$mysql" ] || mysql=/usr/share/mysql
    {
        echo 'CREATE DATABASE mysql;'
        echo 'USE mysql;'
        cat "$mysql/mysql_system_tables.sql" "$mysql/mysql_performance_tables.sql" \
            "$mysql/mysql_system_tables_data.sql"
        echo 'FLUSH PRIVILEGES;'
        echo 'CREATE DATABASE wordpress CHARACTER SET utf8mb4;'
        echo "CREATE USER wordpress@localhost IDENTIFIED BY 'wordpress';"
        echo 'GRANT ALL ON wordpress.* TO wordpress@localhost;'
    } | database --bootstrap >"$dir/log/database-bootstrap.log" 2>&1 ||
        die "the database cannot be made: see $dir/log/database-bootstrap.log"
}

# mariadbd, reached only through its socket.
database() {
    run "$(find_one /usr/sbin/mariadbd)" --no-defaults --basedir="$root/usr" --datadir="$dir/data" \
        --lc-messages-dir="$mysql" --character-sets-dir="$mysql/charsets" --plugin-dir="$dir/plugins" \
        --skip-networking --socket="$dir/mysql.sock" --pid-file="$dir/mysql.pid" --tmpdir="$dir/tmp" \
        --innodb-buffer-pool-size=64M --skip-log-bin "$@"
}

make_php() {
    extension_dir=$(dirname "$(find_one '/usr/lib/php/20*/mysqli.so')")
    {
        for extension in $extensions; do
            # Some are built in, depending on the version.
            for found in "$extension_dir/$extension.so" "$root"/usr/lib/php/20*/"$extension.so" \
                /usr/lib/php/20*/"$extension.so"; do
                [ -e "$found" ] || continue
                echo "extension=$found"
                break
            done
        done
        opcache=$(find_one '/usr/lib/php/20*/opcache.so')
        echo "zend_extension=$opcache"
        cat "$here/php.ini"
    } >"$dir/php.ini"
    sed -e "s#@DIR@#$dir#g" "$here/php-fpm.conf" >"$dir/php-fpm.conf"
}

# The pid in a file, if that process is still one of ours.
pid_of() {
    pid=$(cat "$dir/$1" 2>/dev/null) || return 1
    [ -n "$pid" ] && [ -e "/proc/$pid" ] && tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q "$2" && echo "$pid"
}

# Starts what becomes a service by itself.
start() {
    name=$1
    shift
    run "$@" >"$dir/log/start.log" 2>&1 </dev/null || die "$name does not start: $(cat "$dir/log/start.log")"
}

# Waits for a condition, at most a minute.
wait_for() {
    what=$1
    shift
    for _ in $(seq 300); do
        ! "$@" 2>/dev/null || return 0
        sleep 0.2
    done
    die "$what did not come up; see $dir/log"
}

find_brisk() {
    for brisk in "${BRISK:-}" "$here/../../target/release/brisk" "$here/../../target/debug/brisk"; do
        [ -z "$brisk" ] || [ ! -x "$brisk" ] || { readlink -f "$brisk"; return; }
    done
    command -v brisk || die "there is no brisk: run \`make build\` first, or set BRISK"
}

libraries=$(find "$root/usr/lib" "$root/lib" -maxdepth 1 -name '*-linux-gnu' 2>/dev/null | tr '\n' ':') || true

up() {
    brisk=$(find_brisk)
    mkdir -p "$dir/log" "$dir/tmp" "$dir/plugins" "$dir/cache"
    [ -e "$root/usr/share/wordpress" ] || download
    libraries=$(find "$root/usr/lib" "$root/lib" -maxdepth 1 -name '*-linux-gnu' 2>/dev/null | tr '\n' ':') || true
    [ -e "$dir/site/wp-config.php" ] || make_site
    mysql=$root/usr/share/mysql
    [ -e "$mysql" ] || mysql=/usr/share/mysql
    [ -e "$dir/data/wordpress" ] || make_database
    make_php
    for file in "$here/brisk.conf" "$here/../../packaging/fastcgi.conf" "$here/../../crates/brisk/src/mime.types"; do
        sed -e "s#@DIR@#$dir#g" -e "s#@PORT@#$port#g" "$file" >"$dir/$(basename "$file")"
    done
    [ -z "$as_user" ] || chown -R 65534:65534 "$dir"

    # Nothing that goes on running keeps this script's own output.
    if ! pid_of mysql.pid mariadbd >/dev/null; then
        rm -f "$dir/mysql.sock"
        (
            exec >"$dir/log/database.log" 2>&1 </dev/null
            database
        ) &
    fi
    wait_for MariaDB [ -S "$dir/mysql.sock" ]
    fpm=$(find_one '/usr/sbin/php-fpm[0-9]*')
    if ! pid_of php-fpm.pid php-fpm >/dev/null; then
        rm -f "$dir/php.sock"
        start PHP-FPM "$fpm" -n -c "$dir/php.ini" -y "$dir/php-fpm.conf" -D
    fi
    wait_for PHP-FPM [ -S "$dir/php.sock" ]
    if [ -z "${WORDPRESS_BARE:-}" ]; then
        php=$(find_one '/usr/bin/php[0-9]*.[0-9]')
        run "$php" -n -c "$dir/php.ini" "$here/install.php" "$dir/site" "$url"
    fi
    if ! pid_of brisk.pid brisk >/dev/null; then
        rm -f "$dir/brisk.pid"
        start Brisk "$brisk" -p "$dir" -c "$dir/brisk.conf" -e "$dir/log/brisk.log"
    fi
    wait_for Brisk [ -s "$dir/brisk.pid" ]
    say "$url is served as $dir/brisk.conf says; \`$0 down\` ends it"
}

stop() {
    pid=$(pid_of "$1" "$2") || return 0
    kill "$pid"
    for _ in $(seq 300); do
        [ -e "/proc/$pid" ] || return 0
        sleep 0.1
    done
    die "$2 (process $pid) does not end"
}

down() {
    stop brisk.pid brisk
    stop php-fpm.pid php-fpm
    stop mysql.pid mariadbd
    rm -f "$dir/mysql.sock" "$dir/php.sock"
    say "stopped; everything is in $dir until \`$0 remove\`"
}

case ${1:-} in
up) up ;;
down) down ;;
remove)
    down
    rm -rf "$dir"
    ;;
*) die "usage: $0 up|down|remove" ;;
esac
