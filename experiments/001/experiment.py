"""The gallery under 100 users: PHP-FPM's dynamic, ondemand and static pools, then the FastCGI cache."""

import json
from pathlib import Path

from lab import examples, load, php, servers
from lab.advice import Advice, judged
from lab.load import Setting, Target
from lab.page import Page, measured, number, percent
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

INTRO = """
The article swarms a gallery of pictures with 100 users of Locust, who pause for 0.3 to 1 s between two looks at its front
page, and tries PHP-FPM's three ways to have processes; then it lets nginx keep the pages. Its first figure, a page in 28 s,
was due to a shared folder between two operating systems, which is not repeated here. Front pages here show 60 thumbnails,
whose mean colours are computed anew for each page.
"""


def served(app, name, pool, cached=False, thumbs=""):
    def up(stage):
        socket, fpm = php.fpm(stage, "gallery", php.ini(stage, "gallery"), POOLS[pool])
        port, process = WEB[name](
            stage,
            HERE / "gallery.conf",
            name.lower(),
            SITE=app.site / "public",
            SOCKET=socket,
            CACHE_PATH=CACHE_PATH if cached else "",
            CACHE=CACHE if cached else "",
            THUMBS=thumbs,
        )
        tiers = {"server": process.pid, "PHP": fpm.pid, "database": app.database}
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
            Advice(
                f"keep the pages ({name})", "the same", "10 s → 0.17 s" if told else "–", static, f"{name} cache", "p50"
            ),
        ]
    rows.append(Advice("Brisk in place of nginx", "the same file", "–", "nginx static", "Brisk static"))
    rows.append(Advice("Brisk in place of nginx, pages kept", "the same file", "–", "nginx cache", "Brisk cache", "cpu"))
    return rows


def swarm(stage, rows, seconds):
    """The article's locustfile, converted, on each setting."""
    scenario = stage.folder / "swarm.toml"
    load.brisk(stage, "bench", "import", HERE / "locustfile.py", "-o", scenario)
    table = []
    for setting in rows:
        with stage.scope():
            url = setting.up(stage).url
            said = load.brisk(stage, "bench", "run", scenario, "--json", "--target", url, "-u", "100", "-d", f"{seconds}s")
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


def page_loads(stage, app, rows):
    """The front page with all it consists of: the first time, when PHP makes its thumbnails; then; then from the cache."""
    by_key = {row.key: row.up for row in rows}
    steps = [("Brisk: thumbnails by `image_filter`, none kept", served(app, "Brisk", "static", thumbs=THUMBS), True)]
    for name in WEB:
        steps += [
            (f"{name}: PHP makes the thumbnails", by_key[f"{name} static"], True),
            (f"{name}: thumbnails are there", by_key[f"{name} static"], False),
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


def run(stage, about):
    quick = about.is_quick
    about.versions = servers.versions("nginx", "PHP", "MariaDB")
    with examples.application("gallery") as app:
        rows = settings(app)
        loads = page_loads(stage, app, rows)
        length = "2s" if quick else "5s"
        options = ["-c", "100", "--think", "300ms..1s", "-w", "1s", "-d", length]
        results = load.rounds(stage, rows, 2 if quick else 6, options)
        swarmed = swarm(stage, rows, 4 if quick else 15)

    page = Page("001", "a gallery, PHP-FPM's ways to have processes, and a cache", INTRO)
    page.verdicts(judged(results, advices()))
    page.heading("100 users who pause")
    page.text(
        "`brisk bench -c 100 --think 300ms..1s`. Users who pause 0.65 s on average cannot ask more than 154 times a second: "
        "where that is reached, the CPU is what differs."
    )
    page.table(*measured(results, ["server", "PHP", "database"]))
    page.heading("The locustfile")
    page.text("[The article's](../../experiments/001/locustfile.py): `brisk bench import`, `brisk bench run -u 100`.")
    page.table(["setting", "article", "requests/s", "p50 ms", "p95 ms", "failures"], swarmed)
    page.heading("The page as a browser loads it")
    page.text(
        "`brisk bench page`, nobody else being there. The article: 28 s at first, 3.48 s with `pm = static`, 0.7 s in the end."
    )
    page.table(["page", "requests", "size", "first painted after ms", "loaded after ms"], loads)
    return page
