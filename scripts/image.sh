#!/bin/sh
# A container image of a built program, in OCI's layout: image.sh FOLDER makes FOLDER with the image "brisk" in it. It holds the
# program, the libraries it links to, and its configuration; no shell, no package manager. Used by `make image`. It needs umoci
# and no rights.
#   skopeo copy oci:FOLDER:brisk docker-daemon:brisk:latest
set -eu
here=$(readlink -f "$(dirname "$0")/..")
BRISK=$(readlink -f "${BRISK:-$here/target/release/brisk}")
out=${1:?usage: image.sh FOLDER}
# Nothing but an image is replaced.
if [ -e "$out" ] && [ ! -e "$out/oci-layout" ] && [ -n "$(ls -A "$out")" ]; then
    echo "$0: $out holds something else than an image: name another folder" >&2
    exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
root=$work/root

# The configuration of the packages, with its logs where containers have them.
BRISK=$BRISK DESTDIR=$work/installed PREFIX=/usr SYSCONFDIR=/etc RUN_USER=www-data "$here/scripts/install.sh" >/dev/null
mkdir -p "$root/usr/bin" "$root/etc" "$root/var/www" "$root/run/brisk" "$root/var/log/brisk" "$root/var/lib/brisk" "$root/var/cache/brisk" "$root/tmp" "$root/proc" "$root/dev"
chmod 1777 "$root/tmp"
cp "$work/installed/usr/bin/brisk" "$root/usr/bin/brisk"
cp -r "$work/installed/etc/brisk" "$root/etc/brisk"
cp -r "$work/installed/var/www/brisk" "$root/var/www/brisk"
sed -i -e 's#/var/log/brisk/error.log#/dev/stderr#' -e 's#/var/log/brisk/access.log#/dev/stdout#' "$root/etc/brisk/brisk.conf"

# Users and names; certificates for back ends that speak TLS.
printf 'root:x:0:0:root:/:/sbin/nologin\nwww-data:x:33:33:www-data:/var/www:/sbin/nologin\n' >"$root/etc/passwd"
printf 'root:x:0:\nwww-data:x:33:\n' >"$root/etc/group"
printf 'hosts: files dns\npasswd: files\ngroup: files\n' >"$root/etc/nsswitch.conf"
if [ -r /etc/ssl/certs/ca-certificates.crt ]; then
    install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
fi

# Libraries where the program looks for them: those it names, the loader, and those by which the C library asks for names.
libraries=$(ldd "$BRISK" | sed -n 's/.* => \(\/[^ ]*\).*/\1/p; s/^[[:space:]]*\(\/[^ ]*\) .*/\1/p')
libc=$(echo "$libraries" | grep '/libc\.so')
for library in $libraries "$(dirname "$libc")"/libnss_dns.so.2 "$(dirname "$libc")"/libnss_files.so.2 "$(dirname "$libc")"/libresolv.so.2; do
    [ ! -e "$library" ] || install -D -m 755 "$(readlink -f "$library")" "$root$library"
done

rm -rf "$out"
umoci init --layout "$out" >/dev/null
umoci new --image "$out:brisk" >/dev/null
umoci insert ${ROOTLESS-$([ "$(id -u)" = 0 ] || echo --rootless)} --image "$out:brisk" "$root" / >/dev/null
umoci config --image "$out:brisk" --config.cmd /usr/bin/brisk --config.cmd -g --config.cmd 'daemon off;' \
    --config.stopsignal SIGQUIT --config.exposedports 80/tcp --config.env PATH=/usr/bin --config.workingdir / >/dev/null
echo "$out:brisk"
