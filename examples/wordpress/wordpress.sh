#!/bin/sh
# WordPress on Brisk: wordpress.sh up, down or remove. Needs Debian or its kin with apt's lists, and no rights: Debian's
# packages are unpacked into a folder of their own, so nothing is installed, and no service of this machine is touched.
# `up database` leaves PHP and the web server to you.
#
#   WORDPRESS_DIR   where everything lies (default: /var/tmp/brisk-wordpress)
#   WORDPRESS_PORT  the port on 127.0.0.1 (default: 8090)
#   WORDPRESS_BARE  if set, WordPress's own installer is left to you
#   BRISK           the program (default: target/release/brisk, else target/debug/brisk)
# shellcheck disable=SC2034
set -eu
name=wordpress
movable=yes
here=$(readlink -f "$(dirname "$0")")
dir=${WORDPRESS_DIR:-/var/tmp/brisk-wordpress}
port=${WORDPRESS_PORT:-8090}
url=http://127.0.0.1:$port

# The database server is the package without a service; WordPress comes without what it depends on: that would be another
# web server.
packages='php-fpm php-cli php-mysql php-gd php-xml php-mbstring php-curl php-getid3 libjs-cropper libjs-underscore
    mariadb-server-core'
alone='wordpress wordpress-theme-twentytwentythree'
extensions='mysqlnd pdo mysqli pdo_mysql gd dom simplexml xml xmlreader xmlwriter mbstring curl ctype exif fileinfo iconv
    posix tokenizer'

# shellcheck source=../stack.sh
. "$here/../stack.sh"

# The pages, with a configuration of their own and a folder for what is uploaded.
make_site() {
    [ ! -e "$dir/site/wp-config.php" ] || return 0
    # Debian's WordPress takes these from other packages; what is installed is not here.
    for folder in javascript/cropper javascript/underscore php/getid3; do
        [ -e "$root/usr/share/$folder" ] && continue
        mkdir -p "$(dirname "$root/usr/share/$folder")"
        ln -s "/usr/share/$folder" "$root/usr/share/$folder"
    done
    rm -f "$root/usr/share/wordpress/.htaccess"
    rm -rf "$dir/site"
    cp -rL "$root/usr/share/wordpress" "$dir/site"
    cp -r "$root/var/lib/wordpress/wp-content/index.php" "$dir/site/wp-content/"
    mkdir -p "$dir/site/wp-content/uploads" "$dir/site/wp-content/languages"
    {
        echo "<?php"
        for key in AUTH_KEY SECURE_AUTH_KEY LOGGED_IN_KEY NONCE_KEY AUTH_SALT SECURE_AUTH_SALT LOGGED_IN_SALT NONCE_SALT
        do
            echo "define('$key', '$(secret)');"
        done
        sed -e "s#@DIR@#$dir#g" -e "s#@URL@#$url#g" -e "s#@PASSWORD@#$(password)#g" \
            -e "s#@DATABASE@#$(database_host)#g" "$here/wp-config.php"
    } >"$dir/site/wp-config.php"
}

install_site() {
    # PHP's user need not be allowed to read this folder.
    cp "$here/install.php" "$dir/"
    [ -n "${WORDPRESS_BARE:-}" ] || php "$dir/install.php" "$dir/site" "$url"
}

example "$@"
