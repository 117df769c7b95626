#!/usr/bin/env python3
"""Edits .htaccess files under load and looks at when each edit counts.

    python3 scripts/htaccess_edits.py BINARY [--edits 1000] [--clients 4] [--json]

Starts BINARY on a folder in /tmp, asks for its files from several connections all the time, and edits meanwhile: writes in
place, renames over, truncates, takes rights away and gives them back, deletes, makes folders, switches symbolic links.
What arrives by rename, disappears or changes its rights must count at the next request, what is written in place within 100 ms.
Exits with 1 if one edit did not.
"""

import argparse
import collections
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

IN_PLACE_MS_MAX = 100


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Site:
    def __init__(self, binary):
        self.folder = tempfile.mkdtemp(prefix="htaccess-edits-", dir="/tmp")
        os.chmod(self.folder, 0o755)
        self.port = free_port()
        root = self.path("site")
        for name in ("site", "site/a", "site/one", "site/two"):
            os.mkdir(self.path(name))
        for name in ("a", "one", "two"):
            self.write(f"site/{name}/f.txt", name)
            self.write(f"site/{name}/.htaccess", f'Header set X-V "{name}"\n')
        os.symlink("one", self.path("site/current"))
        conf = f"""daemon off; pid {self.path('pid')}; error_log {self.path('error.log')};
events {{ }}
http {{ access_log off; server {{ listen 127.0.0.1:{self.port}; root {root}; directory_overrides on; location / {{ }} }} }}
"""
        self.write("brisk.conf", conf)
        self.server = subprocess.Popen([binary, "-p", self.folder, "-c", self.path("brisk.conf")])
        for _ in range(200):
            try:
                self.ask("/a/f.txt")
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("the server does not answer")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def replace(self, name, text):
        self.write(name + ".new", text)
        os.rename(self.path(name + ".new"), self.path(name))

    def ask(self, target, connection=None):
        own = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        own.request("GET", target)
        response = own.getresponse()
        response.read()
        if connection is None:
            own.close()
        return response.status, response.getheader("X-V")

    def end(self):
        self.server.send_signal(signal.SIGTERM)
        self.server.wait()
        shutil.rmtree(self.folder)


def load(site, over, count):
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=10)
    while not over.is_set():
        for target in ("/a/f.txt", "/current/f.txt", "/one/f.txt"):
            try:
                site.ask(target, connection)
            except (OSError, http.client.HTTPException):
                connection.close()
                connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=10)
            count[0] += 1


def edits(site, number):
    """One edit of each kind: its name, what does it, what is asked, the answer, whether it was in place."""
    file, value = "site/a/.htaccess", f"v{number}"
    text = f'Header set X-V "{value}"\n'

    def in_place():
        site.write(file, text)

    def made():
        folder = f"site/new{number}"
        os.mkdir(site.path(folder))
        site.write(f"{folder}/f.txt", "new")
        site.replace(f"{folder}/.htaccess", text)

    def switched():
        target = "two" if os.readlink(site.path("site/current")) == "one" else "one"
        os.symlink(target, site.path("site/next"))
        os.rename(site.path("site/next"), site.path("site/current"))

    def truncated():
        # By a writer that closes it: the kernel tells of no end where truncate(2) is given a path, and 60 s count then.
        with open(site.path(file), "r+") as opened:
            opened.truncate(0)

    yield "in place", in_place, "/a/f.txt", (200, value), True
    yield "renamed over", lambda: site.replace(file, text + "# more\n"), "/a/f.txt", (200, value), False
    yield "rights taken", lambda: os.chmod(site.path(file), 0), "/a/f.txt", (403, None), False
    yield "rights given", lambda: os.chmod(site.path(file), 0o644), "/a/f.txt", (200, value), False
    yield "truncated", truncated, "/a/f.txt", (200, None), True
    yield "deleted", lambda: os.unlink(site.path(file)), "/a/f.txt", (200, None), False
    yield "link switched", switched, "/current/f.txt", None, False
    yield "folder made", made, f"/new{number}/f.txt", (200, value), False


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("binary")
    arguments.add_argument("--edits", type=int, default=1000)
    arguments.add_argument("--clients", type=int, default=4)
    arguments.add_argument("--json", action="store_true")
    wishes = arguments.parse_args()
    if os.geteuid() != 0:
        raise SystemExit("as root: rights that are taken away must count for the worker, which is another user")
    site = Site(wishes.binary)
    over, asked = threading.Event(), [0]
    loads = [threading.Thread(target=load, args=(site, over, asked)) for _ in range(wishes.clients)]
    for one in loads:
        one.start()
    late, times, done, number = [], collections.defaultdict(list), 0, 0
    try:
        while done < wishes.edits:
            number += 1
            for name, edit, target, wanted, is_in_place in edits(site, number):
                if done == wishes.edits:
                    break
                edit()
                began = time.monotonic()
                if wanted is None:
                    wanted = (200, os.readlink(site.path("site/current")))
                got = site.ask(target)
                while got != wanted and is_in_place and time.monotonic() - began < 2:
                    got = site.ask(target)
                took_ms = (time.monotonic() - began) * 1000
                times[name].append(took_ms)
                if got != wanted or (is_in_place and took_ms > IN_PLACE_MS_MAX):
                    late.append({"edit": name, "number": number, "got": got, "wanted": wanted, "ms": round(took_ms, 1)})
                done += 1
    finally:
        over.set()
        for one in loads:
            one.join()
        site.end()
    kinds = {name: {"edits": len(all), "ms_max": round(max(all), 1)} for name, all in times.items()}
    result = {"edits": done, "effective": done - len(late), "requests_beside": asked[0], "kinds": kinds, "late": late[:20]}
    if wishes.json:
        print(json.dumps(result, indent=1))
    else:
        print(f"{result['effective']} of {done} edits were effective in time, beside {asked[0]} requests")
        for name, kind in kinds.items():
            print(f"  {name:14} {kind['edits']:5} edits, the answer after {kind['ms_max']} ms at most")
        for one in late[:20]:
            print(f"  late: {one}")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
