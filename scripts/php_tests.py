#!/usr/bin/env python3
"""PHP's own tests against a running pool.

  php_tests.py run BRISK PHP-SOURCE RESULTS.tsv    runs the tests that need php-cgi twice, by php-cgi and by a pool, and compares
  php_tests.py fpm BRISK PHP-SOURCE RESULTS.tsv    the same with those of PHP-FPM: by Debian's php-fpm, and by php_fpm.py
  php_tests.py bridge SOCKET ARGUMENT...           what run-tests.php takes for php-cgi: its environment becomes one FastCGI request

PHP-SOURCE is the unpacked source of the version that is installed (Debian: apt-get source php8.2). It is not written to. The tests run as
the user nobody, in a copy.
"""
import glob
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

AREAS = ["tests/basic", "ext/session/tests", "ext/standard/tests/general_functions", "sapi/cgi/tests"]
SECTIONS = re.compile(r"^--(GET|POST|COOKIE|POST_RAW|PUT|GZIP_POST|DEFLATE_POST|EXPECTHEADERS|CGI)--", re.M)
NOBODY = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]


# FPM's tests with 12,800 workers, with 129 pools, and with 167 messages that are waited for one by one: they are not run by a pool, and count as not
# passed.
TOO_LARGE = re.compile(r"gh16432|bug80024|bug72185")


# The bridge.

def record(kind, body):
    return struct.pack(">BBHHBB", 1, kind, 1, len(body), 0, 0) + body


def length(size):
    return bytes([size]) if size < 128 else struct.pack(">I", size | 1 << 31)


def stream(kind, body):
    parts = [record(kind, body[at:at + 65535]) for at in range(0, len(body), 65535)]
    return b"".join(parts) + record(kind, b"")


def setting(text):
    """-d NAME=VALUE as php-cgi understands it."""
    name, equals, value = text.partition("=")
    if not equals:
        return f"{name}=1"
    is_plain = value == "" or value[0].isalnum() or value[0] in "\"'"
    return f"{name}={value}" if is_plain else f'{name}="{value}"'


def arguments(words):
    """The script, the settings, and whether headers are left out."""
    script, settings, is_quiet, rest = None, [], False, iter(words)
    for word in rest:
        if word == "-f":
            script = next(rest)
        elif word == "-d":
            settings.append(setting(next(rest)))
        elif word.startswith("-d"):
            settings.append(setting(word[2:]))
        elif word in ("-c", "-z", "-T"):
            next(rest)
        elif word == "-q":
            is_quiet = True
        elif not word.startswith("-") and script is None:
            script = word
    return script, settings, is_quiet


