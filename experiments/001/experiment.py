"""The gallery under 100 users: PHP-FPM's dynamic, ondemand and static pools, Brisk's own, then the FastCGI cache."""

import json
from pathlib import Path

from lab import examples, load, php, servers
from lab.advice import Advice, judged
from lab.load import Setting, Target
from lab.page import Page, cpu_chart, measured, megabytes, number, percent, sweep_charts
from lab.stage import Refused

HERE = Path(__file__).parent
WEB = {"nginx": servers.nginx, "Brisk": servers.brisk}
# The article's pools.
POOLS = {
    "dynamic": """pm = dynamic
pm.max_children = 6
pm.start_servers = 3
pm.min_spare_servers = 2
pm.max_spare_servers = 4""",
    "ondemand": """pm = ondemand
pm.max_children = 6
pm.process_idle_timeout = 20s""",
    "static": """pm = static
pm.max_children = 6""",
}
# Brisk's own, with the article's six processes, and with as many as it finds. Who comes when many wait is to wait, as before PHP-FPM.
OWN = {
    "own static": "pm static; max_children 6; queue 200 timeout=60s;",
    "own auto": "pm auto; max_children 64; queue 200 timeout=60s;",
}
# The processes that each begins with.
AT_REST = {"dynamic": 3, "ondemand": 0, "static": 6}
ARTICLE = {"dynamic": "5, 17–19 % failures", "ondemand": "4–6", "static": "+20 %"}
CACHE_PATH = """fastcgi_cache_path @DATA@/ngd-cache levels=1:2 keys_zone=ngd_cache:10m inactive=60m;
    fastcgi_cache_key "$scheme$request_method$host$request_uri";
    fastcgi_cache_use_stale error timeout invalid_header http_500;
    fastcgi_ignore_headers Cache-Control Expires Set-Cookie;
    add_header NGINX_FASTCGI_CACHE $upstream_cache_status;"""
# In place of the application's own thumbnails.
THUMBS = """location ~ ^/thumbs/([0-9a-f]+\\.jpg)$ {
            alias @SITE@/uploads/$1;
            image_filter resize 240 -;
            image_filter_jpeg_quality 80;
            image_filter_buffer 8m;
        }"""
CACHE = "fastcgi_cache ngd_cache;\n            fastcgi_cache_valid 60m;"

# What stands for the article's shared folder, on which each page waited: before each of PHP's scripts.
WAIT_MS = 250
SLOW = f"<?php usleep({WAIT_MS} * 1000);\n"
USERS = 100

INTRO = f"""
The article swarms a gallery of pictures with 100 users of Locust, who pause for 0.3 to 1 s between two looks at its front
page, and tries PHP-FPM's three ways to have processes; then it lets nginx keep the pages. Its pages waited for a folder that
two operating systems shared: six processes made five pages a second, with the CPU idle, so that 94 of 100 users stood in the
queue. Here each page waits {WAIT_MS} ms, by a `usleep` before the application, as a slow disk, a remote service or a lock would
have it, and then shows 60 thumbnails, whose mean colours are computed anew. Six processes can make 23 such pages a second;
100 users who pause 0.65 s want more than 100.
"""


def served(app, name, pool, cached=False, thumbs="", slow=True):
    def up(stage):
        wait = f"auto_prepend_file = {stage.write('slow.php', SLOW)}\n" if slow else ""
        ini, fpm, block = php.ini(stage, "gallery", more=wait), None, ""
        if pool in OWN:
            block, way = php.pool(stage, ini, OWN[pool])
        else:
            socket, fpm = php.fpm(stage, "gallery", ini, POOLS[pool])
            way = f"fastcgi_pass unix:{socket};"
        port, process = WEB[name](
            stage,
            HERE / "gallery.conf",
            name.lower(),
            SITE=app.site / "public",
            POOL=block,
            PASS=way,
            CACHE_PATH=CACHE_PATH if cached else "",
            CACHE=CACHE if cached else "",
            THUMBS=thumbs,
        )
        tiers = {"server": process.pid, "PHP": fpm.pid} if fpm else php.pool_tiers(process)
        tiers["database"] = app.database
        return Target(f"http://127.0.0.1:{port}/", tiers, contains="Gallery No. 12")

    return up


