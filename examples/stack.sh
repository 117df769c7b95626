#!/bin/sh
# What the examples that are applications share: Debian's PHP and MariaDB in a folder of their own, behind Brisk.
# Sourced by their scripts, which set
#   name        of the example: its database and its database's user are called so
#   here, dir   the example's folder, and where everything lies
#   port        on 127.0.0.1
#   url         where visitors find it
#   packages    Debian's packages that are needed; those that the machine lacks are unpacked into the folder
#   alone       packages that are unpacked without what they depend on
#   extensions  of PHP
#   movable     if set, the pages ask database_source or database_host where their database is
# EXAMPLE_DATABASE=HOST:PORT says that it is elsewhere; a database and its user, both of the example's name, must be there, and the user's password in
# EXAMPLE_PASSWORD. EXAMPLE_PHP=fpm has PHP-FPM run PHP; else Brisk does, in a pool, where the program that it needs is there (`make php`).
# They define make_site (the pages, if they are not there), install_site (when the database runs), stop_site if they run something besides, and then call
# `example "$@"`, with up, down or remove. Nothing is installed, and no service of the machine is touched.
# shellcheck disable=SC2086,SC2154
# (Lists of packages are lists of words; the variables above are the sourcing script's.)

root=$dir/debian

say() { echo "$name: $*"; }
die() {
    echo "$name: $*" >&2
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

find_libraries() {
    libraries=$(find "$root/usr/lib" "$root/lib" -maxdepth 1 -name '*-linux-gnu' 2>/dev/null | tr '\n' ':') || true
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

secret() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }

# Unpacks what the machine lacks. Once it has been done, apt is not asked again.
download() {
    [ ! -e "$dir/packages/complete" ] || return 0
    { command -v apt-get && command -v dpkg-deb; } >/dev/null ||
        die "this machine is no Debian: apt-get and dpkg-deb are not there"
    mkdir -p "$dir/packages" "$root"
    missing=$(apt-get install -s --no-install-recommends $packages | awk '$1 == "Inst" { print $2 }') ||
        die "apt knows not all of: $packages; have somebody run \`apt-get update\`"
    if [ -n "$missing$alone" ]; then
        say "downloading" $missing $alone
        (cd "$dir/packages" && apt-get -q -o APT::Sandbox::User=root -o Acquire::Retries=5 download $missing $alone >apt.log 2>&1) ||
            die "apt-get download failed: $(tail -n 3 "$dir/packages/apt.log"); perhaps \`apt-get update\` helps"
        for package in "$dir"/packages/*.deb; do
            dpkg-deb -x "$package" "$root"
        done
        rm -f -- "$dir"/packages/*.deb
    fi
    touch "$dir/packages/complete"
}

# MariaDB's own tables lie in the folder, or on the machine.
find_mysql() {
    mysql=$root/usr/share/mysql
    [ -e "$mysql" ] || mysql=/usr/share/mysql
}

# The password of the database's user, made with the database.
password() { cat "$dir/database-password"; }

# Where the database is: as PDO's names of sources have it, and as mysqli takes it for a host.
database_source() {
    case ${EXAMPLE_DATABASE:-} in
    '') echo "unix_socket=$dir/mysql.sock" ;;
    *) echo "host=${EXAMPLE_DATABASE%:*};port=${EXAMPLE_DATABASE##*:}" ;;
    esac
}

database_host() { echo "${EXAMPLE_DATABASE:-localhost:$dir/mysql.sock}"; }

find_database() {
    [ -n "${movable:-}" ] || die "its database cannot be elsewhere"
    [ -n "${EXAMPLE_PASSWORD:-}" ] || die "EXAMPLE_DATABASE needs EXAMPLE_PASSWORD"
    (umask 077 && echo "$EXAMPLE_PASSWORD" >"$dir/database-password")
}

make_database() {
    [ -z "${EXAMPLE_DATABASE:-}" ] || { find_database; return; }
    [ ! -e "$dir/data/$name" ] || return 0
    rm -rf "$dir/data"
    mkdir -p "$dir/data"
    (umask 077 && secret >"$dir/database-password")
    [ -z "$as_user" ] || chown -R 65534:65534 "$dir"
    {
        echo 'CREATE DATABASE mysql;'
        echo 'USE mysql;'
        cat "$mysql/mysql_system_tables.sql" "$mysql/mysql_performance_tables.sql" \
            "$mysql/mysql_system_tables_data.sql"
        echo 'FLUSH PRIVILEGES;'
        echo "CREATE DATABASE $name CHARACTER SET utf8mb4;"
        echo "CREATE USER $name@localhost IDENTIFIED BY '$(password)';"
        echo "GRANT ALL ON $name.* TO $name@localhost;"
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
    extension_dir=$(dirname "$(find_one '/usr/lib/php/20*/opcache.so')")
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
        echo "zend_extension=$extension_dir/opcache.so"
        cat "$here/php.ini"
    } >"$dir/php.ini"
    sed -e "s#@DIR@#$dir#g" "$here/php-fpm.conf" >"$dir/php-fpm.conf"
}

# The command line's PHP, with the example's settings.
php() {
    run "$(find_one '/usr/bin/php[0-9]*.[0-9]')" -n -c "$dir/php.ini" "$@"
}

