#!/bin/sh
# Installs the packages of a folder (`make deb`) into an empty root with nothing but Debian's base system, starts the server there, and asks it for
# its first page and for one of PHP: deb_try.sh [FOLDER [SUITE]]. Needs root, debootstrap and Debian's mirror; nothing of the machine is touched,
# and nothing is left.
set -eu
here=$(readlink -f "$(dirname "$0")/..")
packages=$(readlink -f "${1:-${CARGO_TARGET_DIR:-$here/target}/deb}")
suite=${2:-$(. /etc/os-release && echo "$VERSION_CODENAME")}
command -v debootstrap >/dev/null || { echo "$0: debootstrap is missing: apt-get install debootstrap" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
debootstrap --variant=minbase "$suite" "$root" >"$work/log" || { tail -n 5 "$work/log" >&2; exit 1; }
# Services are started below, not by the packages.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
cp "$packages"/brisk*.deb "$root/root/"
# PHP's library is no older than what it was built with, which may be a security update.
echo "deb http://deb.debian.org/debian-security $suite-security main" >>"$root/etc/apt/sources.list"

cat >"$root/root/install" <<'END'
set -e
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends /root/brisk*.deb curl >/root/log 2>&1 || { tail -n 20 /root/log; exit 1; }
dpkg --audit
END
cat >"$root/root/serve" <<'END'
set -e
mkdir -p /srv/app /run/brisk
echo '<?php echo PHP_SAPI, " as ", posix_geteuid(), ", OPcache ", var_export(opcache_get_status(false)["opcache_enabled"] ?? null, true), "\n";' >/srv/app/index.php
cat >/etc/brisk/conf.d/app.conf <<'CONF'
php_pool www { max_children 4; }
server { listen 127.0.0.1:8099; root /srv/app; index index.php; location ~ \.php$ { php_pass www; } }
CONF
brisk -t
brisk -g 'daemon off;' &
server=$!
curl -sS --fail --retry 20 --retry-connrefused --retry-delay 1 http://127.0.0.1/ | grep -q '<title>'
answer=$(curl -sS --fail http://127.0.0.1:8099/index.php) || { brisk php status; tail -n 20 /var/log/brisk/error.log; exit 1; }
echo "$answer"
[ "$answer" = "fpm-fcgi as $(id -u www-data), OPcache true" ]
brisk php status | grep -q '^pool www (auto, PHP '
kill -QUIT $server
wait $server
END
# inside WORDS...: with file systems and processes of its own, which end with it.
inside() {
    # shellcheck disable=SC2016
    unshare --mount --pid --fork --kill-child --propagation private "$@" sh -c \
        'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && { ip link set lo up 2>/dev/null || true; } && exec chroot "$0" sh "$1"' "$root" "$script"
}
script=/root/install inside
script=/root/serve inside --net
echo "installed and served: $(cd "$packages" && echo brisk*.deb)"
