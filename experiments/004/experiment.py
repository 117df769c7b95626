"""nginx's general settings, gzip and the FastCGI cache: static files and WordPress over concurrency."""

import gzip
from pathlib import Path

from lab import examples, load, php, servers
from lab.advice import Advice, judged
from lab.load import Setting, Target, beside
from lab.page import Page, cpu_chart, measured, number, sweep_charts

HERE = Path(__file__).parent
SERVERS = {"nginx": servers.nginx, "Brisk": servers.brisk}
OPEN_FILES = (
    "open_file_cache max=1000 inactive=20s; open_file_cache_valid 30s; open_file_cache_min_uses 2; "
    "open_file_cache_errors on;"
)
CACHE_PATH = "fastcgi_cache_path @DATA@/cache levels=1:2 keys_zone=microcache:10m max_size=1000m inactive=60m;"
CACHE = """fastcgi_cache microcache;
            fastcgi_cache_bypass $skip_cache $http_pragma;
            # The article lacks this line: what was made for a commenter was then shown to everybody.
            fastcgi_no_cache $skip_cache $http_pragma;
            fastcgi_cache_key $scheme$host$request_uri$request_method;
            fastcgi_cache_valid any 8m;
            fastcgi_cache_use_stale updating error timeout invalid_header http_500;"""
# The pool that Debian ships.
POOL = php.STATIC.format(5)

INTRO = """
The article tunes nginx for static files (a small style sheet, `ab -n 8000 -c 100`) and for WordPress, one setting after the
other, and ends with the FastCGI cache. ab opens a connection for each request; here everything is also measured with
connections that are kept, as browsers do.
"""

# key: what it is called, and what it changes of the configuration: workers, log, events, settings.
GENERAL = {
    "base": ("one worker, access log on", {}),
    "workers": ("`worker_processes 2;`", {"WORKERS": 2}),
    "log": ("`access_log off;`", {"LOG": "off"}),
    "files": (f"`{OPEN_FILES}`", {"SETTINGS": OPEN_FILES}),
    "accept": ("`multi_accept on;`", {"EVENTS": "multi_accept on;"}),
    "requests": ("`keepalive_requests 100000;`", {"SETTINGS": "keepalive_requests 100000;"}),
    "all": (
        "all of them",
        {
            "WORKERS": 2,
            "LOG": "off",
            "EVENTS": "multi_accept on;",
            "SETTINGS": OPEN_FILES + " keepalive_requests 100000;",
        },
    ),
}
ADVICE = {
    "workers": ("as many workers as CPUs", "recommended", "rate"),
    "log": ("no access log", "recommended, contradicted in the comments", "cpu"),
    "files": ("keep descriptors of files open", "“a few milliseconds”", "cpu"),
    "accept": ("accept all new connections at once", "“minimal”; a comment says off", "cpu"),
    "requests": ("keep connections for more requests", "“minimal”", "cpu"),
    "all": ("all of them", "17,862 → about 20,000 req/s", "rate"),
}
GZIP = {
    "plain": ("no compression", "gzip off; gzip_static off;"),
    "gzip": ("compressed when asked", "gzip on; gzip_types text/css; gzip_static off;"),
    "static": ("compressed beforehand", "gzip off; gzip_static on;"),
    "both": ("both, as the article", "gzip on; gzip_types text/css; gzip_static on;"),
}


def style_sheets(stage):
    """A print style sheet of the size of the article's, and a large one with a compressed copy beside it."""
    folder = stage.make("css")
    rule = "nav.area-{0} > a:hover {{ color: #{0:06x}; margin: {0}px auto; padding: {0}px }}\n"
    stage.write("css/style-print.css", "body { margin: 0; color: #000 }\nnav { display: none }\n" * 2)
    large = "".join(rule.format(number) for number in range(700))
    stage.write("css/style.css", large)
    (folder / "style.css.gz").write_bytes(gzip.compress(large.encode(), 6))
    return len(large), (folder / "style.css.gz").stat().st_size


