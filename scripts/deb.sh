#!/bin/sh
# Debian packages of a built program: deb.sh FOLDER puts brisk_VERSION_ARCH.deb and brisk-dbgsym_…_ARCH.deb there, and brisk-phpVERSION_…_ARCH.deb
# for each program that `make php` has built: who runs no PHP needs none of its libraries. Used by
# `make deb`. It needs dpkg-dev (as the compiler does) and no rights.
set -eu
here=$(readlink -f "$(dirname "$0")/..")
BRISK=$(readlink -f "${BRISK:-$here/target/release/brisk}")
out=${1:?usage: deb.sh FOLDER}
mkdir -p "$out"
out=$(readlink -f "$out")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
umask 022

version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/Cargo.toml" | head -1)
maintainer=${MAINTAINER:-Brisk developers <brisk@example.org>}
arch=$(dpkg --print-architecture)
root=$work/brisk
BRISK=$BRISK DESTDIR=$root PREFIX=/usr SYSCONFDIR=/etc UNITDIR=/lib/systemd/system RUN_USER=www-data "$here/scripts/install.sh" >/dev/null

# What the installed program links to, with the versions that it needs.
mkdir -p "$work/source/debian"
printf 'Source: brisk\n\nPackage: brisk\nArchitecture: any\n' >"$work/source/debian/control"
needs() {
    (cd "$work/source" && dpkg-shlibdeps -O --ignore-missing-info "$1" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
}
depends=$(needs "$root/usr/bin/brisk")
masters=$work/masters
[ ! -d "$root/usr/lib/brisk" ] || mv "$root/usr/lib/brisk" "$masters"

# The symbols are a package of their own.
debug=$work/brisk-dbgsym
mkdir -p "$debug/usr/lib" "$debug/usr/share/doc"
mv "$root/usr/lib/debug" "$debug/usr/lib/debug"
rm -f "$root/usr/share/brisk/symbols"
rmdir --ignore-fail-on-non-empty "$root/usr/lib" 2>/dev/null || true

# /var/www is the administrator's: the first site lies with the program.
mkdir -p "$root/usr/share/brisk"
mv "$root/var/www/brisk" "$root/usr/share/brisk/www"
rmdir "$root/var/www"
sed -i 's#/var/www/brisk#/usr/share/brisk/www#' "$root/etc/brisk/conf.d/default.conf"

# systemd makes /run/brisk; the drop-in is for what the target has, not for what this machine has.
rm -rf "$root/run" "$root/lib/systemd/system/brisk.service.d"
case $(. /etc/os-release && echo "${VERSION_ID:-}") in
11 | 12)
    mkdir -p "$root/lib/systemd/system/brisk.service.d"
    cp "$here/packaging/brisk.service.d/older-systemd.conf" "$root/lib/systemd/system/brisk.service.d/"
    ;;
esac
gzip -9n "$root"/usr/share/man/man?/*
doc=$root/usr/share/doc
cp "$here/packaging/debian/copyright" "$doc/brisk/copyright"
sed -e "s/@VERSION@/$version/" -e "s/@MAINTAINER@/$maintainer/" "$here/packaging/debian/changelog" | gzip -9n >"$doc/brisk/changelog.gz"
ln -s brisk "$debug/usr/share/doc/brisk-dbgsym"
mkdir -p "$root/usr/share/lintian/overrides"
cp "$here/packaging/debian/lintian-overrides" "$root/usr/share/lintian/overrides/brisk"

# pack NAME FOLDER [TEMPLATE]: with its control file filled in.
pack() {
    mkdir -p "$2/DEBIAN"
    size=$(du -sk --exclude=DEBIAN "$2" | cut -f1)
    sed -e "s/@NAME@/$1/" -e "s/@VERSION@/$version/" -e "s/@MAINTAINER@/$maintainer/" -e "s/@ARCH@/$arch/" -e "s/@SIZE@/$size/" \
        -e "s/@DEPENDS@/$depends/" -e "s/@HOST@/${host:-}/" "$here/packaging/debian/${3:-$1}.control" >"$2/DEBIAN/control"
    (cd "$2" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | sort -z | xargs -0 md5sum) >"$2/DEBIAN/md5sums"
    dpkg-deb --root-owner-group -Zxz "-z${DEB_COMPRESSION:-6}" --build "$2" "$out/$1_${version}_$arch.deb" >/dev/null
    echo "$out/$1_${version}_$arch.deb"
}

mkdir -p "$root/DEBIAN"
(cd "$root" && find etc -type f | sort | sed 's#^#/#') >"$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do
    install -m 755 "$here/packaging/debian/$script" "$root/DEBIAN/$script"
done
pack brisk "$root"
pack brisk-dbgsym "$debug"
for master in "$masters"/brisk-php*; do
    [ -x "$master" ] || continue
    name=$(basename "$master")
    # PHP's library tells no package by itself. Security updates of PHP add symbols: no older one than it was built with.
    library=libphp${name#brisk-php}-embed
    built_with=$(dpkg-query -W -f '${Version}' "$library" 2>/dev/null | sed 's/^[0-9]*://; s/-[^-]*$//')
    depends="$library${built_with:+ (>= $built_with)}, $(needs "$master")"
    host=php${name#brisk-php}-fpm
    mkdir -p "$work/$name/usr/lib/brisk" "$work/$name/usr/share/doc"
    install -m 755 "$master" "$work/$name/usr/lib/brisk/$name"
    [ ! -e "$masters/lib$name.so" ] || install -m 644 "$masters/lib$name.so" "$work/$name/usr/lib/brisk/lib$name.so"
    ln -s brisk "$work/$name/usr/share/doc/$name"
    pack "$name" "$work/$name" brisk-php
done
