#!/bin/sh
# Installs what a task needs and this machine lacks, on Debian and its kin:
# setup.sh [test|php|bench|load|experiments|conformance|corpus|image]
# A tool that cannot be had ends this with an error: tests never skip for want of one.
set -eu
task=${1:-test}

# command:package, what to look for and where Debian keeps it.
build='make:make cc:gcc git:git'
case $task in
test)
    tools="$build logrotate:logrotate bwrap:bubblewrap setpriv:util-linux umoci:umoci lintian:lintian patch:patch dpkg-shlibdeps:dpkg-dev systemd-analyze:systemd gzip:gzip unshare:util-linux nsenter:util-linux mount:mount curl:curl
        nghttp:nghttp2-client h2load:nghttp2-client openssl:openssl chromium:chromium ab:apache2-utils wrk:wrk siege:siege
        httperf:httperf cwebp:webp memcached:memcached ffmpeg:ffmpeg go:golang-go python3:python3 script:bsdutils nginx:nginx-light apache2:apache2-bin
        mariadbd:mariadb-server-core mariadb-backup:mariadb-backup strace:strace ss:iproute2 zsh:zsh fish:fish mandoc:mandoc groff:groff-base"
    packages='libc6-dev tzdata php-fpm php-cgi php-mysql php-dev libphp-embed python3-jsonschema node-har-schema
        galera-4 postgresql'
    ;;
bench | load)
    tools="$build nginx:nginx-light h2o:h2o haproxy:haproxy varnishd:varnish h2load:nghttp2-client wrk:wrk ab:apache2-utils gzip:gzip
        apache2:apache2-bin mariadbd:mariadb-server-core sysbench:sysbench php:php-cli php-cgi:php-cgi"
    packages='libc6-dev libnginx-mod-http-brotli-filter libnginx-mod-stream libapache2-mod-php php-fpm php-mysql php-gd php-xml php-mbstring php-curl php-dev
        libphp-embed'
    ;;
experiments)
    # Apache and MariaDB without the packages that make services of them; nginx comes as one, and is not started.
    tools="$build python3:python3 nginx:nginx-light apache2:apache2-bin mariadbd:mariadb-server-core php:php-cli
        php-cgi:php-cgi ab:apache2-utils siege:siege patch:patch openssl:openssl node:nodejs javac:default-jdk-headless sysbench:sysbench
        fusermount3:fuse3"
    packages='libc6-dev python3-fusepy libapache2-mod-php libapache2-mod-fcgid php-fpm php-mysql php-gd php-xml php-mbstring php-curl php-dev libphp-embed
        node-mysql libmariadb-java libjna-java libjna-platform-java'
    ;;
conformance)
    tools="$build perl:perl prove:perl python3:python3 unshare:util-linux ip:iproute2 memcached:memcached openssl:openssl
        uwsgi:uwsgi ffmpeg:ffmpeg"
    packages='libc6-dev uwsgi-plugin-python3 libio-socket-ssl-perl libcryptx-perl libnet-ssleay-perl libcache-memcached-perl libfcgi-perl
        libscgi-perl php-cli php-cgi php-fpm php-dev libphp-embed libgd-perl libprotocol-websocket-perl libcache-memcached-fast-perl'
    ;;
php) tools="$build" packages='libc6-dev php-dev libphp-embed' ;;
image) tools="umoci:umoci" packages= ;;
corpus) tools="$build nginx:nginx-light" packages='libc6-dev' ;;
*) echo "usage: $0 [test|php|bench|load|experiments|conformance|corpus|image]" >&2; exit 2 ;;
esac

has_package() {
    dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'install ok installed'
}

missing=
for tool in $tools; do
    # nginx and logrotate are in sbin, which ordinary users do not search.
    PATH=$PATH:/usr/sbin:/sbin:/usr/local/go/bin command -v "${tool%%:*}" >/dev/null || missing="$missing ${tool#*:}"
done
if command -v dpkg-query >/dev/null; then
    for package in $packages; do
        has_package "$package" || missing="$missing $package"
    done
fi

if [ -n "$missing" ]; then
    missing=$(printf '%s\n' $missing | sort -u | tr '\n' ' ')
    echo "installing: $missing"
    if ! command -v apt-get >/dev/null; then
        echo "$0: this machine has no apt-get; install by its own means: $missing" >&2
        exit 1
    fi
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif command -v sudo >/dev/null; then
        as_root=sudo
    else
        echo "$0: neither root nor sudo; have somebody run: apt-get install $missing" >&2
        exit 1
    fi
    # A package list of yesterday names files that are gone today.
    $as_root apt-get update -qq
    # RUNLEVEL: nginx and h2o are wanted as programs, not as services of this machine.
    $as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends $missing
fi

if [ "$task" = test ] && [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    echo "$0: some tests change users and namespaces: run them as root, or with sudo installed" >&2
    exit 1
fi

# Servers and PHP run as another user in many tests: such a user must reach what lies here.
root=$(cd "$(dirname "$0")/.." && pwd)
if [ "$task" = test ] && [ "$(id -u)" = 0 ] &&
    ! setpriv --reuid=65534 --regid=65534 --clear-groups test -r "$root/Cargo.toml"; then
    echo "$0: tests run programs as another user, who cannot read $root: chmod o+x the folders above it, or clone elsewhere" >&2
    exit 1
fi

# The toolchain: rust-toolchain's components come with rustup; distributions package them apart.
for component in rustfmt clippy; do
    case $component in rustfmt) tool=cargo-fmt ;; clippy) tool=cargo-clippy ;; esac
    command -v "$tool" >/dev/null && "$tool" --version >/dev/null 2>&1 && continue
    if command -v rustup >/dev/null; then
        rustup component add "$component"
    else
        echo "$0: $tool is missing: install Rust's component \"$component\"" >&2
        exit 1
    fi
done

# What Debian does not have is built into target/tools/bin. Tests and benchmarks look there, and then in PATH.
here=$(cd "$(dirname "$0")" && pwd)
tools=${CARGO_TARGET_DIR:-$here/../target}/tools
PATH=$tools/bin:$PATH:/usr/local/go/bin

# build PROGRAM COMMAND...: unless it is there.
build() {
    command -v "$1" >/dev/null && return
    echo "building: $1"
    if ! command -v "$2" >/dev/null; then
        echo "$0: $1 is built with $2, which this machine lacks (Go: https://go.dev/dl)" >&2
        exit 1
    fi
    mkdir -p "$tools/bin"
    tools=$(cd "$tools" && pwd)
    shift
    GOBIN=$tools/bin CARGO_INSTALL_ROOT=$tools "$@"
}

case $task in
test)
    mkdir -p "$tools/bin"
    tools=$(cd "$tools" && pwd)
    # Inside of a module, which says what of Go's libraries it takes: the latest need a newer Go than Debian 12 has.
    "$here/php.sh"
    (cd "$here/h2spec" && build h2spec go install github.com/summerwind/h2spec/cmd/h2spec)
    ;;
bench | experiments) "$here/php.sh" ;;
load)
    "$here/php.sh"
    build oha cargo install --quiet --locked oha
    build k6 go install go.k6.io/k6@latest
    ;;
esac