def static(name, page, options=(), **values):
    def up(stage):
        filled = {"WORKERS": 1, "LOG": "@DATA@/access.log", "EVENTS": "", "SETTINGS": "", **values}
        port, process = SERVERS[name](stage, HERE / "static.conf", name.lower(), **filled)
        return Target(f"http://127.0.0.1:{port}/{page}", {"server": process.pid}, list(options))

    return up


def general(stage, connections, plan):
    """The general settings on both servers, and what each did."""
    options = ["--no-keepalive"] if connections == "new" else []
    article = {"nginx base": "17,862", "nginx all": "about 20,000"} if connections == "new" else {}
    # Over connections that are closed after each request, the number of requests means nothing.
    chosen = {key: value for key, value in GENERAL.items() if key != "requests" or connections == "kept"}
    rows = []
    for name in SERVERS:
        for key, (label, values) in chosen.items():
            up = static(name, "style-print.css", options, **values)
            said = article.get(f"{name} {key}", "")
            rows.append(Setting(f"{name} {key}", f"{name}: {label}", up, said, stands_beside=True))
    advices = []
    for key, (what, told, by) in ADVICE.items():
        for name in SERVERS if key in chosen else []:
            said = told if name == "nginx" else "–"
            title = f"{what} ({name}, {connections})"
            advices.append(Advice(title, GENERAL[key][0], said, f"{name} base", f"{name} {key}", by))
    advices.append(Advice(f"Brisk in place of nginx ({connections})", "the same file", "–", "nginx all", "Brisk all", "cpu"))
    load.say(f"connections {connections}")
    options = ["-c", "100", "-w", "200ms", "-d", plan["run"]]
    results = load.rounds(stage, rows, advices, options, stage.until(plan["until"][connections]), plan["rounds"])
    return results, judged(results, advices)


def compressed(stage, plan):
    rows, advices = [], []
    for name in SERVERS:
        for key, (label, settings) in GZIP.items():
            up = static(name, "style.css", ["-H", "Accept-Encoding: gzip"], WORKERS=2, SETTINGS=settings)
            rows.append(Setting(f"{name} {key}", f"{name}: {label}", up, stands_beside=True))
    for key in ("gzip", "static", "both"):
        for name in SERVERS:
            said = "“so small they are irrelevant”" if name == "nginx" else "–"
            what, setting = f"{GZIP[key][0]} ({name})", f"`{GZIP[key][1]}`"
            advices.append(Advice(what, setting, said, f"{name} plain", f"{name} {key}", "at 10 Mbit/s"))
    advices.append(Advice("Brisk in place of nginx, compressing", "the same file", "–", "nginx gzip", "Brisk gzip", "cpu"))
    load.say("gzip")
    options = ["-c", "20", "-w", "200ms", "-d", plan["run"]]
    results = load.rounds(stage, rows, advices, options, stage.until(plan["until"]["gzip"]), plan["rounds"])
    return results, judged(results, advices)


def weighed(results):
    """What compression saves on the line beside what it costs the server, and the line on which both are equal."""
    rows = []
    for setting in results.settings:
        plain = setting.key.split(" ")[0] + " plain"
        size, cpu = (results.typical(setting.key, figure) for figure in ("bytes", "cpu"))
        saved = (results.typical(plain, "bytes") - size) * 8
        more = cpu - results.typical(plain, "cpu")
        if setting.key == plain:
            even = "–"
        elif more <= 0:
            even = "on any line"
        else:
            # Bits per microsecond are megabits per second.
            even = f"below {number(saved / more)} Mbit/s"
        together = results.typical(setting.key, "at 10 Mbit/s")
        rows.append([setting.label, number(size), number(size * 8 / 10e3), number(cpu), number(together), even])
    head = [
        "setting",
        "bytes per response",
        "ms on a line of 10 Mbit/s",
        "server: CPU µs",
        "together ms",
        "is worth its CPU",
    ]
    return head, rows


def wordpress(name, app, socket, fpm, path, cached):
    def up(stage):
        port, process = SERVERS[name](
            stage,
            HERE / "wordpress.conf",
            name.lower(),
            SITE=app.site,
            SOCKET=socket,
            CACHE_PATH=CACHE_PATH if cached else "",
            CACHE=CACHE if cached else "",
        )
        tiers = {"server": process.pid, "PHP": fpm.pid, "database": app.database}
        return Target(f"http://127.0.0.1:{port}{path}", tiers, contains="A blog on Brisk")

    return up


