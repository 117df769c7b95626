"""A slow back end: direct, proxied by Apache, nginx and Brisk, cached, with larger buffers; 50 users."""

import json
import subprocess
from pathlib import Path

from lab import load, servers, stats
from lab.advice import Advice, judged
from lab.load import Target, beside
from lab.page import Page, cpu_chart, measured, number, sweep_charts
from lab.stage import program

HERE = Path(__file__).parent
PROXY = HERE / "proxy.conf"
CACHE_PATH = "proxy_cache_path @DATA@/cache levels=1:2 keys_zone=pages:10m max_size=100m inactive=60m;"
CACHE = "proxy_cache pages; proxy_cache_valid 200 302 10m;"
BUFFERS = "proxy_buffer_size 64k; proxy_buffers 16 64k; proxy_busy_buffers_size 128k;"

INTRO = """
The article puts a server before a slow application and sends 50 users with siege: Apache as a proxy, nginx with a
cache, nginx with larger buffers. Its configuration files are lost. The application here needs 50 ms for a page of 48 KB
and makes ten at a time, so that 200 pages a second is all it can do.
"""


def settings(backend):
    def proxied(server, name, **what):
        def up(stage):
            values = {"CACHE_PATH": "", "CACHE": "", "BUFFERS": "", **what}
            port, process = server(stage, PROXY, name, BACKEND=backend.port, **values)
            return Target(f"http://127.0.0.1:{port}/index.html", {"server": process.pid, "back end": backend.pid})

        return up

    def direct(_):
        return Target(f"http://127.0.0.1:{backend.port}/index.html", {"back end": backend.pid})

    def apache(stage):
        modules = [*servers.APACHE_BASE, "mpm_event", "proxy", "proxy_http"]
        port, process = servers.apache(stage, HERE / "apache.conf", modules, BACKEND=backend.port)
        return Target(f"http://127.0.0.1:{port}/index.html", {"server": process.pid, "back end": backend.pid})

    cache = {"CACHE_PATH": CACHE_PATH, "CACHE": CACHE}
    rows = [
        beside("direct", "the application itself", direct),
        beside("apache", "Apache, proxying", apache, "87.31"),
    ]
    for server, name, article in [(servers.nginx, "nginx", ("99.31", "107.75")), (servers.brisk, "Brisk", ("", ""))]:
        key = name.lower()
        both = proxied(server, key, BUFFERS=BUFFERS, **cache)
        rows += [
            beside(key, f"{name}, proxying", proxied(server, key)),
            beside(f"{key} buffers", f"{name}, larger buffers", proxied(server, key, BUFFERS=BUFFERS)),
            beside(f"{key} cache", f"{name}, cached", proxied(server, key, **cache), article[0]),
            beside(f"{key} both", f"{name}, cached, larger buffers", both, article[1]),
        ]
    return rows


def advices():
    rows = [Advice("nginx in place of Apache as a proxy", "`proxy_pass`", "–", "apache", "nginx", "cpu")]
    for name in ["nginx", "Brisk"]:
        key = name.lower()
        told = name == "nginx"
        rows += [
            Advice(f"cache what is static ({name})", f"`{CACHE}`", "+13.7 %" if told else "–", key, f"{key} cache"),
            Advice(f"larger buffers ({name}, not cached)", f"`{BUFFERS}`", "–", key, f"{key} buffers", "cpu"),
            Advice(
                f"larger buffers ({name}, cached)",
                f"`{BUFFERS}`",
                "+8.5 %" if told else "–",
                f"{key} cache",
                f"{key} both",
                "cpu",
            ),
        ]
    rows.append(Advice("Brisk in place of nginx, proxying", "the same file", "–", "nginx", "brisk", "cpu"))
    rows.append(Advice("Brisk in place of nginx, cached", "the same file", "–", "nginx cache", "brisk cache", "cpu"))
    return rows


def siege(stage, rows, seconds, rounds):
    """The article's tool, in rounds, so that its figures have an interval; its delay has the users wait for half a second."""
    runs = {row.key: [] for row in rows}
    for number_of_round in range(rounds):
        for row in rows[number_of_round % len(rows) :] + rows[: number_of_round % len(rows)]:
            with stage.scope():
                url = row.up(stage).url
                said = load.brisk(stage, "siege", "-j", "-d", "1", "-c", "50", f"-t{seconds}s", url)
            runs[row.key].append(json.loads(said[said.index("{") : said.rindex("}") + 1]))
            load.say(f"  siege: {row.label}: {runs[row.key][-1]['transaction_rate']} trans/s")
    table = []
    for row in rows:
        mean, half = stats.interval([run["transaction_rate"] for run in runs[row.key]])
        availability = min(run["availability"] for run in runs[row.key])
        transactions = sum(run["transactions"] for run in runs[row.key])
        shown = number(mean, 4) + (f" ± {number(half, 2)}" if half is not None else "")
        table.append([row.label, row.article or "–", transactions, f"{availability} %", shown])
    return table


