#!/usr/bin/env python3
"""What .htaccess files cost a static file: htaccess_cost.py BINARY [--requests N] [--json]

Counts instructions (valgrind --tool=callgrind) and system calls (strace) per request of a file of 100 bytes on the seventh level of
folders, WordPress's own .htaccess in the first and one more in each below: with `directory_overrides on`, relative to the same server
without. Both are repeatable on a busy machine. `--other "DIRECTIVES"` compares with further directives instead.

Where valgrind cannot run the program (its vDSO is not to be seen there, and the program looks for it), only system calls are counted.
Ends with 1 if the files cost more than 1.03 times the instructions, or one system call in ten requests.
"""

import argparse, collections, json, os, pathlib, re, shutil, signal, socket, subprocess, sys, tempfile, time

RATIO_MAX = 1.03
LEVELS = 6
CONNECTIONS = 4

WORDPRESS = """# BEGIN WordPress
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
</IfModule>
# END WordPress
"""


class Site:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="htaccess-cost-", dir="/tmp"))
        self.folder.chmod(0o755)
        folder = self.folder / "site"
        folder.mkdir()
        (folder / ".htaccess").write_text(WORDPRESS)
        for level in range(1, LEVELS + 1):
            folder = folder / f"level{level}"
            folder.mkdir()
            (folder / ".htaccess").write_text("Options -Indexes\n")
        (folder / "small.txt").write_text("x" * 100)
        self.target = "/" + str((folder / "small.txt").relative_to(self.folder / "site"))

    def configure(self, directives):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (self.folder / "brisk.conf").write_text(
            f"daemon off; worker_processes 1; pid {self.folder}/pid; error_log {self.folder}/error.log; events {{ }}\n"
            f"http {{ access_log off; keepalive_requests 1000000; types {{ text/plain txt; }} server {{ listen 127.0.0.1:{self.port};\n"
            f"root {self.folder}/site; {directives} location / {{ }} }} }}\n")

    def start(self, command, before=()):
        process = subprocess.Popen([*before, command, "-p", str(self.folder), "-c", str(self.folder / "brisk.conf")],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(1200):
            assert process.poll() is None, (self.folder / "error.log").read_text()
            try:
                self.connect().close()
                return process
            except OSError:
                time.sleep(0.05)
        raise SystemExit("the server does not listen")

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def ask(self, count):
        """So many requests over a few connections, one after the other on each."""
        request = f"GET {self.target} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
        connections = [self.connect() for _ in range(CONNECTIONS)]
        for number in range(count):
            one = connections[number % CONNECTIONS]
            one.sendall(request)
            answer = one.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"x" * 100), answer
        for one in connections:
            one.close()


def ended(process):
    process.send_signal(signal.SIGTERM)
    process.wait()


def instructions(site, binary, count):
    for old in site.folder.glob("callgrind.*"):
        old.unlink()
    valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={site.folder}/callgrind.%p", "--trace-children=yes"]
    process = site.start(binary, valgrind)
    try:
        site.ask(count)
    except ConnectionError:
        return None
    finally:
        ended(process)
    totals = [re.findall(r"^(?:totals|summary): (\d+)", path.read_text(), re.M) for path in site.folder.glob("callgrind.*")]
    # The worker is the one that has done the most.
    return max(int(one[-1]) for one in totals if one)


def worker_of(process):
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(children[0]) if children else process.pid


def system_calls(site, binary, count):
    process = site.start(binary)
    site.ask(50)
    out = site.folder / "strace"
    tracer = subprocess.Popen(["strace", "-f", "-o", str(out), "-p", str(worker_of(process))], stderr=subprocess.PIPE, text=True)
    assert "attached" in tracer.stderr.readline()
    site.ask(count)
    time.sleep(0.2)
    ended(tracer)
    ended(process)
    names = re.findall(r"^\d+\s+(?:\[pid +\d+\] )?([a-z_0-9]+)\(", out.read_text(), re.M)
    return collections.Counter(names)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("binary")
    arguments.add_argument("--requests", type=int, default=2000)
    arguments.add_argument("--other", default="directory_overrides on;")
    arguments.add_argument("--json", action="store_true")
    wishes = arguments.parse_args()
    binary, count = os.path.realpath(wishes.binary), wishes.requests
    site, found = Site(), {}
    try:
        for name, directives in (("off", ""), ("on", wishes.other)):
            site.configure(directives)
            few = instructions(site, binary, 200)
            many = few and instructions(site, binary, 200 + count)
            calls = system_calls(site, binary, count)
            found[name] = {"instructions_per_request": round((many - few) / count, 1) if few and many else None, "system_calls": dict(calls),
                           "system_calls_per_request": round(sum(calls.values()) / count, 4)}
    finally:
        shutil.rmtree(site.folder, ignore_errors=True)
    counted = [found[name]["instructions_per_request"] for name in ("on", "off")]
    ratio = counted[0] / counted[1] if all(counted) else None
    more = found["on"]["system_calls_per_request"] - found["off"]["system_calls_per_request"]
    found |= {"ratio": ratio and round(ratio, 4), "system_calls_more_per_request": round(more, 4), "requests": count}
    if wishes.json:
        print(json.dumps(found, indent=1))
    else:
        for name in ("off", "on"):
            one = found[name]
            print(f"{name:4} {one['instructions_per_request'] or 'unknown':>10} instructions and {one['system_calls_per_request']} system calls per request")
        if ratio:
            print(f"ratio {ratio:.4f} (at most {RATIO_MAX})")
        print(f"{more:+.4f} system calls per request")
    return 1 if (ratio or 0) > RATIO_MAX or more > 0.1 else 0


if __name__ == "__main__":
    sys.exit(main())