def php_pages(stage, app, plan):
    """The article's two pages without a cache, at 10 users; then with it."""
    ini = php.ini(stage, "fpm")
    socket, fpm = php.fpm(stage, "wordpress", ini, POOL)
    pages = {"/": ("front page", "34.04"), "/author/admin/": ("list of posts", "26.50")}
    rows = [
        beside(
            f"{name} {path}",
            f"{name}: {what}",
            wordpress(name, app, socket, fpm, path, False),
            article if name == "nginx" else "",
        )
        for name in SERVERS
        for path, (what, article) in pages.items()
    ]
    rows += [
        beside(f"{name} cached", f"{name}: front page, FastCGI cache", wordpress(name, app, socket, fpm, "/", True))
        for name in SERVERS
    ]
    advices = [
        Advice(
            f"the FastCGI cache ({name})",
            "`fastcgi_cache microcache; …`",
            "“scales as static files”" if name == "nginx" else "–",
            f"{name} /",
            f"{name} cached",
        )
        for name in SERVERS
    ]
    advices.append(Advice("Brisk in place of nginx, cached", "the same file", "–", "nginx cached", "Brisk cached", "cpu"))
    curves = {}
    for name in SERVERS:
        for what, path, cached in [("PHP", "/", False), ("FastCGI cache", "/", True)]:
            with stage.scope():
                target = wordpress(name, app, socket, fpm, path, cached)(stage)
                curves[f"{name}: {what}"] = curve(stage, target, *plan["curve" if cached else "PHP curve"])
    load.say("WordPress")
    options = ["-c", "10", "-w", "500ms", "-d", plan["php"]]
    results = load.rounds(stage, rows, advices, options, stage.until(plan["until"]["php"]), plan["rounds"])
    return results, judged(results, advices), curves


def curve(stage, target, users, seconds):
    """Rate and median latency by the number of users, from the sweep of `brisk bench`."""
    run = load.bench(stage, target, "--users", users, "-d", seconds)
    load.say(f"  sweep of {target.url}")
    return run["runs"]


def httperf(stage, plan):
    """The command of the comments, on both servers with all of the article's settings."""
    rows = []
    count = plan["httperf"]
    for name in SERVERS:
        with stage.scope():
            target = static(name, "style-print.css", **GENERAL["all"][1])(stage)
            port = target.url.split(":")[2].split("/")[0]
            words = ["httperf", "--hog", "--server", "127.0.0.1", "--port", port, "--uri", "/style-print.css"]
            words += ["--num-conns", count, "--num-calls", "1", "--send-buffer", "4096", "--recv-buffer", "16384"]
            said = load.brisk(stage, *words)
        rate = next(line.split()[2] for line in said.splitlines() if line.startswith("Request rate:"))
        rows.append([name, count, "13,220.5" if name == "nginx" else "–", number(float(rate), 4)])
    return rows


# The share of the experiment's time at which each part has to be over.
UNTIL = {"gzip": 0.1, "php": 0.4, "kept": 0.68, "new": 0.97}


def run(stage, about):
    quick = about.is_quick
    plan = {
        "rounds": 2 if quick else 3,
        "until": dict.fromkeys(UNTIL, 0) if quick else UNTIL,
        "run": "400ms" if quick else "1s",
        "php": "2s",
        "curve": ("1,10,100", "1s") if quick else ("1,10,50,100,250,500,1000", "2s"),
        "PHP curve": ("1,10", "2s") if quick else ("1,10,50,100", "5s"),
        "httperf": 2000 if quick else 40000,
    }
    about.versions = servers.versions("nginx", "PHP", "MariaDB")
    size, packed = style_sheets(stage)
    # What is decided soon goes first: the general settings, most of which do next to nothing, have what is left.
    packing, (head, packing_rows) = compressed(stage, plan)
    curves = {}
    for name in SERVERS:
        with stage.scope():
            target = static(name, "style-print.css", **GENERAL["all"][1])(stage)
            curves[f"{name}: static"] = curve(stage, target, *plan["curve"])
    with examples.application("wordpress") as app:
        pages, (_, php_rows), php_curves = php_pages(stage, app, plan)
    curves.update(php_curves)
    commands = httperf(stage, plan)
    found = {connections: general(stage, connections, plan) for connections in ["kept", "new"]}
    judgements = [row for connections in ["new", "kept"] for row in found[connections][1][1]] + packing_rows + php_rows
    tables = [(f"Connections {connections}", measured(found[connections][0], ["server"])) for connections in ["new", "kept"]]
    return written(head, judgements, tables, packing, (size, packed), pages, curves, commands)


