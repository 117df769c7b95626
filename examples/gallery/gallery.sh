#!/bin/sh
# Galleries of pictures on Brisk, PHP and MariaDB: gallery.sh up, down or remove. `up database` leaves PHP and the web server
# to you.
#
#   GALLERY_DIR   where everything lies (default: /var/tmp/brisk-gallery)
#   GALLERY_PORT  the port on 127.0.0.1 (default: 8092)
#   BRISK         the program (default: target/release/brisk, else target/debug/brisk)
# shellcheck disable=SC2034
set -eu
name=gallery
movable=yes
here=$(readlink -f "$(dirname "$0")")
dir=${GALLERY_DIR:-/var/tmp/brisk-gallery}
port=${GALLERY_PORT:-8092}
url=http://127.0.0.1:$port
packages='php-fpm php-cli php-mysql php-mbstring php-gd mariadb-server-core'
alone=
extensions='mysqlnd pdo pdo_mysql mbstring gd'

# shellcheck source=../stack.sh
. "$here/../stack.sh"

# The pages as they are in the repository, with folders for the pictures.
make_site() {
    mkdir -p "$dir/site/public/uploads" "$dir/site/public/thumbs"
    cp -r "$here/site/public" "$here/site/src" "$dir/site/"
    [ ! -e "$dir/site/config.php" ] || return 0
    (
        umask 077
        cat >"$dir/site/config.php" <<END
<?php
return [
    'dsn' => 'mysql:$(database_source);dbname=gallery;charset=utf8mb4',
    'user' => 'gallery',
    'password' => '$(password)',
];
END
    )
}

install_site() {
    # PHP's user need not be allowed to read this folder.
    cp "$here/install.php" "$here/schema.sql" "$dir/"
    php "$dir/install.php" "$dir"
}

example "$@"
