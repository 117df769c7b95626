"""The recipes: what is changed on which server, how it is asked, and which figure decides. Pages are docs/cookbook/NAME.md."""

from dataclasses import dataclass, field, replace

import cookbook.database as database
from cookbook.scenes import GZIP, Site
from lab import php

BOTH = ("nginx", "Brisk")
CSS = "gzip_types text/css;"
POOL_SMALL, POOL_LARGE = php.STATIC.format(2), php.STATIC.format(20)
POOL = php.STATIC.format(4)


@dataclass
class Side:
    """A server without the advice and with it. `line` is what the page must show of the setting."""

    server: str
    without: Site
    with_it: Site
    line: str
    label: str = ""

    def name(self):
        return self.label or self.server


@dataclass
class Recipe:
    """`show`: the figures of the table, of which the first decides. `load`: the options of `brisk bench`."""

    name: str
    show: list
    sides: list
    load: list = field(default_factory=lambda: ["-c", "20", "-w", "200ms", "-d", "1s"])
    # What of the table's head "without" and "with" mean.
    heads: tuple = ("without", "with")


def both(without, with_it, line, names=BOTH, label=""):
    """The same for nginx and for Brisk."""
    return [Side(name, without, with_it, line, f"{name}{label}") for name in names]


def apache(without, with_it, line, label=""):
    return Side("Apache", without, with_it, line, f"Apache{label}")


def proxied(**more):
    values = dict(server="location / { proxy_pass http://127.0.0.1:@BACK0@; }", path="/page.html", backends=[0])
    return Site(**{**values, **more})


STATIC = Site()
CLOSE = ["--no-keepalive"]
BUFFERS = "proxy_buffer_size 64k; proxy_buffers 16 64k; proxy_busy_buffers_size 128k;"
CACHE_PATH = "proxy_cache_path @DATA@/cache keys_zone=pages:10m max_size=100m;"
CACHED = "proxy_cache pages; proxy_cache_valid 200 10m;"
MICRO_PATH = "fastcgi_cache_path @DATA@/cache keys_zone=pages:10m max_size=100m;"
MICRO = """fastcgi_cache pages; fastcgi_cache_key $scheme$host$request_uri; fastcgi_cache_valid 200 1s;
            fastcgi_cache_lock on; fastcgi_cache_use_stale updating; fastcgi_cache_background_update on;"""
TLS = Site(is_tls=True, options=[*CLOSE])


def proxy_location(more):
    return "location / { proxy_pass http://127.0.0.1:@BACK0@; " + more + " }"


def upstream(more, per_request):
    http = "upstream app { server 127.0.0.1:@BACK0@; " + more + " }"
    return proxied(http=http, server="location / { proxy_pass http://app; " + per_request + " }")


BALANCER = "upstream app {{ {} server 127.0.0.1:@BACK0@; server 127.0.0.1:@BACK1@; }}"


def balanced(method):
    server = "location / { proxy_pass http://app; }"
    return Site(http=BALANCER.format(method), server=server, path="/page.html", backends=[20, 200], at_a_time=8)


def apache_balanced(method):
    members = "\n".join(f'    BalancerMember "http://127.0.0.1:@BACK{number}@"' for number in (0, 1))
    text = f'<Proxy "balancer://app">\n{members}\n    ProxySet lbmethod={method}\n</Proxy>\nProxyPass "/" "balancer://app/"'
    modules = ["proxy", "proxy_http", "proxy_balancer", "slotmem_shm", f"lbmethod_{method}"]
    return Site(modules=modules, lines=text, path="/page.html", backends=[20, 200], at_a_time=8)


HTACCESS = "AllowOverride {}\n    Require all granted"
KEEP_ON, KEEP_OFF = "KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 75\n", "KeepAlive Off\n"
MANY = ["-c", "300", "-w", "200ms", "-d", "1500ms", "--timeout", "5s"]

