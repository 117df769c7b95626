#!/bin/sh
# MediaWiki on Brisk: mediawiki.sh up, down or remove. Needs Debian or its kin with apt's lists, and no rights: Debian's
# packages are unpacked into a folder of their own, so nothing is installed, and no service of this machine is touched.
# `up database` leaves PHP and the web server to you.
#
#   MEDIAWIKI_DIR       where everything lies (default: /var/tmp/brisk-mediawiki)
#   MEDIAWIKI_PORT      the port on 127.0.0.1 (default: 8093)
#   MEDIAWIKI_PASSWORD  of the wiki's administrator, Admin (default: one is made and printed)
#   BRISK               the program (default: target/release/brisk, else target/debug/brisk)
# shellcheck disable=SC2034
set -eu
name=mediawiki
here=$(readlink -f "$(dirname "$0")")
dir=${MEDIAWIKI_DIR:-/var/tmp/brisk-mediawiki}
port=${MEDIAWIKI_PORT:-8093}
url=http://127.0.0.1:$port

# MediaWiki comes without what it depends on: that would be another web server.
packages='php-fpm php-cli php-mysql php-gd php-xml php-mbstring php-curl php-intl mariadb-server-core'
alone='mediawiki mediawiki-classes'
extensions='mysqlnd pdo mysqli pdo_mysql gd dom simplexml xml xmlreader xmlwriter mbstring curl ctype exif fileinfo iconv intl
    posix tokenizer'

# shellcheck source=../stack.sh
. "$here/../stack.sh"

# The pages, with folders for what is uploaded and what is kept. The installer is for the command line: its pages are not served.
make_site() {
    [ ! -e "$dir/site/index.php" ] || return 0
    rm -rf "$dir/site" "$dir/site.new"
    mkdir -p "$dir/site.new"
    cp -r "$root/usr/share/mediawiki/." "$dir/site.new/"
    # What Debian links to folders of the machine: settings, pictures, and extensions, which are beside it.
    find "$dir/site.new" -maxdepth 1 -type l -exec rm -f {} +
    mv "$dir/site.new/extensions-core" "$dir/site.new/extensions"
    rm -rf "$dir/site.new/mw-config"
    mkdir -p "$dir/site.new/images" "$dir/site.new/cache"
    mv "$dir/site.new" "$dir/site"
}

install_site() {
    [ ! -e "$dir/site/LocalSettings.php" ] || return 0
    secret=${MEDIAWIKI_PASSWORD:-$(secret | cut -c 1-16)}
    php "$dir/site/maintenance/install.php" --dbtype mysql --dbserver "localhost:$dir/mysql.sock" --dbname mediawiki \
        --dbuser mediawiki --dbpass "$(password)" --server "$url" --scriptpath '' --pass "$secret" \
        --confpath "$dir/site" 'A wiki on Brisk' Admin >"$dir/log/install.log" 2>&1 ||
        die "MediaWiki's installer failed: see $dir/log/install.log"
    cat "$here/settings.php" >>"$dir/site/LocalSettings.php"
    say "log in on $url/wiki/Special:UserLogin as Admin with the password $secret"
}

example "$@"
