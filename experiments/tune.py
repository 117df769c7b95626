#!/usr/bin/env python3
"""What the articles did by hand, and what `brisk tune` finds, side by side: tune.py [--apps bank,gallery,wordpress] [--servers nginx,apache,brisk]
[--children 2,200] [--minutes M] [--quick] [--brisk PROGRAM] [--out FOLDER]

Each application starts badly set up: too few PHP processes or far too many, no OPcache, no keep-alive. `brisk tune` searches on a copy; then the start, the settings of
the articles and those that were found are measured in turn on the programs themselves. Needs root. --quick takes three minutes for the first case only,
and proves little.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

from lab import examples, load, php, servers, stage  # noqa: E402
from lab.load import Setting, Target  # noqa: E402

USERS = 20
# What each page must say, and what the articles gained by hand.
APPS = {
    "bank": ("public", "the bank", "000: children 5 → 12: +25 %"),
    "gallery": ("public", "Gallery No. 12", "001: static in place of dynamic: +20 %"),
    "wordpress": ("", "A blog on Brisk", "003: OPcache: 12.89 → 35.36/s"),
}
# The articles' own: 12 processes, OPcache, connections that are kept.
CHILDREN_BY_HAND = 12
GOAL = "max rate where p95<2s, errors<1%"
APACHE = [*servers.APACHE_BASE, "mpm_event", "proxy", "proxy_fcgi"]


class Case:
    """One application on one server from one start; `versions` holds the texts of its files."""

    def __init__(self, here, app, server, children):
        self.stage, self.app, self.server, self.children = here, app, server, children
        self.name = f"{app.name}-{server}-{children}"
        self.data = here.make(self.name)
        self.port = here.port()
        self.socket = self.data / "php.sock"
        folder, self.contains, self.article = APPS[app.name]
        self.site = app.site / folder
        start = {self.conf(): self.config(), self.data / "pool.conf": self.pool(children), self.data / "php.ini": self.ini(False)}
        hand = {
            self.conf(): start[self.conf()]
            .replace("keepalive_timeout 0;", "keepalive_timeout 65;")
            .replace("KeepAlive Off", "KeepAlive On")
            .replace(f"pm.max_children {children};", f"pm.max_children {CHILDREN_BY_HAND};"),
            self.data / "pool.conf": self.pool(CHILDREN_BY_HAND),
            self.data / "php.ini": self.ini(True),
        }
        self.versions = {"start": start, "hand": hand}

    def conf(self):
        return self.data / "server.conf"

    def config(self):
        values = {"PORT": self.port, "DATA": self.data, "SITE": self.site, "SOCKET": self.socket}
        name = f"{self.name}/server.conf"
        if self.server == "apache":
            folder = stage.installed("/usr/lib/apache2/modules", "Apache's modules")
            lines = [f"LoadModule {servers.symbol(one)} {servers.file_of(folder, one)}" for one in APACHE]
            values |= {"MODULES": "\n".join(lines), "MIME": servers.mime_types(self.stage)}
            return self.stage.fill(HERE / "tune/apache.conf", name, **values).read_text()
        pool = f"    php_pool app {{\n        user nobody;\n        php_ini {self.data}/php.ini;\n        pm static;\n"
        pool += f"        pm.max_children {self.children};\n    }}\n"
        is_own = self.server == "brisk"
        values |= {
            "COMMON": servers.common(self.stage, self.data),
            "PARAMS": servers.params(self.stage),
            "POOL": pool if is_own else "",
            "PASS": "php_pass app" if is_own else f"fastcgi_pass unix:{self.socket}",
        }
        return self.stage.fill(HERE / "tune/nginx.conf", name, **values).read_text()

    def pool(self, children):
        head = f"[app]\nuser = nobody\ngroup = nogroup\nlisten = {self.socket}\nlisten.mode = 0666\nlisten.backlog = 511\n"
        return head + php.STATIC.format(children) + "\n"

    def ini(self, is_good):
        if is_good:
            return (php.ini(self.stage, self.name) / "php.ini").read_text()
        extension = stage.installed("/usr/lib/php/20*/opcache.so", "PHP's OPcache")
        more = f"zend_extension={extension}\nopcache.enable = 0\n"
        return (php.ini(self.stage, self.name, opcache=False, more=more) / "php.ini").read_text()

    def write(self, version):
        for path, text in self.versions[version].items():
            path.write_text(text)

    def up(self, version):
        def start(here):
            self.write(version)
            tiers = {"database": self.app.database}
            if self.server != "brisk":
                self.socket.unlink(missing_ok=True)
                main = self.data / "fpm.conf"
                main.write_text(f"[global]\nerror_log = {self.data}/fpm.log\ninclude = {self.data}/pool.conf\n")
                program = stage.installed(f"/usr/sbin/php-fpm{stage.php_version()}", "PHP-FPM")
                words = [program, "-n", "-c", self.data / "php.ini", "-y", main, "-F"]
                tiers["PHP"] = here.start("fpm", words, self.socket).pid
            if self.server == "apache":
                words = [stage.program("apache2"), "-d", self.data, "-f", self.conf(), "-D", "FOREGROUND"]
            else:
                first = here.brisk if self.server == "brisk" else stage.program("nginx")
                words = [first, "-p", f"{self.data}/", "-c", self.conf(), "-g", "daemon off;"]
            tiers["server"] = here.start(self.server, words, self.port).pid
            return Target(self.url(), tiers, contains=self.contains, prime=20)

        return start

    def url(self):
        return f"http://127.0.0.1:{self.port}/"

    def tune(self, brisk, minutes):
        """What the tuner finds from the start, as its JSON; its patches become a version."""
        self.write("start")
        words = [brisk, "tune", self.url(), "-q", "--json", "--users", USERS, "--budget", f"{minutes * 60:.0f}s", "--goal", GOAL]
        words += ["--share-database", "--php-ini", self.data / "php.ini"]
        if self.server == "apache":
            words += ["--apache", self.conf()]
        else:
            words += ["--site", self.conf(), "--program", "brisk" if self.server == "brisk" else "nginx"]
        if self.server != "brisk":
            words += ["--fpm", self.data / "pool.conf"]
        began = time.monotonic()
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 2, 3):
            raise stage.Refused(f"{' '.join(map(str, words))} failed:\n{done.stderr}")
        found = json.loads(done.stdout)
        found["minutes"] = (time.monotonic() - began) / 60
        tuned = dict(self.versions["start"])
        for patch in found["patches"]:
            path = Path(patch["file"])
            path.write_text(tuned[path])
            words = ["patch", "-s", "-o", "-", str(path)]
            tuned[path] = subprocess.run(words, input=patch["patch"], capture_output=True, text=True, check=True).stdout
        self.versions["tuner"] = tuned
        return found


def carry_out(here, app, server, children, options):
    """One line of the table, with all that it is made of."""
    case = Case(here, app, server, children)
    load.say(f"{case.name}: searching for {options.minutes:g} minutes")
    found = case.tune(options.brisk, options.minutes)
    settings = [Setting(version, version, case.up(version)) for version in ("start", "hand", "tuner")]
    seconds, rounds = ("2s", 2) if options.quick else ("6s", 5)
    measured = load.rounds(here, settings, [], ["-c", USERS, "-d", seconds], 0, count=rounds)
    rates = {version: measured.typical(version) for version in ("start", "hand", "tuner")}
    return {
        "app": app.name,
        "server": server,
        "children": children,
        "article": case.article,
        "limit": found["limit"],
        "rates": rates,
        "share": (rates["tuner"] - rates["start"]) / max(rates["hand"] - rates["start"], 1e-9),
        "found": found,
    }


def step(one):
    if one["verdict"] == "proposal":
        return f"{one['knob']}: proposal"
    words = f"{one['knob']} {one['from']} → {one['to']}: {one['verdict']}"
    if one["ratio"] is None or one["low"] is None or one["high"] is None:
        return words
    low, high = (one["low"] - 1) * 100, (one["high"] - 1) * 100
    return f"{words} ({low:+.0f} to {high:+.0f} % cost)"


def table(lines):
    """As it stands in docs/tuning.md."""
    head = "| application | server | processes at first | the article | start | by hand | tuner | of the gain by hand | minutes | steps |"
    text = [head, "|---|---|---|---|---|---|---|---|---|---|"]
    for line in lines:
        rates, found = line["rates"], line["found"]
        steps = "; ".join(step(one) for one in found["steps"]) or found.get("stopped") or ""
        text.append(
            f"| {line['app']} | {line['server']} | {line['children']} | {line['article']} | {rates['start']:.1f}/s | {rates['hand']:.1f}/s "
            f"| {rates['tuner']:.1f}/s | {line['share'] * 100:.0f} % | {found['minutes']:.1f} | {steps} |"
        )
    return "\n".join(text) + "\n"


def arguments():
    def words(kind, known):
        def read(text):
            found = [kind(word) for word in text.split(",")]
            unknown = [word for word in found if known and word not in known]
            if unknown:
                raise argparse.ArgumentTypeError(f"{unknown[0]} is none of {', '.join(known)}")
            return found

        return read

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--apps", type=words(str, list(APPS)), default=list(APPS))
    parser.add_argument("--servers", type=words(str, ["nginx", "apache", "brisk"]), default=["nginx", "apache", "brisk"])
    parser.add_argument("--children", type=words(int, None), default=[2, 200])
    parser.add_argument("--minutes", type=float, default=20, help="what each search may take [20]")
    parser.add_argument("--quick", action="store_true", help="three minutes for the first case only")
    parser.add_argument("--brisk", default=os.environ.get("BRISK") or HERE.parent / "target/release/brisk")
    parser.add_argument("--out", type=Path, default=HERE.parent / "target/experiments", help="the folder of tune.json and tune.md")
    return parser.parse_args()


def cases(options):
    all_cases = [(app, server, count) for app in options.apps for server in options.servers for count in options.children]
    return all_cases[:1] if options.quick else all_cases


def main():
    options = arguments()
    if os.getuid() != 0:
        sys.exit("tune.py: run it as root: the tuner's copy needs namespaces of its own")
    options.brisk = str(Path(options.brisk).resolve())
    options.minutes = 3 if options.quick else options.minutes
    options.out.mkdir(parents=True, exist_ok=True)
    lines = []
    try:
        with stage.Stage(options.brisk, minutes=60 * 24) as here:
            for master in [*Path(options.brisk).parent.glob("brisk-php*"), *Path(options.brisk).parent.glob("../php/brisk-php*")]:
                (here.folder / master.name).write_bytes(master.read_bytes())
                (here.folder / master.name).chmod(0o755)
            for name, server, children in cases(options):
                with examples.application(name) as app:
                    lines.append(carry_out(here, app, server, children, options))
                # What is there so far counts, whatever ends it.
                (options.out / "tune.json").write_text(json.dumps(lines, indent=1) + "\n")
                (options.out / "tune.md").write_text(table(lines))
    except stage.Refused as refusal:
        sys.exit(f"tune.py: {refusal}")
    print(table(lines))


if __name__ == "__main__":
    main()
