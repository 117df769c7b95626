#!/usr/bin/env python3
"""Very many folders under `directory_overrides`: htaccess_folders.py BINARY [--folders 100000] [--share 10] [--json]

Makes so many folders, each `share`-th with a `.htaccess`, and measures: the time from the start of the server to its first answer beside
the same site without overrides; the time of a reload; what the worker's memory grows by for each folder that is asked for once, then once
more, and for each of 10,000 that are asked for three times in a row (those are watched and kept by the cache of files, whose entries are
bounded), and what the kernel's watches are beside it; whether edits in folders that were asked for long ago still count at the next request; and the same
with a quarter of the watches that it would need (in a user namespace of its own), where nothing may be open that is closed. What is
under way is told on standard error.

Ends with 1 if the start is 1.5 times as long and 50 ms longer, if a folder takes more than 300 bytes when it was asked for once or twice, or if one
edit did not count.
"""

import argparse, http.client, json, os, pathlib, re, shutil, signal, socket, subprocess, sys, tempfile, time

BYTES_MAX = 300
# So many folders are asked for several times in a row, as those in use are.
IN_USE = 10_000
# A server that does not answer for so long has ended, or never will.
ANSWER_SECS_MAX = 60


def told(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


class Site:
    def __init__(self, folders, share):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="htaccess-folders-", dir="/tmp"))
        self.dir.chmod(0o755)
        self.names = [f"{number // 1000}/{number % 1000}" for number in range(folders)]
        self.share = share
        for number, name in enumerate(self.names):
            folder = self.dir / "site" / name
            folder.mkdir(parents=True)
            (folder / "f.txt").write_text("open")
            if self.has_file(number):
                (folder / ".htaccess").write_text("Header set X-V old\n" if number % (2 * share) else "Require all denied\n")

    def has_file(self, number):
        return self.share and number % self.share == 0

    def status(self, number):
        return 403 if self.has_file(number) and number % (2 * self.share) == 0 else 200

    def configure(self, directives, watches_max=None):
        self.watches_max = watches_max
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        (self.dir / "brisk.conf").write_text(
            f"daemon off; {'' if watches_max else 'user root;'} worker_processes 1; pid {self.dir}/pid; error_log {self.dir}/error.log; events {{ }}\n"
            f"http {{ access_log off; server {{ listen 127.0.0.1:{self.port}; root {self.dir}/site; {directives}\n"
            "location / { } location = /metrics { directory_overrides off; metrics; } } }\n")

    def start(self, binary):
        began = time.monotonic()
        # The limit of a namespace holds for those inside. The server is an ordinary user there: it has no others to change to.
        limited = (f"echo {self.watches_max} > /proc/sys/user/max_inotify_watches && "
                   "exec unshare --user --map-user=1000 --map-group=1000 \"$@\"")
        within = ["unshare", "--user", "--map-root-user", "sh", "-c", limited, "sh"] if self.watches_max else []
        self.server = subprocess.Popen([*within, binary, "-p", str(self.dir), "-c", str(self.dir / "brisk.conf")],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        while True:
            try:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_SECS_MAX)
                assert self.ask(f"/{self.names[-1]}/f.txt")[0] in (200, 403)
                return time.monotonic() - began
            except OSError:
                assert self.server.poll() is None, (self.dir / "error.log").read_text()
                assert time.monotonic() - began < ANSWER_SECS_MAX, (self.dir / "error.log").read_text()[-2000:]
                time.sleep(0.001)

    def ask(self, target):
        for _ in range(2):
            try:
                self.connection.request("GET", target)
                answer = self.connection.getresponse()
                return answer.status, answer.read().decode(), answer.getheader("X-V")
            except (http.client.HTTPException, ConnectionError):
                self.connection.close()
        raise OSError("no answer")

    def worker(self):
        return int(pathlib.Path(f"/proc/{self.server.pid}/task/{self.server.pid}/children").read_text().split()[0])

    def memory(self):
        text = pathlib.Path(f"/proc/{self.worker()}/smaps_rollup").read_text()
        return int(re.search(r"^Anonymous:\s+(\d+)", text, re.M)[1]) * 1024

    def metrics(self):
        text = self.ask("/metrics")[1]
        return {name: int(float(value)) for name, value in re.findall(r"^(brisk_\w*(?:watch|file)\w*) (\S+)$", text, re.M)}

    def watches(self):
        count = 0
        for path in pathlib.Path(f"/proc/{self.worker()}/fdinfo").iterdir():
            try:
                count += path.read_text().count("inotify wd:")
            except OSError:
                pass
        return count

    def reload(self):
        """How long until the new configuration answers."""
        text = (self.dir / "brisk.conf").read_text()
        (self.dir / "brisk.conf").write_text(text.replace("location = /metrics", "location = /new { return 204; } location = /metrics"))
        began = time.monotonic()
        self.server.send_signal(signal.SIGHUP)
        while self.ask("/new")[0] != 204:
            assert time.monotonic() - began < ANSWER_SECS_MAX, (self.dir / "error.log").read_text()[-2000:]
            time.sleep(0.001)
        return time.monotonic() - began

    def end(self):
        self.server.send_signal(signal.SIGTERM)
        self.server.wait()