def settings(app):
    rows = []
    for name in WEB:
        told = name == "nginx"
        rows += [
            Setting(f"{name} {pool}", f"{name}, `pm = {pool}`", served(app, name, pool), ARTICLE[pool] if told else "")
            for pool in POOLS
        ]
        article = "above 100, 0.53 % failures" if told else ""
        if name == "Brisk":
            rows += [
                Setting(f"{name} {pool}", f"Brisk, `php_pool`, `pm {pool[4:]}`", served(app, name, pool)) for pool in OWN
            ]
        rows.append(
            Setting(f"{name} cache", f"{name}, `pm = static`, pages kept", served(app, name, "static", True), article)
        )
    return rows


def advices():
    rows = []
    for name in WEB:
        told = name == "nginx"
        dynamic, static = f"{name} dynamic", f"{name} static"
        rows += [
            Advice(
                f"start PHP when it is needed ({name})",
                "`pm = ondemand`",
                "no big change" if told else "–",
                dynamic,
                f"{name} ondemand",
            ),
            Advice(f"keep all PHP processes ({name})", "`pm = static`", "+20 %" if told else "–", dynamic, static),
            Advice(
                f"keep the pages ({name})",
                "`fastcgi_cache ngd_cache; fastcgi_cache_valid 60m;`",
                "×20" if told else "–",
                static,
                f"{name} cache",
            ),
            Advice(f"keep the pages ({name})", "the same", "10 s → 0.17 s" if told else "–", static, f"{name} cache", "p50"),
        ]
    rows.append(Advice("Brisk in place of nginx", "the same file", "–", "nginx static", "Brisk static"))
    rows.append(Advice("Brisk runs PHP", "`php_pool`, `pm static`", "–", "Brisk static", "Brisk own static"))
    rows.append(Advice("Brisk finds the number of processes", "`php_pool`, `pm auto`", "–", "Brisk static", "Brisk own auto"))
    rows.append(Advice("Brisk in place of nginx, pages kept", "the same file", "–", "nginx cache", "Brisk cache", "cpu"))
    return rows


def swarm(stage, rows, seconds):
    """The article's locustfile, converted, on each setting."""
    scenario = stage.folder / "swarm.toml"
    load.brisk(stage, "bench", "import", HERE / "locustfile.py", "-o", scenario)
    table = []
    for setting in rows:
        with stage.scope():
            target = setting.up(stage)
            load.look(target)
            words = ["--target", target.url, "-u", USERS, "-d", f"{seconds}s"]
            said = load.brisk(stage, "bench", "run", scenario, "--json", *words)
        figures = json.loads(said[said.index("{") : said.rindex("}") + 1])["all"]
        asked = figures["requests"]
        latency = figures["latency_ms"]
        load.say(f"  swarm: {setting.label}: {figures['rate']:.1f}/s")
        table.append(
            [
                setting.label,
                setting.article or "–",
                number(figures["rate"], 4),
                number(latency["p50"]),
                number(latency["p95"]),
                percent(figures["failed"] / asked if asked else 0),
            ]
        )
    return table


def at_rest(stage, app):
    """What each pool keeps while nobody asks: PHP-FPM just started, before the first page."""
    table = []
    for pool in POOLS:
        with stage.scope():
            _, fpm = php.fpm(stage, "gallery", php.ini(stage, "gallery"), POOLS[pool])
            pids = php.children(fpm.pid, AT_REST[pool])
            pages = sum(php.proportional_bytes(pid) for pid in [fpm.pid, *pids])
        table.append([f"`pm = {pool}`", len(pids), megabytes(pages)])
    for pool in OWN:
        with stage.scope():
            master = served(app, "Brisk", pool)(stage).tiers["PHP"]
            # The others come when the first has filled OPcache.
            pids = php.children(master, 1)
            pages = sum(php.proportional_bytes(pid) for pid in [master, *pids])
        table.append([f"`php_pool`, `pm {pool[4:]}`", len(pids), megabytes(pages)])
    return table


def page_loads(stage, app, rows):
    """The front page with all it consists of: the first time, when PHP makes its thumbnails; then; then from the cache."""
    by_key = {row.key: row.up for row in rows}
    made = served(app, "Brisk", "static", thumbs=THUMBS, slow=False)
    steps = [("Brisk: thumbnails by `image_filter`, none kept", made, True)]
    for name in WEB:
        steps += [
            (f"{name}: PHP makes the thumbnails", served(app, name, "static", slow=False), True),
            (f"{name}: thumbnails are there", served(app, name, "static", slow=False), False),
            (f"{name}: page kept", by_key[f"{name} cache"], False),
        ]
    table = []
    for what, up, is_first in steps:
        if is_first:
            for thumbnail in (app.site / "public/thumbs").iterdir():
                thumbnail.unlink()
        with stage.scope():
            target = up(stage)
            load.look(target)
            figures = json.loads(load.brisk(stage, "bench", "page", "--json", target.url))
        if any(entry["status"] != 200 for entry in figures["entries"]):
            raise Refused(f"{what}: not all of the page came: {figures['entries']}")
        size = f"{figures['bytes'] / 1e3:.0f} kB"
        table.append([what, figures["requests"], size, number(figures["can_paint_ms"]), number(figures["loaded_ms"])])
    return table