# The pid in a file, if that process is still one of ours.
pid_of() {
    pid=$(cat "$dir/$1" 2>/dev/null) || return 1
    [ -n "$pid" ] && [ -e "/proc/$pid" ] && tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q "$2" && echo "$pid"
}

# Starts what becomes a service by itself.
start() {
    what=$1
    shift
    run "$@" >"$dir/log/start.log" 2>&1 </dev/null || die "$what does not start: $(cat "$dir/log/start.log")"
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

# Where Brisk looks for the masters of pools: beside itself, and where `make php` puts them.
find_pool_master() {
    for master in "$(dirname "$brisk")"/brisk-php* "$(dirname "$brisk")"/../php/brisk-php* /usr/lib/brisk/brisk-php*; do
        [ ! -x "$master" ] || { echo "$master"; return; }
    done
    return 1
}

# Who runs PHP.
choose_php() {
    case ${EXAMPLE_PHP:-pool} in
    fpm) ;;
    pool)
        master=$(find_pool_master) || {
            say "PHP-FPM runs PHP: there is no program for pools beside $brisk; \`make php\` builds it"
            EXAMPLE_PHP=fpm
        }
        ;;
    *) die "EXAMPLE_PHP is pool or fpm" ;;
    esac
}

# The configuration of the server; with PHP-FPM in the place of the pool, if that is asked for.
make_conf() {
    if [ "${EXAMPLE_PHP:-pool}" = fpm ]; then
        sed -i -e "/^    php_pool/,/^    }/c\\    upstream php { server unix:$dir/php.sock; keepalive 5; }" \
            -e 's#php_pass .*;#fastcgi_keep_conn on; fastcgi_pass php;#' "$dir/brisk.conf"
    fi
}

start_database() {
    [ -z "${EXAMPLE_DATABASE:-}" ] || return 0
    # Nothing that goes on running keeps this script's own output.
    if ! pid_of mysql.pid mariadbd >/dev/null; then
        rm -f "$dir/mysql.sock"
        (
            exec >"$dir/log/database.log" 2>&1 </dev/null
            database
        ) &
    fi
    wait_for MariaDB [ -S "$dir/mysql.sock" ]
}

start_php() {
    if ! pid_of php-fpm.pid php-fpm >/dev/null; then
        rm -f "$dir/php.sock"
        start PHP-FPM "$(find_one '/usr/sbin/php-fpm[0-9]*')" -n -c "$dir/php.ini" -y "$dir/php-fpm.conf" -D
    fi
    wait_for PHP-FPM [ -S "$dir/php.sock" ]
}

start_brisk() {
    if ! pid_of brisk.pid brisk >/dev/null; then
        rm -f "$dir/brisk.pid"
        # A clone in root's home, for instance, cannot be read by the user that everything runs as.
        if ! run test -x "$brisk"; then
            cp "$brisk" "$dir/brisk"
            [ "${EXAMPLE_PHP:-pool}" = fpm ] || cp "$master" "$dir/"
            brisk=$dir/brisk
        fi
        start Brisk "$brisk" -p "$dir" -c "$dir/brisk.conf" -e "$dir/log/brisk.log"
    fi
    wait_for Brisk [ -s "$dir/brisk.pid" ]
    say "$url is served as $dir/brisk.conf says; \`$0 down\` ends it"
}

# All of it, or only "database": then the pages are there, and another server may serve them.
up() {
    only=${1:-}
    if [ -z "$only" ]; then
        brisk=$(find_brisk)
        choose_php
    fi
    mkdir -p "$dir/log" "$dir/tmp" "$dir/plugins" "$dir/cache"
    download
    find_libraries
    find_mysql
    make_database
    make_site
    make_php
    for file in "$here/brisk.conf" "$here/../../packaging/fastcgi.conf" "$here/../../crates/brisk/src/mime.types"; do
        sed -e "s#@DIR@#$dir#g" -e "s#@PORT@#$port#g" "$file" >"$dir/$(basename "$file")"
    done
    make_conf
    [ -z "$as_user" ] || chown -R 65534:65534 "$dir"
    start_database
    [ "$only" = database ] || [ "${EXAMPLE_PHP:-pool}" != fpm ] || start_php
    install_site
    [ "$only" = database ] || start_brisk
}

stop() {
    pid=$(pid_of "$1" "$2") || return 0
    kill "$pid"
    for _ in $(seq 600); do
        [ -e "/proc/$pid" ] || return 0
        sleep 0.1
    done
    die "$2 (process $pid) does not end"
}

down() {
    stop brisk.pid brisk
    stop php-fpm.pid php-fpm
    ! command -v stop_site >/dev/null || stop_site
    stop mysql.pid mariadbd
    rm -f "$dir/mysql.sock" "$dir/php.sock"
    say "stopped; everything is in $dir until \`$0 remove\`"
}

example() {
    case ${1:-} in
    up)
        [ -z "${2:-}" ] || [ "$2" = database ] || die "usage: $0 up [database]"
        up "${2:-}"
        ;;
    down) down ;;
    remove)
        down
        rm -rf "$dir"
        ;;
    *) die "usage: $0 up|down|remove" ;;
    esac
}