def written(head, judgements, tables, packing, sizes, pages, curves, commands):
    page = Page("004", "nginx's settings for static files and WordPress", INTRO)
    page.verdicts(
        (head, judgements),
        "Each setting by itself against one worker with its access log on; gzip against none, with two workers. Compression "
        "is judged by what a visitor on a line of 10 Mbit/s waits, the server's CPU included.",
    )
    page.heading("A style sheet, 100 users")
    page.text(
        "`brisk bench -c 100`, a file of 116 bytes. “New”: a connection for each request, as ab does without `-k`; "
        "“kept”: connections stay open. The article: 5.6 ms before, 17,862 requests/s."
    )
    for title, (columns, rows) in tables:
        page.text(f"**{title}**")
        page.table(columns, rows)
    page.heading("gzip and gzip_static")
    page.text(
        f"A style sheet of {sizes[0]:,} bytes, {sizes[1]:,} compressed; 20 users who accept gzip, two workers. "
        "Compression costs the server CPU and saves the visitor time: a response is worth compressing on any line that is "
        "slower than the last column says."
    )
    page.table(*weighed(packing))
    bars = []
    for setting in packing.settings:
        line = packing.typical(setting.key, "bytes") * 8 / 10e3
        bars.append(
            {
                "label": setting.label,
                "parts": [["the line, 10 Mbit/s", line], ["the server's CPU", packing.typical(setting.key, "cpu") / 1e3]],
            }
        )
    page.chart(
        "gzip",
        "stacked",
        "A style sheet of 54 KB on a line of 10 Mbit/s",
        y="ms",
        tiers=["the line, 10 Mbit/s", "the server's CPU"],
        bars=bars,
    )
    page.table(*measured(packing, ["server"]))
    page.heading("WordPress, 10 users")
    page.text(
        "`brisk bench -c 10`; PHP-FPM with five processes and OPcache. The article, with PHP 5 and APC: 294 and 377 ms. Its "
        "cache is mended: without `fastcgi_no_cache` it shows a commenter's page to everybody."
    )
    page.table(*measured(pages, ["server", "PHP", "database"]))
    cpu_chart(page, pages, ["server", "PHP", "database"])
    page.heading("Over concurrency")
    told = [
        ("the article: a style sheet", [[100, 17862]]),
        ("the article: the same, tuned (about)", [[100, 20000]]),
        ("the article: a page of PHP", [[10, 34.04]]),
    ]
    sweep_charts(page, curves, told, x_scale="log", y_scale="log")
    page.text("Requests per second, and the median latency in milliseconds, from `brisk bench --users`.")
    page.text("PHP-FPM's five processes make the same number of pages however many wait.")
    users = sorted({part["users"] for parts in curves.values() for part in parts})
    rows = []
    for name, parts in curves.items():
        # Without one: nobody was done within the time.
        done = {part["users"]: part for part in parts if load.FIGURES["rate"](part) > 0}
        rows.append([name, *[point_of(done.get(count)) for count in users]])
    page.table(["users", *users], rows)
    page.heading("httperf")
    page.text(
        "`brisk httperf --hog --server S --port P --uri /style-print.css --num-conns N --num-calls 1 --send-buffer 4096 "
        "--recv-buffer 16384`: the command of the comments, where httperf gave up beyond 30,000 connections."
    )
    page.table(["server", "connections", "article (30,000 connections)", "requests/s here"], commands)
    return page


def point_of(part):
    """Rate and median latency of one point of a sweep."""
    return f"{number(load.FIGURES['rate'](part), 4)} ({number(load.FIGURES['p50'](part))})" if part else "–"
