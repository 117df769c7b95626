#!/bin/sh
# Puts Brisk into place, or removes it (install.sh uninstall). Used by `make install`; paths come from the environment.
# What an administrator may have edited is never overwritten, nor removed, but for logrotate's rule, which needs the program.
set -eu
# Pages and folders are for other users, too, whatever the administrator's shell says.
umask 022
here=$(readlink -f "$(dirname "$0")/..")
: "${PREFIX:=/usr}" "${SYSCONFDIR:=/etc}" "${DESTDIR:=}" "${RUN_USER:=www-data}" "${UNITDIR:=$PREFIX/lib/systemd/system}"

bin=$DESTDIR$PREFIX/bin/brisk
man=$DESTDIR$PREFIX/share/man
bash=$DESTDIR$PREFIX/share/bash-completion/completions/brisk
# Debian's zsh looks for what its own packages bring elsewhere than for the rest.
case $PREFIX in
/usr) zsh=$DESTDIR$PREFIX/share/zsh/vendor-completions/_brisk ;;
*) zsh=$DESTDIR$PREFIX/share/zsh/site-functions/_brisk ;;
esac
fish=$DESTDIR$PREFIX/share/fish/vendor_completions.d/brisk.fish
doc=$DESTDIR$PREFIX/share/doc/brisk
unit=$DESTDIR$UNITDIR/brisk.service
share=$DESTDIR$PREFIX/share/brisk
# What embeds PHP, where the program looks for it (make php).
php=$DESTDIR$PREFIX/lib/brisk
etc=$DESTDIR$SYSCONFDIR/brisk
rotate=$DESTDIR$SYSCONFDIR/logrotate.d/brisk

if [ "${1:-}" = uninstall ]; then
    rm -f "$bin" "$man/man8/brisk.8" "$man"/man1/brisk-*.1 "$bash" "$zsh" "$fish" "$unit" "$unit.d/older-systemd.conf" "$rotate"
    [ ! -f "$share/symbols" ] || rm -f "$DESTDIR$(cat "$share/symbols")"
    rm -rf "$doc" "$share"
    rm -f "$php"/brisk-php* "$php"/libbrisk-php*
    [ ! -d "$php" ] || rmdir --ignore-fail-on-non-empty "$php"
    [ ! -d "$unit.d" ] || rmdir --ignore-fail-on-non-empty "$unit.d"
    echo "removed; $etc, $DESTDIR/var/log/brisk and $DESTDIR/var/www/brisk are left as they are"
    exit 0
fi

BRISK=${BRISK:-$here/target/release/brisk}
if [ ! -x "$BRISK" ]; then
    echo "$BRISK is not there: run \`make build\` first" >&2
    exit 1
fi

# place MODE SOURCE TARGET: with this installation's user and paths in place of the usual ones.
place() {
    mkdir -p "$(dirname "$3")"
    sed -e "s#/usr/bin/brisk#$PREFIX/bin/brisk#g" -e "s#/etc/brisk#$SYSCONFDIR/brisk#g" -e "s#www-data#$RUN_USER#g" "$2" >"$3"
    chmod "$1" "$3"
}

# The same for files that are the administrator's from then on.
place_new() {
    if [ -e "$3" ]; then
        echo "kept: $3"
    else
        place "$@"
    fi
}

# The program without its symbols; those lie where debuggers look for them, by the program's build id.
install -D -m 755 "$BRISK" "$bin"
id=$(readelf -n "$BRISK" 2>/dev/null | sed -n 's/^ *Build ID: //p')
if [ -n "$id" ] && command -v objcopy >/dev/null; then
    symbols=$DESTDIR$PREFIX/lib/debug/.build-id/$(echo "$id" | cut -c1-2)/$(echo "$id" | cut -c3-).debug
    mkdir -p "$(dirname "$symbols")"
    objcopy --only-keep-debug --compress-debug-sections "$BRISK" "$symbols"
    chmod 644 "$symbols"
    objcopy --strip-all --remove-section=.comment "$BRISK" "$bin"
    mkdir -p "$share"
    echo "$symbols" | sed "s#^$DESTDIR##" >"$share/symbols"
fi
for master in "$(dirname "$BRISK")"/../php/brisk-php[0-9]*; do
    [ ! -x "$master" ] || install -D -m 755 -s "$master" "$php/$(basename "$master")"
done
for hosted in "$(dirname "$BRISK")"/../php/libbrisk-php[0-9]*.so; do
    [ ! -e "$hosted" ] || install -D -m 644 -s "$hosted" "$php/$(basename "$hosted")"
done
# The program's own default is /etc.
if [ "$SYSCONFDIR" != /etc ]; then
    mkdir -p "$share"
    echo "$SYSCONFDIR" >"$share/sysconfdir"
else
    rm -f "$share/sysconfdir"
fi
# Manual pages and completions come from the program itself.
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
"$BRISK" man --all "$made"
for page in "$made"/man?/*; do
    place 644 "$page" "$man/${page#"$made"/}"
done
complete() {
    "$BRISK" completions "$1" >"$made/completions"
    install -D -m 644 "$made/completions" "$2"
}
complete bash "$bash"
complete zsh "$zsh"
complete fish "$fish"
place 644 "$here/packaging/brisk.service" "$unit"
for example in brisk.socket brisk.service.d/unprivileged.conf brisk.service.d/php.conf; do
    place 644 "$here/packaging/$example" "$doc/examples/$(basename "$example")"
done
# The first site and its pages come once: an administrator may have removed them.
if [ ! -e "$etc/brisk.conf" ]; then
    place_new 644 "$here/packaging/default.conf" "$etc/conf.d/default.conf"
    if [ ! -e "$DESTDIR/var/www/brisk" ]; then
        mkdir -p "$DESTDIR/var/www/brisk"
        cp "$here"/packaging/www/* "$DESTDIR/var/www/brisk/"
    fi
fi
place_new 644 "$here/packaging/brisk.conf" "$etc/brisk.conf"
place_new 644 "$here/crates/brisk/src/mime.types" "$etc/mime.types"
for params in fastcgi_params fastcgi.conf scgi_params uwsgi_params; do
    place_new 644 "$here/packaging/$params" "$etc/$params"
done
place_new 644 "$here/packaging/logrotate" "$rotate"
mkdir -p "$DESTDIR/var/log/brisk" "$DESTDIR/var/lib/brisk" "$DESTDIR/var/cache/brisk" "$DESTDIR/run/brisk"

# notify-reload is known from systemd 253 on.
version=$(systemctl --version 2>/dev/null | awk 'NR == 1 { print int($2) }') || version=
if [ -n "$version" ] && [ "$version" -lt 253 ]; then
    place 644 "$here/packaging/brisk.service.d/older-systemd.conf" "$unit.d/older-systemd.conf"
fi

if [ -z "$DESTDIR" ] && ! id "$RUN_USER" >/dev/null 2>&1; then
    echo "note: there is no user $RUN_USER; create it, or name another one in $etc/brisk.conf"
fi
echo "installed: $bin, $etc/brisk.conf"
echo "next: $PREFIX/bin/brisk -t, then systemctl enable --now brisk (or just $PREFIX/bin/brisk)"