def sweeps(stage, rows, quick):
    """Users who pause as the article's do, on the settled servers."""
    chosen = [row for row in rows if row.key.split(" ")[-1] in ("static", "auto", "cache")]
    users, seconds = ("1,10,100", "2s") if quick else ("1,5,10,20,50,100", "2s")
    curves = {}
    for row in chosen[:2] if quick else chosen:
        with stage.scope():
            run = load.bench(stage, row.up(stage), "--users", users, "--think", "300ms..1s", "-d", seconds)
        load.say(f"  sweep: {row.label}")
        curves[row.label] = run["runs"]
    return curves


def run(stage, about):
    quick = about.is_quick
    about.versions = servers.versions("nginx", "PHP", "MariaDB")
    with examples.application("gallery") as app:
        rows = settings(app)
        rest = at_rest(stage, app)
        loads = page_loads(stage, app, rows)
        swarmed = swarm(stage, rows, 3 if quick else 5)
        curves = sweeps(stage, rows, quick)
        # Without a warm-up: how a pool comes to its processes is what is measured.
        options = ["-c", USERS, "--think", "300ms..1s", "-d", "3s" if quick else "5s", "--timeout", "60s"]
        until = stage.until(0 if quick else 0.93)
        results = load.rounds(stage, rows, advices(), options, until, 2 if quick else 3)
    return written(results, swarmed, curves, rest, loads)


def written(results, swarmed, curves, rest, loads):
    page = Page("001", "a gallery, PHP-FPM's ways to have processes, and a cache", INTRO)
    page.verdicts(judged(results, advices()))
    page.heading("100 users who come at once")
    page.text(
        "`brisk bench -c 100 --think 300ms..1s -d 5s` on servers that were just started and asked once: `dynamic` begins with "
        "three processes and adds one, then two, a second apart; `ondemand` starts one for each that waits; `static` has its "
        "six. Brisk's `pm auto` looks for the number that serves the most meanwhile, and refuses nobody as long as it does. A pool of a fixed "
        "number refuses at once, with 503 and `Retry-After`, whom it would serve too late (docs/php.md): that is the share of errors of its "
        "`static`, and why those whom it serves wait so little. Users who pause 0.65 s on average cannot ask more than 154 times a second: where that is reached, the CPU is "
        "what differs."
    )
    page.table(*measured(results, ["server", "PHP", "database"]))
    cpu_chart(page, results, ["server", "PHP", "database"])
    page.heading("While nobody asks")
    page.text(
        "PHP's processes before the first page, and their memory (PSS, with the master). `static` pays for what it gains. "
        "Brisk's pools have one process until that has compiled the first page."
    )
    page.table(["pool", "processes", "memory"], rest)
    page.heading("Over the number of users")
    told = [
        ("the article: dynamic", [[100, 5]]),
        ("the article: static, + 20 %", [[100, 6]]),
        ("the article: pages kept", [[100, 100]]),
    ]
    sweep_charts(page, curves, told, y_scale="log")
    page.text(
        "`brisk bench --users … --think 300ms..1s`, the warm-up cut off: once all six processes are there, the pools are alike. "
        "With six processes in 250 ms pages, the twentieth user already waits for the others. `pm auto` gets its processes "
        "while the users come."
    )
    page.heading("The locustfile")
    page.text(
        "[The article's](../../experiments/001/locustfile.py): `brisk bench import`, `brisk bench run -u 100`. Its failures "
        "(17 to 19 %) came from a tunnel that gave up; here all wait."
    )
    page.table(["setting", "article", "requests/s", "p50 ms", "p95 ms", "failures"], swarmed)
    page.heading("The page as a browser loads it")
    page.text(
        "`brisk bench page`, nobody else being there, without the 250 ms. The article: 28 s at first, 3.48 s with `pm = static`, "
        "0.7 s in the end."
    )
    page.table(["page", "requests", "size", "first painted after ms", "loaded after ms"], loads)
    return page