def request(script, settings):
    env = dict(os.environ)
    env.setdefault("REQUEST_METHOD", "GET")
    for name in ("SCRIPT_FILENAME", "SCRIPT_NAME"):
        env[name] = env.get(name) or os.path.abspath(script)
    env.pop("PATH_TRANSLATED", None) if env.get("PATH_TRANSLATED") == env["SCRIPT_FILENAME"] else None
    if settings:
        env["PHP_ADMIN_VALUE"] = "\n".join(settings)
    pairs = [(name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in env.items()]
    return b"".join(length(len(name)) + length(len(value)) + name + value for name, value in pairs)


def bridge(path, words):
    script, settings, is_quiet = arguments(words)
    if script is None:
        sys.exit("there is no script among the arguments")
    has_body = os.environ.get("CONTENT_LENGTH", "") not in ("", "0")
    body = sys.stdin.buffer.read() if has_body else b""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        begin = record(1, struct.pack(">HB5x", 1, 0))
        connection.sendall(begin + stream(4, request(script, settings)) + stream(5, body))
        answer = connection.makefile("rb")
        out = b""
        while True:
            head = answer.read(8)
            if len(head) < 8:
                break
            _, kind, _, size, padding, _ = struct.unpack(">BBHHBB", head)
            content = answer.read(size)
            answer.read(padding)
            if kind == 6:
                out += content
            elif kind == 7:
                sys.stderr.buffer.write(content + b"\n")
            elif kind == 3:
                break
    if is_quiet:
        out = out.partition(b"\r\n\r\n")[2]
    sys.stdout.buffer.write(out)


# Both runs.

def needs_cgi(path):
    with open(path, encoding="latin-1") as file:
        return SECTIONS.search(file.read()) is not None


def tests(source):
    for area in AREAS:
        for folder, _, names in os.walk(os.path.join(source, area)):
            for name in sorted(names):
                path = os.path.join(folder, name)
                if name.endswith(".phpt") and (area.startswith("sapi") or needs_cgi(path)):
                    yield path


def copy(source, work):
    target = os.path.join(work, "source")
    for part in ["tests", "ext/session", "ext/standard/tests", "sapi/cgi/tests", "run-tests.php"]:
        place = os.path.join(target, part)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        whole = os.path.join(source, part)
        shutil.copytree(whole, place) if os.path.isdir(whole) else shutil.copy(whole, place)
    subprocess.run(["chown", "-R", "nobody:nogroup", target], check=True)
    return target


def results(target, work, name, names, env):
    """Runs tests; gives what became of each."""
    report = os.path.join(work, f"{name}.results")
    command = NOBODY + ["php", os.path.join(target, "run-tests.php"), "-q", "-n", "-d", "session.gc_probability=0", "--set-timeout", "30", "-W", report] + names
    environment = {**os.environ, "NO_INTERACTION": "1", "TEST_PHP_EXECUTABLE": shutil.which("php"), "TMPDIR": work, **env}
    # A test that knows no pid sends its signal to the whole group of processes, which is not to be this one.
    subprocess.run(command, env=environment, start_new_session=True, cwd=target, stdout=open(os.path.join(work, f"{name}.log"), "w"), stderr=subprocess.STDOUT)
    found = {}
    with open(report, encoding="latin-1") as file:
        for line in file:
            result, _, path = line.rstrip("\n").partition("\t")
            found[os.path.relpath(path.strip(), target)] = result.strip("[] ")
    return found


def serve(brisk, work):
    """A server with a pool as php-cgi -n would be; gives it and the pool's socket. Tests name the extensions that they need with each request, which
    is too late for a pool: it has those that are installed and that one of them names."""
    ini = os.path.join(work, "php.ini")
    with open(ini, "w") as file:
        file.writelines(f"extension={path}\n" for path in sorted(glob.glob("/usr/lib/php/*/mbstring.so"))[-1:])
    conf = os.path.join(work, "brisk.conf")
    with open(conf, "w") as file:
        file.write(f"""daemon off; error_log {work}/error.log; pid {work}/brisk.pid;
events {{ }}
http {{
    access_log off;
    php_pool tests {{ pm static; max_children 4; php_ini {ini}; clear_env no; request_terminate_timeout 60s; catch_workers_output yes; }}
    server {{ listen unix:{work}/http.sock; location / {{ php_pass tests; }} }}
}}
""")
    subprocess.run(["chown", "-R", "nobody:nogroup", work], check=True)
    environment = dict(os.environ, PHP_INI_SCAN_DIR="", TMPDIR=work)
    server = subprocess.Popen(NOBODY + [brisk, "-p", work, "-c", conf], env=environment)
    deadline = time.time() + 30
    while time.time() < deadline:
        for folder, _, names in os.walk(work):
            sockets = [name for name in names if name.startswith("tests-") and name.endswith(".sock")]
            if sockets:
                return server, os.path.join(folder, sockets[0])
        time.sleep(0.05)
    server.terminate()
    sys.exit("the server did not start: " + open(os.path.join(work, "error.log")).read())


def prefix(work, name, fpm):
    """A folder as an installed PHP has it: bin/php beside sbin/php-fpm is what FPM's tests look for."""
    folder = os.path.join(work, name)
    os.makedirs(os.path.join(folder, "bin"))
    os.makedirs(os.path.join(folder, "sbin"))
    os.symlink(os.path.realpath(shutil.which("php")), os.path.join(folder, "bin/php"))
    wrapper(os.path.join(folder, "sbin"), "php-fpm", fpm)
    return {"TEST_PHP_EXECUTABLE": os.path.join(folder, "bin/php")}


def run_fpm(brisk, source, out):
    work = tempfile.mkdtemp(prefix="php-fpm-tests-")
    os.chmod(work, 0o755)
    target = os.path.join(work, "source")
    os.makedirs(os.path.join(target, "sapi/fpm"))
    shutil.copytree(os.path.join(source, "sapi/fpm/tests"), os.path.join(target, "sapi/fpm/tests"))
    shutil.copy(os.path.join(source, "run-tests.php"), target)
    shutil.copy(os.path.join(os.path.dirname(os.path.realpath(__file__)), "php_fpm.py"), work)
    subprocess.run(["chown", "-R", "nobody:nogroup", work], check=True)
    folder = os.path.join(target, "sapi/fpm/tests")
    names = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".phpt"))
    system = next(path for path in sorted(os.listdir("/usr/sbin")) if re.fullmatch(r"php-fpm[\d.]+", path))
    # Without a php.ini, as in PHP's own folder.
    theirs = prefix(work, "theirs", f"/usr/sbin/{system} -n")
    ours = prefix(work, "ours", f"env BRISK={os.path.realpath(brisk)} /usr/bin/python3 {work}/php_fpm.py")
    reference = results(target, work, "php-fpm", names, theirs)
    compare(reference, results(target, work, "pool", [name for name in names if not TOO_LARGE.search(os.path.basename(name))], ours), out)
    print(f"logs: {work}")


