#!/bin/sh
# Builds the masters of PHP pools (php/README.md), for each version of PHP whose headers and library are installed: php.sh [FOLDER].
# FOLDER is target/php if it is not named: beside it Brisk looks for them. What is newer than its sources is left as it is.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-${CARGO_TARGET_DIR:-$here/target}/php}
mkdir -p "$out"

# Warnings of PHP's own headers are not ours.
flags="-std=gnu17 -O2 -g -D_GNU_SOURCE -Wall -Wextra -Werror -Wno-unused-parameter"
flags="$flags -fstack-protector-strong -D_FORTIFY_SOURCE=2 -Wl,-z,relro,-z,now"

# The library of a version as Debian names it, or as PHP's own build does.
library() {
    for name in "php$1" php "php${1%%.*}"; do
        echo 'int main(void) { return 0; }' |
            ${CC:-cc} -x c - -o /dev/null "-l$name" 2>/dev/null && echo "-l$name" && return
    done
}

built=
for config in $(command -v php-config || true) $(find /usr/bin /usr/local/bin -name 'php-config?*' 2>/dev/null | sort); do
    version=$("$config" --version | cut -d. -f1,2)
    program=$out/brisk-php$version hosted=$out/libbrisk-php$version.so
    case " $built " in *" $version "*) continue ;; esac
    link=$(library "$version")
    [ -n "$link" ] || continue
    built="$built $version"
    if [ -x "$program" ] && [ -e "$hosted" ] && [ -z "$(find "$here/php" "$here/scripts/php.sh" -newer "$program" -type f)" ]; then
        continue
    fi
    includes=$("$config" --includes | sed 's/-I/-isystem /g')
    # Moved to its place when it is whole: several builds may run at once.
    # shellcheck disable=SC2086
    ${CC:-cc} $flags -fPIE -pie $includes "$here"/php/*.c -o "$program.$$" $link
    # The same for PHP-FPM's program to load. Nothing but its beginning is visible there: no function of PHP-FPM is replaced by one of ours.
    # shellcheck disable=SC2086
    ${CC:-cc} $flags -DHOSTED -fPIC -shared -fvisibility=hidden $includes "$here"/php/*.c -o "$hosted.$$"
    # The program last: it is what tells whether all is built.
    mv "$hosted.$$" "$hosted"
    mv "$program.$$" "$program"
    echo "built: $program, $hosted"
done
if [ -z "$built" ]; then
    echo "$0: no PHP to embed: install its headers and library (Debian: apt-get install php-dev libphp-embed)" >&2
    exit 1
fi
