#!/bin/sh
# A small bank on Brisk, PHP and MariaDB: bank.sh up, down or remove. `up database` leaves PHP and the web server to you.
#
#   BANK_DIR   where everything lies (default: /var/tmp/brisk-bank)
#   BANK_PORT  the port on 127.0.0.1 (default: 8091)
#   BRISK      the program (default: target/release/brisk, else target/debug/brisk)
# shellcheck disable=SC2034
set -eu
name=bank
movable=yes
here=$(readlink -f "$(dirname "$0")")
dir=${BANK_DIR:-/var/tmp/brisk-bank}
port=${BANK_PORT:-8091}
url=http://127.0.0.1:$port
packages='php-fpm php-cli php-mysql php-mbstring mariadb-server-core'
alone=
extensions='mysqlnd pdo pdo_mysql mbstring'

# shellcheck source=../stack.sh
. "$here/../stack.sh"

# The pages as they are in the repository, and a configuration with the secret that signs tokens.
make_site() {
    mkdir -p "$dir/site"
    cp -r "$here/site/public" "$here/site/src" "$dir/site/"
    [ ! -e "$dir/site/config.php" ] || return 0
    key=$(secret)
    (
        umask 077
        cat >"$dir/site/config.php" <<END
<?php
return [
    'dsn' => 'mysql:$(database_source);dbname=bank;charset=utf8mb4',
    'user' => 'bank',
    'password' => '$(password)',
    'secret' => '$key',
];
END
        # The same key for the server, as a JSON Web Key (RFC 7517).
        k=$(printf %s "$key" | base64 | tr -d '\n=' | tr '+/' '-_')
        echo "{\"keys\": [{\"kty\": \"oct\", \"alg\": \"HS256\", \"k\": \"$k\"}]}" >"$dir/keys.json"
    )
}

install_site() {
    # PHP's user need not be allowed to read this folder.
    cp "$here/install.php" "$here/schema.sql" "$dir/"
    php "$dir/install.php" "$dir"
}

example "$@"