def wrapper(work, name, command):
    path = os.path.join(work, name)
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\nexec {command} "$@"\n')
    os.chmod(path, 0o755)
    return path


def compare(reference, ours, out):
    names = sorted(set(reference) | set(ours))
    # What the reference skips tells nothing of either.
    counted = [name for name in names if reference.get(name) not in ("SKIPPED", "BORKED", None)]
    same = [name for name in counted if reference[name] == ours.get(name)]
    with open(out, "w") as file:
        file.write("test\treference\tpool\n")
        file.writelines(f"{name}\t{reference.get(name, '')}\t{ours.get(name, '')}\n" for name in names)
    for name in counted:
        if reference[name] != ours.get(name):
            print(f"{name}: {reference[name]} by the reference, {ours.get(name)} by the pool")
    print(f"{len(same)} of {len(counted)} tests have the same result ({100 * len(same) / max(1, len(counted)):.1f} %)")


def run(brisk, source, out):
    work = tempfile.mkdtemp(prefix="php-tests-")
    os.chmod(work, 0o755)
    target = copy(os.path.realpath(source), work)
    names = list(tests(target))
    subprocess.run(["chown", "-R", "nobody:nogroup", work], check=True)
    reference = results(target, work, "php-cgi", names, {"TEST_PHP_CGI_EXECUTABLE": shutil.which("php-cgi")})
    server, path = serve(os.path.realpath(brisk), work)
    try:
        program = wrapper(work, "bridge", f"/usr/bin/python3 {os.path.join(work, 'php_tests.py')} bridge {path}")
        shutil.copy(os.path.realpath(__file__), os.path.join(work, "php_tests.py"))
        ours = results(target, work, "pool", names, {"TEST_PHP_CGI_EXECUTABLE": program})
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    compare(reference, ours, out)
    print(f"logs: {work}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["bridge", path, *words]:
            bridge(path, words)
        case ["fpm", brisk, source, out]:
            run_fpm(brisk, source, out)
        case ["run", brisk, source, out]:
            run(brisk, source, out)
        case _:
            sys.exit(__doc__)