def round_of(site):
    wrong = 0
    began = time.monotonic()
    for number, name in enumerate(site.names):
        wrong += site.ask(f"/{name}/f.txt")[0] != site.status(number)
    return wrong, time.monotonic() - began


def in_use(site):
    names = list(enumerate(site.names))[:IN_USE]
    return sum(site.ask(f"/{name}/f.txt")[0] != site.status(number) for number, name in names for _ in range(3)), len(names)


def edits(site, count):
    """Edits by rename in folders that were asked for long ago; gives how many did not count at the next request."""
    late = []
    for edit in range(count):
        number = edit * (len(site.names) // count)
        folder, target = site.dir / "site" / site.names[number], f"/{site.names[number]}/f.txt"
        for text, status in (("Require all denied\n", 403), (f"Header set X-V {edit}\n", 200)):
            (folder / "new").write_text(text)
            os.rename(folder / "new", folder / ".htaccess")
            got = site.ask(target)
            if got[0] != status or status == 200 and got[2] != str(edit):
                late.append((target, status, got))
        os.unlink(folder / ".htaccess")
        if site.ask(target)[0] != 200:
            late.append((target, "without a file"))
        if site.has_file(number):
            (folder / "new").write_text("Header set X-V old\n" if number % (2 * site.share) else "Require all denied\n")
            os.rename(folder / "new", folder / ".htaccess")
    return late


def measured(site, binary, directives, edit_count=0, watches_max=None):
    site.configure(directives, watches_max)
    told(f"{directives} {f'with {watches_max} watches' if watches_max else ''}")
    found = {"start_ms": round(site.start(binary) * 1e3, 1)}
    try:
        told("each folder for the first time")
        before, watched = site.memory(), site.watches()
        found["wrong"], took = round_of(site)
        found["us_per_first_request"] = round(took / len(site.names) * 1e6, 1)
        found["bytes_per_folder"] = round((site.memory() - before) / len(site.names), 1)
        found["watches"] = site.watches() - watched
        told("each folder for the second time")
        wrong, took = round_of(site)
        found["wrong"] += wrong
        found["us_per_second_request"] = round(took / len(site.names) * 1e6, 1)
        found["bytes_per_folder_after_second_round"] = round((site.memory() - before) / len(site.names), 1)
        told("folders in use")
        before = site.memory()
        wrong, count = in_use(site)
        found["wrong"] += wrong
        found["bytes_more_per_folder_in_use"] = round((site.memory() - before) / count, 1)
        found["watches_for_folders_in_use"] = site.watches() - watched
        if edit_count:
            told("edits")
            late = edits(site, edit_count)
            found["late_edits"], found["edits"], found["late"] = len(late), 3 * edit_count, [str(one) for one in late[:5]]
        told("reload")
        found["metrics"] = site.metrics()
        found["reload_ms"] = round(site.reload() * 1e3, 1)
    finally:
        site.end()
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("binary")
    arguments.add_argument("--folders", type=int, default=100_000)
    arguments.add_argument("--share", type=int, default=10)
    arguments.add_argument("--json", action="store_true")
    wishes = arguments.parse_args()
    binary = os.path.realpath(wishes.binary)
    site, found = Site(wishes.folders, wishes.share), {}
    try:
        share, site.share = site.share, 0
        found["off"] = measured(site, binary, "directory_overrides off;")
        site.share = share
        found["on"] = measured(site, binary, "directory_overrides on;", 200)
        found["few_watches"] = measured(site, binary, "directory_overrides on;", 200, wishes.folders // 4)
        log = (site.dir / "error.log").read_text(errors="replace")
        found["few_watches"]["said"] = sorted({line.split("] ", 1)[-1][:160] for line in log.splitlines() if "watch" in line})[:5]
    finally:
        shutil.rmtree(site.dir, ignore_errors=True)
    per_folder = {}
    for times in ("", "_after_second_round"):
        per_folder[times] = round(found["on"]["bytes_per_folder" + times] - found["off"]["bytes_per_folder" + times], 1)
        found["bytes_per_folder_for_overrides" + times] = per_folder[times]
    print(json.dumps(found, indent=None if wishes.json else 1))
    starts = [found[one]["start_ms"] for one in ("off", "on")]
    is_late = any(one.get("late_edits") or one["wrong"] for one in found.values() if isinstance(one, dict))
    return 1 if is_late or max(per_folder.values()) > BYTES_MAX or starts[1] > max(1.5 * starts[0], starts[0] + 50) else 0


if __name__ == "__main__":
    sys.exit(main())