RECIPES = [
    Recipe(
        "keep-alive",
        ["cpu", "p50"],
        [
            *both(Site(http="keepalive_timeout 0;"), Site(http="keepalive_timeout 75s;"), "keepalive_timeout 75s;"),
            apache(Site(lines=KEEP_OFF), Site(lines=KEEP_ON), "KeepAlive On"),
        ],
    ),
    Recipe(
        "workers",
        ["rate", "cpu"],
        both(STATIC, Site(workers=2), "worker_processes auto;"),
        ["-c", "100", "-w", "200ms", "-d", "1s"],
    ),
    Recipe(
        "access-log",
        ["cpu"],
        [
            *both(STATIC, Site(log="off"), "access_log off;", label=", off"),
            *both(
                STATIC, Site(log="@DATA@/access.log combined buffer=64k flush=5s"), "buffer=64k flush=5s", label=", buffered"
            ),
            apache(STATIC, Site(lines="BufferedLogs On\n"), "BufferedLogs On", ", buffered"),
        ],
    ),
    Recipe(
        "sendfile",
        ["cpu"],
        [
            *both(
                Site(http="sendfile off;", path="/large.bin"), Site(http="sendfile on;", path="/large.bin"), "sendfile on;"
            ),
            apache(
                Site(lines="EnableSendfile Off\n", path="/large.bin"),
                Site(lines="EnableSendfile On\n", path="/large.bin"),
                "EnableSendfile On",
            ),
        ],
    ),
    Recipe(
        "open-file-cache",
        ["cpu"],
        both(
            STATIC,
            Site(http="open_file_cache max=1000 inactive=20s; open_file_cache_valid 30s;"),
            "open_file_cache max=1000 inactive=20s;",
        ),
    ),
    Recipe(
        "gzip",
        ["at 10 Mbit/s", "bytes", "cpu"],
        [
            *both(
                Site(path="/style.css", options=GZIP),
                Site(http=f"gzip on; {CSS}", path="/style.css", options=GZIP),
                "gzip on;",
            ),
            apache(
                Site(path="/style.css", options=GZIP),
                Site(
                    modules=["filter", "deflate"],
                    lines="AddOutputFilterByType DEFLATE text/css\n",
                    path="/style.css",
                    options=GZIP,
                ),
                "AddOutputFilterByType DEFLATE",
            ),
        ],
    ),
    Recipe(
        "gzip-level",
        ["cpu", "bytes"],
        both(
            Site(http=f"gzip on; gzip_comp_level 9; {CSS}", path="/style.css", options=GZIP),
            Site(http=f"gzip on; gzip_comp_level 1; {CSS}", path="/style.css", options=GZIP),
            "gzip_comp_level 1;",
        ),
        heads=("level 9", "level 1"),
    ),
    Recipe(
        "pre-compression",
        ["cpu", "bytes"],
        both(
            Site(http=f"gzip on; {CSS}", path="/style.css", options=GZIP),
            Site(http=f"gzip on; gzip_static on; {CSS}", path="/style.css", options=GZIP),
            "gzip_static on;",
        ),
        heads=("when asked", "beforehand"),
    ),
    Recipe(
        "brotli",
        ["bytes", "cpu"],
        [
            *both(
                Site(http=f"gzip on; {CSS}", path="/style.css", options=["-H", "Accept-Encoding: gzip, br"]),
                Site(
                    http="brotli on; brotli_types text/css;", path="/style.css", options=["-H", "Accept-Encoding: gzip, br"]
                ),
                "brotli on;",
                ["Brisk"],
            ),
            apache(
                Site(
                    modules=["filter", "deflate"],
                    lines="AddOutputFilterByType DEFLATE text/css\n",
                    path="/style.css",
                    options=["-H", "Accept-Encoding: gzip, br"],
                ),
                Site(
                    modules=["filter", "brotli"],
                    lines="AddOutputFilterByType BROTLI_COMPRESS text/css\n",
                    path="/style.css",
                    options=["-H", "Accept-Encoding: gzip, br"],
                ),
                "AddOutputFilterByType BROTLI_COMPRESS",
            ),
        ],
        heads=("gzip", "brotli"),
    ),
    Recipe(
        "http2",
        ["cpu", "rate"],
        [
            *both(
                Site(is_tls=True, options=["-c", "60"]),
                Site(is_tls=True, listen="", server="http2 on;", options=["-c", "10", "-m", "6"]),
                "http2 on;",
                ["Brisk"],
            ),
            *both(
                Site(is_tls=True, options=["-c", "60"]),
                Site(is_tls=True, listen=" http2", options=["-c", "10", "-m", "6"]),
                "listen 443 ssl http2;",
                ["nginx"],
            ),
            apache(
                Site(is_tls=True, options=["-c", "60"]),
                Site(is_tls=True, modules=["http2"], lines="Protocols h2 http/1.1\n", options=["-c", "10", "-m", "6"]),
                "Protocols h2 http/1.1",
            ),
        ],
        ["-w", "200ms", "-d", "1s"],
        heads=("HTTP/1.1, 60 connections", "HTTP/2, 10 with 6 streams"),
    ),
    Recipe(
        "tls-sessions",
        ["cpu", "p50"],
        [
            *both(
                replace(TLS, http="ssl_session_cache off; ssl_session_tickets off;"),
                replace(TLS, http="ssl_session_cache shared:tls:10m; ssl_session_timeout 1h;"),
                "ssl_session_cache shared:tls:10m;",
            ),
            apache(
                replace(TLS, lines="SSLSessionCache none\nSSLSessionTickets Off\n"),
                replace(TLS, lines="SSLSessionCache shmcb:@DATA@/sessions(512000)\n"),
                "SSLSessionCache shmcb:",
            ),
        ],
    ),
    Recipe(
        "tls-key",
        ["cpu", "p50"],
        [
            Side(
                name,
                replace(TLS, key="rsa", options=[*CLOSE, "--no-resumption"]),
                replace(TLS, options=[*CLOSE, "--no-resumption"]),
                "-newkey ec",
            )
            for name in ("nginx", "Brisk", "Apache")
        ],
        heads=("RSA, 2,048 bits", "P-256"),
    ),
    Recipe(
        "backlog",
        ["p99", "errors"],
        [
            *both(Site(listen=" backlog=8", options=CLOSE), Site(listen=" backlog=4096", options=CLOSE), "backlog=4096"),
            apache(
                Site(lines="ListenBacklog 8\n", options=CLOSE),
                Site(lines="ListenBacklog 4096\n", options=CLOSE),
                "ListenBacklog 4096",
            ),
        ],
        MANY,
    ),
    Recipe(
        "page-cache",
        ["rate", "p50"],
        [
            *both(
                proxied(backends=[50], at_a_time=10),
                proxied(http=CACHE_PATH, server=proxy_location(CACHED), backends=[50], at_a_time=10),
                "proxy_cache pages;",
            ),
            apache(
                Site(
                    modules=["proxy", "proxy_http"],
                    lines='ProxyPass "/" "http://127.0.0.1:@BACK0@/"\n',
                    path="/page.html",
                    backends=[50],
                    at_a_time=10,
                ),
                Site(
                    modules=["proxy", "proxy_http", "cache", "cache_disk"],
                    lines='ProxyPass "/" "http://127.0.0.1:@BACK0@/"\nCacheEnable disk "/"\nCacheRoot @DATA@\nCacheQuickHandler on\n',
                    path="/page.html",
                    backends=[50],
                    at_a_time=10,
                ),
                "CacheEnable disk",
            ),
        ],
    ),
    Recipe(
        "micro-cache",
        ["cpu of all", "rate"],
        both(
            Site(pool=POOL, path="/page.php"),
            Site(pool=POOL, path="/page.php", http=MICRO_PATH + MICRO),
            "fastcgi_cache_valid 200 1s;",
        ),
    ),
    Recipe(
        "proxy-buffers",
        ["cpu"],
        both(proxied(), proxied(http=BUFFERS), "proxy_buffers 16 64k;"),
    ),
    Recipe(
        "upstream-keepalive",
        ["cpu of all", "p50"],
        [
            *both(
                upstream("", 'proxy_http_version 1.1; proxy_set_header Connection "close";'),
                upstream("keepalive 32;", 'proxy_http_version 1.1; proxy_set_header Connection "";'),
                "keepalive 32;",
            ),
            apache(
                Site(
                    modules=["proxy", "proxy_http"],
                    lines='ProxyPass "/" "http://127.0.0.1:@BACK0@/" disablereuse=On\n',
                    path="/page.html",
                    backends=[0],
                ),
                Site(
                    modules=["proxy", "proxy_http"],
                    lines='ProxyPass "/" "http://127.0.0.1:@BACK0@/" enablereuse=On\n',
                    path="/page.html",
                    backends=[0],
                ),
                "enablereuse=On",
            ),
        ],
    ),
    Recipe(
        "pool-size",
        ["rate", "p50", "memory of all"],
        [
            Side(
                server,
                Site(pool=POOL_SMALL, path=path),
                Site(pool=POOL_LARGE, path=path),
                "pm.max_children = 20",
                f"{server}, pages that {what}",
            )
            for path, what in (("/wait.php", "wait 50 ms"), ("/compute.php", "compute"))
            for server in ("nginx", "Brisk", "Apache")
        ],
        ["-c", "40", "-w", "300ms", "-d", "1s"],
        heads=("2 processes", "20 processes"),
    ),
    Recipe(
        "opcache",
        ["cpu of all", "p50"],
        [
            Side(
                server,
                Site(pool=POOL, path="/many.php", ini={"opcache": False}),
                Site(pool=POOL, path="/many.php"),
                "opcache.enable = 1",
            )
            for server in ("nginx", "Brisk", "Apache")
        ],
        ["-c", "8", "-w", "300ms", "-d", "1s"],
    ),
    Recipe(
        "opcache-timestamps",
        ["cpu of all"],
        both(
            Site(pool=POOL, path="/many.php", ini={"more": "opcache.revalidate_freq = 0\n"}),
            Site(pool=POOL, path="/many.php", ini={"more": "opcache.validate_timestamps = 0\n"}),
            "opcache.validate_timestamps = 0",
        ),
        ["-c", "8", "-w", "300ms", "-d", "1s"],
    ),
    Recipe(
        "jit",
        ["cpu of all", "p50"],
        [
            Side(
                "nginx",
                Site(pool=POOL, path=path),
                Site(pool=POOL, path=path, ini={"jit": True}),
                "opcache.jit = tracing",
                f"nginx, {what}",
            )
            for path, what in (("/compute.php", "a page that computes"), ("/page.php", "a page of texts and arrays"))
        ]
        + [
            Side(
                "Brisk",
                Site(pool=POOL, path="/page.php"),
                Site(pool=POOL, path="/page.php", ini={"jit": True}),
                "opcache.jit = tracing",
                "Brisk, a page of texts and arrays",
            )
        ],
        ["-c", "8", "-w", "700ms", "-d", "1s"],
    ),
    Recipe(
        "realpath-cache",
        ["cpu of all"],
        both(
            Site(pool=POOL, path="/many.php", ini={"opcache": False, "more": "realpath_cache_size = 0\n"}),
            Site(
                pool=POOL,
                path="/many.php",
                ini={"opcache": False, "more": "realpath_cache_size = 4096k\nrealpath_cache_ttl = 600\n"},
            ),
            "realpath_cache_size = 4096k",
        ),
        ["-c", "8", "-w", "300ms", "-d", "1s"],
    ),
    Recipe(
        "innodb-buffer-pool",
        ["p50", "rate"],
        [
            Side(
                server,
                database.site(POOL, "small pool"),
                database.site(POOL, "large pool"),
                "innodb_buffer_pool_size = 512M",
            )
            for server in BOTH
        ],
        ["-c", "4", "-w", "500ms", "-d", "1s"],
        heads=("8 MB", "512 MB"),
    ),
    Recipe(
        "database-index",
        ["cpu of all", "p50"],
        [Side(server, database.site(POOL, "no index"), database.site(POOL, "index"), "CREATE INDEX") for server in BOTH],
        ["-c", "4", "-w", "300ms", "-d", "1s"],
    ),
    Recipe(
        "images",
        ["at 10 Mbit/s", "bytes", "cpu"],
        [
            Side(server, Site(path="/photo.jpg"), Site(path="/photo.webp"), "image/webp")
            for server in ("nginx", "Brisk", "Apache")
        ],
        heads=("JPEG, quality 85", "WebP, quality 80"),
    ),
    Recipe(
        "balancing",
        ["rate", "p95"],
        [
            *both(balanced(""), balanced("least_conn;"), "least_conn;"),
            apache(apache_balanced("byrequests"), apache_balanced("bybusyness"), "lbmethod=bybusyness"),
        ],
        ["-c", "20", "-w", "300ms", "-d", "1500ms"],
        heads=("in turn", "to the least busy"),
    ),
    Recipe(
        "htaccess",
        ["cpu"],
        [
            apache(
                Site(directory=HTACCESS.format("All"), path="/a/b/c/d/small.css"),
                Site(directory=HTACCESS.format("None"), path="/a/b/c/d/small.css"),
                "AllowOverride None",
            ),
            Side(
                "Brisk",
                Site(server="directory_overrides on;", path="/a/b/c/d/small.css"),
                Site(path="/a/b/c/d/small.css"),
                "directory_overrides off;",
            ),
        ],
        heads=("looked for", "not looked for"),
    ),
]
