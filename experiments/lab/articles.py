"""The five articles as cases for the tuner: the settings that each one begins with, and those that it ends with by hand."""

from contextlib import contextmanager
from dataclasses import dataclass

from . import examples, php, servers, stage
from .case import Case
from .load import Target

HERE = stage.EXPERIMENTS
# What the articles keep pages with; what one has asked for by a cookie stays out of it.
FASTCGI_CACHE = """fastcgi_cache_path @DATA@/cache levels=1:2 keys_zone=pages:10m inactive=60m;
    fastcgi_cache pages;
    fastcgi_cache_key "$scheme$request_method$host$request_uri";
    fastcgi_cache_valid 200 60m;
    fastcgi_cache_bypass $http_cookie;
    fastcgi_no_cache $http_cookie;"""
PROXY_CACHE_PATH = "proxy_cache_path @DATA@/cache levels=1:2 keys_zone=pages:10m max_size=100m inactive=60m;"
PROXY_CACHE = "proxy_cache pages; proxy_cache_valid 200 302 10m;"
BUFFERS = "proxy_buffer_size 64k; proxy_buffers 16 64k; proxy_busy_buffers_size 128k;"
# The gallery's pages waited for a folder, 001; its pools.
WAIT_MS = 250
DYNAMIC = "pm = dynamic\npm.max_children = 6\npm.start_servers = 3\npm.min_spare_servers = 2\npm.max_spare_servers = 4"
STATIC = "pm = static\npm.max_children = 6"


@dataclass(frozen=True)
class Article:
    """What it was about, what it changed by hand, and what that gained there."""

    number: str
    app: str
    by_hand: str
    gain: str


ARTICLES = [
    Article("000", "bank", "5 → 12 processes", "+25 %"),
    Article("001", "gallery", "`pm` dynamic → static, pages kept", "+20 %, then ×20"),
    Article("002", "", "pages kept, larger buffers", "+14 %, then +9 %"),
    Article("003", "wordpress", "OPcache", "×2.74"),
    Article("004", "wordpress", "pages kept", "–"),
]


class PhpArticle(Case):
    """One of the four about PHP behind nginx and PHP-FPM. What it does not speak of is set well from the beginning."""

    def __init__(self, here, app, article):
        super().__init__(here, app, "nginx", 12, f"article-{article.number}")
        start, hand = self.told(article.number)
        self.versions = {"start": self.with_(**start), "hand": self.with_(**hand)}

    def told(self, number):
        """What holds at the start, and by hand."""
        if number == "000":
            return {"pm": php.STATIC.format(5)}, {}
        if number == "001":
            slow = self.stage.write("slow.php", f"<?php usleep({WAIT_MS} * 1000);\n")
            more = f"auto_prepend_file = {slow}\n"
            return {"pm": DYNAMIC, "more": more}, {"pm": STATIC, "cache": FASTCGI_CACHE, "more": more}
        return ({"opcache": "off"}, {}) if number == "003" else ({}, {"cache": FASTCGI_CACHE})

    def with_(self, pm=php.STATIC.format(12), opcache="on", cache="", more=""):
        return {
            self.conf(): self.config(12, 65, cache),
            self.data / "pool.conf": self.pool(pm),
            self.data / "php.ini": self.ini(opcache, more),
            self.mysql(): self.options("256M"),
        }

    def files(self):
        return [*super().files(), "--allow", "correctness"]


class ProxyArticle(Case):
    """The slow application behind a proxy, 002: it makes ten pages at a time, each in 50 ms."""

    path, contains, cookie, server = "/index.html", "A slow page", None, "nginx"

    def __init__(self, here, article):
        self.stage, self.name = here, f"article-{article.number}"
        self.data = here.make(self.name)
        self.port, self.backend_port = here.port(), here.port()
        self.versions = {"start": self.with_(), "hand": self.with_(PROXY_CACHE_PATH, PROXY_CACHE, BUFFERS)}

    def with_(self, path="", cache="", buffers=""):
        conf = self.stage.fill(
            HERE / "002/proxy.conf",
            f"{self.name}/server.conf",
            PORT=self.port,
            DATA=self.data,
            COMMON=servers.common(self.stage, self.data),
            BACKEND=self.backend_port,
            CACHE_PATH=path,
            CACHE=cache,
            BUFFERS=buffers,
        )
        return {self.conf(): conf.read_text()}

    def backend(self):
        words = ["/usr/bin/python3", HERE / "002/backend.py", self.backend_port]
        return self.stage.start("backend", words, self.backend_port).pid

    def up(self, version, database=None):
        def start(here):
            self.write(version)
            tiers = {"back end": self.backend()}
            words = [stage.program("nginx"), "-p", f"{self.data}/", "-c", self.conf(), "-g", "daemon off;"]
            tiers["server"] = here.start("nginx", words, self.port).pid
            return Target(self.base() + self.path, tiers, contains=self.contains, prime=20)

        return start

    def scenario(self):
        return self.visitors("")

    def before_tuning(self):
        self.backend()

    def files(self):
        outside = f"127.0.0.1:{self.backend_port}"
        return ["--site", self.conf(), "--program", "nginx", "--allow", "correctness", "--allow-external", outside]


@contextmanager
def case(here, article):
    """Its case, whose application is there as long as this lasts."""
    if not article.app:
        yield ProxyArticle(here, article)
        return
    with examples.application(article.app) as app:
        # The database is the case's, with an option file of its own.
        app.script("down")
        yield PhpArticle(here, app, article)
