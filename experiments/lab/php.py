"""PHP as each of its owners starts it: PHP-FPM, mod_php, php-cgi; all with the same php.ini, and nothing of /etc."""

import time
from pathlib import Path

from .stage import START_SECONDS_MAX, Refused, installed, php_version

EXTENSIONS = """mysqlnd pdo mysqli pdo_mysql gd dom xml simplexml xmlreader xmlwriter mbstring curl ctype exif fileinfo iconv
    posix tokenizer"""
OPCACHE = """zend_extension={opcache}
opcache.enable = 1
opcache.memory_consumption = 128
opcache.max_accelerated_files = 10000
opcache.revalidate_freq = 2
"""
JIT = """opcache.jit = tracing
opcache.jit_buffer_size = 64M
"""


def ini(stage, name, opcache=True, jit=False, more=""):
    """A folder with a php.ini. PHP as Debian builds it compiles every script for every request without OPcache."""
    folder = Path(installed("/usr/lib/php/20*/mysqli.so", "PHP's MySQL")).parent
    lines = [
        f"extension={folder / extension}.so" for extension in EXTENSIONS.split() if (folder / f"{extension}.so").exists()
    ]
    lines += ["memory_limit = 256M", "expose_php = off", "cgi.fix_pathinfo = 0", "sendmail_path = /bin/true"]
    text = "\n".join(lines) + "\n"
    if opcache:
        text += OPCACHE.format(opcache=installed(folder / "opcache.so", "PHP's OPcache"))
    if jit:
        text += JIT
    data = stage.make_new(f"php-{name}")
    stage.write(f"{data.name}/php.ini", text + more)
    return data


def fpm(stage, name, ini_folder, pm):
    """PHP-FPM with a pool of these `pm…` lines; its socket and its master."""
    data = stage.make_new(f"fpm-{name}")
    socket = data / "php.sock"
    conf = stage.write(
        f"{data.name}/fpm.conf",
        f"[global]\nerror_log = {data}/error.log\ndaemonize = no\n"
        f"[{name}]\nlisten = {socket}\nlisten.backlog = 511\n{pm}\n",
    )
    program = installed(f"/usr/sbin/php-fpm{php_version()}", "PHP-FPM")
    return socket, stage.start(f"fpm-{name}", [program, "-n", "-c", ini_folder / "php.ini", "-y", conf, "-F"], socket)


def pool(stage, ini_folder, settings):
    """The same in Brisk's own pool: its block and what passes requests to it."""
    if not any(stage.folder.glob("brisk-php*")):
        raise Refused("there is no program for Brisk's pools beside the program: run `make php`")
    return f"php_pool site {{ php_ini {ini_folder}/php.ini; {settings} }}", "php_pass site;"


def pool_tiers(server):
    """A server that runs a pool: what of it is PHP is known by its title. A tier within another counts once."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        for child in children(server.pid, 1):
            if Path(f"/proc/{child}/cmdline").read_text().startswith("brisk: php pool"):
                return {"server": server.pid, "PHP": child}
        time.sleep(0.02)
    raise Refused("Brisk has started no pool")


STATIC = "pm = static\npm.max_children = {}"


def children(pid, count):
    """The processes of PHP-FPM's master, once there are so many."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        found = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        if len(found) >= count:
            return found
        if time.monotonic() > deadline:
            raise Refused(f"PHP-FPM has {len(found)} processes in place of {count}")
        time.sleep(0.02)


def proportional_bytes(pid):
    """A process's memory, with what it shares divided among those who share it."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0