def printed_commands(stage, setting, seconds):
    """The commands that the article lost, by the real tools and by Brisk under their names."""
    table = []
    with stage.scope():
        base = setting.up(stage).url.removesuffix("index.html")
        urls = stage.write("urls.txt", "".join(f"{base}{page}.html\n" for page in ["index", "about", "news", "help"]))
        for words, line in [
            (["ab", "-n", "1000", "-c", "10", base], "Requests per second"),
            (["siege", "-c", "50", "-d", "10", f"-t{seconds}s", base], "Transaction rate"),
            (["siege", "-c", "50", "-d", "10", f"-t{seconds}s", "-i", "-f", urls], "Transaction rate"),
        ]:
            words = [str(word) for word in words]
            real = subprocess.Popen(
                [program(words[0]), *words[1:]],
                env={"HOME": str(stage.folder), "PATH": "/usr/bin:/bin"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            # siege leaves the server idle for most of the time: both fit in. ab wants it for itself.
            said = real.communicate()[0] if words[0] == "ab" else ""
            ours = load.brisk(stage, *words)
            said = said or real.communicate()[0]
            shown = " ".join(words).replace(base, "http://example.com/").replace(str(urls), "urls.txt")
            table.append([f"`{shown}`", figure_of(said, line), f"`brisk {shown}`", figure_of(ours, line)])
    return table


def figure_of(report, name):
    """`Requests per second:    87.31 [#/sec]` as 87.31, also as siege 4 prints it, in JSON."""
    for line in report.splitlines():
        key, _, rest = line.strip().replace('"', "").partition(":")
        if key.replace("_", " ").lower() == name.lower():
            return number(float(rest.strip().split()[0].rstrip(",")), 4)
    raise load.Refused(f"no {name!r} in:\n{report}")


class Backend:
    def __init__(self, stage):
        self.port = stage.port()
        self.pid = stage.start("backend", ["/usr/bin/python3", HERE / "backend.py", self.port], self.port).pid


def sweeps(stage, rows, quick):
    users, seconds = ("1,10,50", "1s") if quick else ("1,2,5,10,20,50,100", "2s")
    curves = {}
    for row in rows:
        with stage.scope():
            curves[row.label] = load.bench(stage, row.up(stage), "--users", users, "-d", seconds)["runs"]
        load.say(f"  sweep: {row.label}")
    return curves


def run(stage, about):
    quick = about.is_quick
    about.versions = servers.versions("nginx", "Apache")
    rows = settings(Backend(stage))
    few = [row for row in rows if row.key in ("apache", "nginx cache", "brisk cache")]
    # siege and ab wait for most of the time: they go first, so that the rounds have what is left.
    sieged = siege(stage, few if quick else rows, 3 if quick else 5, 1 if quick else 3)
    commands = printed_commands(stage, next(row for row in rows if row.key == "nginx"), 3 if quick else 15)
    proxies = [row for row in rows if "buffers" not in row.key and "both" not in row.key]
    curves = sweeps(stage, few if quick else proxies, quick)
    length = ["-w", "300ms", "-d", "700ms"] if quick else ["-w", "500ms", "-d", "2s"]
    results = load.rounds(stage, rows, advices(), ["-c", "50", *length], stage.until(0 if quick else 0.97), 3)
    return written(results, sieged, commands, curves)


def written(results, sieged, commands, curves):
    page = Page("002", "a slow back end behind a proxy and its cache", INTRO)
    page.verdicts(judged(results, advices()))
    page.heading("50 users who ask again at once")
    page.text("`brisk bench -c 50`; medians of the rounds. The back end's CPU is that of a small program in Python.")
    page.table(*measured(results, ["server", "back end"]))
    cpu_chart(page, results, ["server", "back end"])
    page.heading("Over the number of users")
    told = [
        ("the article: Apache, proxying", [[50, 87.31]]),
        ("the article: nginx, cached", [[50, 99.31]]),
        ("the article: and larger buffers", [[50, 107.75]]),
    ]
    sweep_charts(page, curves, told, x_scale="log", y_scale="log")
    page.text(
        "`brisk bench --users`, nobody pausing. The application makes ten pages at a time, each in 50 ms: from ten users on "
        "whatever proxies gives 200 a second, and only waiting grows. The article's figures are siege's, whose users pause."
    )
    page.heading("50 users of siege, as the article has it")
    page.text(
        "`brisk siege -c 50 -d 1 -t5s`, three times each; the interval is of 95 %. siege waited up to a second between two "
        "requests by default, and the article gives no other delay. 50 users who wait half a second on average cannot make "
        "much more than 100 transactions a second, however fast the server is: the article's figures lie at that limit, and "
        "measure the tool."
    )
    page.table(["setting", "article", "transactions", "availability", "trans/s"], sieged)
    page.heading("The tools' commands")
    page.text(
        "On nginx without a cache, by the tools themselves and by Brisk under their names. siege's pauses are drawn anew each "
        "time: single figures differ by a tenth."
    )
    page.table(["command", "the tool", "Brisk", "here"], commands)
    return page
