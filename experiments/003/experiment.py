"""WordPress over TLS on mod_php, mod_fcgid and PHP-FPM behind Apache, nginx and Brisk; OPcache, JIT, a cache of pages."""

from pathlib import Path

from lab import examples, load, php, servers
from lab.advice import Advice, judged
from lab.load import Target, beside
from lab.page import Page, cpu_chart, measured, megabytes, sweep_charts
from lab.stage import installed, php_version

HERE = Path(__file__).parent
WEB = {"nginx": servers.nginx, "Brisk": servers.brisk}
POOL = php.STATIC.format(5)
# Brisk's own: as many processes, and as many as it finds.
OWN = {"static": "pm static; max_children 5;", "auto": "pm auto; max_children 32;"}
TLS = ["ssl", "socache_shmcb"]
# What Debian's Apache has switched on, and CentOS's besides, and this site does not need.
UNUSED = """access_compat alias auth_basic authn_core authn_file authz_host authz_user autoindex deflate env filter
    negotiation reqtimeout setenvif status actions auth_digest authn_anon authn_dbm authz_dbm authz_groupfile authz_owner
    cache cgi dav dav_fs dbd dumpio expires ext_filter headers include info proxy proxy_ajp proxy_balancer proxy_connect
    proxy_ftp proxy_http lbmethod_byrequests rewrite slotmem_shm speling substitute unique_id userdir usertrack
    vhost_alias""".split()
PLAIN = {"opcache": False}
OPCACHE = {"opcache": True}
JIT = {"opcache": True, "jit": True}
CACHE_PATH = "fastcgi_cache_path @DATA@/cache levels=1:2 keys_zone=pages:10m max_size=100m inactive=10m;"
CACHE = """fastcgi_cache pages;
            fastcgi_cache_key $scheme$request_method$host$request_uri;
            fastcgi_cache_valid 200 1s;
            fastcgi_cache_lock on;
            fastcgi_cache_use_stale updating;
            fastcgi_cache_background_update on;"""

INTRO = """
The article sends `ab -c 5 -n 5000` to the front page of WordPress over https, on a machine with two CPUs, and changes what
runs PHP and what is before it. PHP 5.4 had no OPcache unless it was added; today's has it, so here it is taken away first.
HHVM has given up PHP, and OpenLiteSpeed is not in Debian: PHP's own JIT and a cache of pages take their places.
"""


class Blog:
    def __init__(self, app):
        self.app = app

    def target(self, port, tiers, prime=0):
        tiers["database"] = self.app.database
        return Target(f"https://127.0.0.1:{port}/", tiers, contains="A blog on Brisk", prime=prime)


def apache(stage, blog, modules, php_lines, name, env=None):
    return servers.apache(
        stage,
        HERE / "apache.conf",
        modules,
        name,
        SITE=blog.app.site,
        PHP=php_lines,
        ENV=env,
        **servers.certificate(stage),
    )


def mod_php(blog, extra, options):
    def up(stage):
        ini = php.ini(stage, "module", **options)
        modules = [*servers.APACHE_BASE, "mpm_prefork", *TLS, *extra, f"php{php_version()}"]
        lines = f'PHPIniDir {ini}\n<FilesMatch "\\.php$">\n    SetHandler application/x-httpd-php\n</FilesMatch>'
        port, process = apache(stage, blog, modules, lines, "mod_php", {"PHP_INI_SCAN_DIR": ""})
        return blog.target(port, {"server": process.pid})

    return up


def fcgid(blog, options):
    def up(stage):
        ini = php.ini(stage, "fcgid", **options)
        cgi = installed(f"/usr/bin/php-cgi{php_version()}", "php-cgi")
        own = stage.make_new("fcgid")
        lines = f"""FcgidIPCDir {own}
FcgidProcessTableFile {own}/table
FcgidMaxProcesses 5
FcgidMaxRequestsPerProcess 0
FcgidInitialEnv PHP_FCGI_MAX_REQUESTS 0
<FilesMatch "\\.php$">
    SetHandler fcgid-script
    FcgidWrapper "{cgi} -n -c {ini}/php.ini" .php
</FilesMatch>"""
        port, process = apache(stage, blog, [*servers.APACHE_BASE, "mpm_event", *TLS, "fcgid"], lines, "fcgid")
        # It starts one process per second, and each compiles all scripts for itself, whatever OPcache keeps.
        return blog.target(port, {"server": process.pid}, prime=20)

    return up


def apache_fpm(blog, options):
    def up(stage):
        socket, fpm = php.fpm(stage, "wordpress", php.ini(stage, "fpm", **options), POOL)
        lines = f'<FilesMatch "\\.php$">\n    SetHandler "proxy:unix:{socket}|fcgi://localhost"\n</FilesMatch>'
        modules = [*servers.APACHE_BASE, "mpm_event", *TLS, "proxy", "proxy_fcgi"]
        port, process = apache(stage, blog, modules, lines, "apache-fpm")
        return blog.target(port, {"server": process.pid, "PHP": fpm.pid})

    return up


def with_fpm(blog, name, options, cached=False):
    def up(stage):
        socket, fpm = php.fpm(stage, "wordpress", php.ini(stage, "fpm", **options), POOL)
        cache = {"CACHE_PATH": CACHE_PATH, "CACHE": CACHE} if cached else {"CACHE_PATH": "", "CACHE": ""}
        port, process = WEB[name](
            stage,
            HERE / "wordpress.conf",
            name.lower(),
            SITE=blog.app.site,
            POOL="",
            PASS=f"fastcgi_pass unix:{socket};",
            **cache,
            **servers.certificate(stage),
        )
        return blog.target(port, {"server": process.pid, "PHP": fpm.pid})

    return up


def with_pool(blog, settings, options, cached=False):
    """PHP in Brisk's own pool."""

    def up(stage):
        block, way = php.pool(stage, php.ini(stage, "pool", **options), settings)
        cache = {"CACHE_PATH": CACHE_PATH, "CACHE": CACHE} if cached else {"CACHE_PATH": "", "CACHE": ""}
        port, process = servers.brisk(
            stage,
            HERE / "wordpress.conf",
            "brisk",
            SITE=blog.app.site,
            POOL=block,
            PASS=way,
            **cache,
            **servers.certificate(stage),
        )
        return blog.target(port, php.pool_tiers(process))

    return up


def behind_brisk(blog, up_behind):
    """Brisk's cache before a server that answers over TLS."""

    def up(stage):
        behind = up_behind(stage)
        port = behind.url.split(":")[2].strip("/")
        front, process = servers.brisk(stage, HERE / "cache.conf", "front", BEHIND=port, **servers.certificate(stage))
        tiers = {"behind": behind.tiers["server"], **behind.tiers, "server": process.pid}
        return blog.target(front, tiers)

    return up


def settings(blog):
    def four(key, label, make, articles):
        """One way to run PHP: as it is, with OPcache, with the compiler, behind Brisk's cache."""
        said = iter(articles)
        return [
            beside(key, label, make(PLAIN), next(said, "")),
            beside(f"{key} opcache", f"{label}, OPcache", make(OPCACHE), next(said, "")),
            beside(f"{key} jit", f"{label}, OPcache, JIT", make(JIT), next(said, "")),
            beside(f"{key} front", f"{label}, OPcache, Brisk's cache", behind_brisk(blog, make(OPCACHE))),
        ]

    def on(name):
        return lambda options: with_fpm(blog, name, options)

    rows = [beside("module", "Apache, mod_php, all modules", mod_php(blog, UNUSED, PLAIN), "12.75 (20.3 MB per process)")]
    rows += four("fewer", "Apache, mod_php, few modules", lambda how: mod_php(blog, [], how), ["12.95 (14.9 MB)"])
    rows += four("fcgid", "Apache, mod_fcgid", lambda how: fcgid(blog, how), ["13.35 (2.7 MB)"])
    rows += four("apache", "Apache, PHP-FPM", lambda how: apache_fpm(blog, how), ["13.33", "37.13"])
    rows += four("nginx", "nginx, PHP-FPM", on("nginx"), ["12.89", "35.36", "93.95 (HHVM)"])
    rows += four("brisk", "Brisk, PHP-FPM", on("Brisk"), [])[:3]
    rows += [
        beside(f"own {pm}", f"Brisk, `php_pool`, `pm {pm}`, OPcache", with_pool(blog, lines, OPCACHE)) for pm, lines in OWN.items()
    ]
    return rows + [
        beside("own cache", "Brisk, `php_pool`, OPcache, its own cache", with_pool(blog, OWN["auto"], OPCACHE, True)),
        beside("nginx cache", "nginx, PHP-FPM, OPcache, its own cache", with_fpm(blog, "nginx", OPCACHE, True)),
        beside("brisk cache", "Brisk, PHP-FPM, OPcache, its own cache", with_fpm(blog, "Brisk", OPCACHE, True)),
    ]


ADVICE = [
    Advice("switch off modules", f"{len(UNUSED)} fewer `LoadModule`", "182 → 164 MB", "module", "fewer", "memory"),
    Advice("switch off modules", f"{len(UNUSED)} fewer `LoadModule`", "+1.6 %", "module", "fewer"),
    Advice("mod_fcgid in place of mod_php", "`SetHandler fcgid-script`", "+3.1 %", "fewer", "fcgid"),
    Advice("PHP-FPM in place of mod_php", '`SetHandler "proxy:unix:…"`', "+2.9 %", "fewer", "apache"),
    Advice("nginx in place of Apache", "`fastcgi_pass`", "−3.3 %", "apache", "nginx"),
    Advice("Brisk in place of nginx", "the same file", "–", "nginx opcache", "brisk opcache"),
    Advice("Brisk in place of nginx", "the same file", "–", "nginx opcache", "brisk opcache", "cpu"),
    Advice("Brisk runs PHP", "`php_pool`, `pm static`", "–", "nginx opcache", "own static", "cpu of all"),
    Advice("Brisk finds the number of processes", "`php_pool`, `pm auto`", "–", "brisk opcache", "own auto"),
    Advice("OPcache (Apache, PHP-FPM)", "`opcache.enable = 1`", "×2.79", "apache", "apache opcache"),
    Advice("OPcache (nginx, PHP-FPM)", "`opcache.enable = 1`", "×2.74", "nginx", "nginx opcache"),
    Advice("OPcache (mod_php)", "`opcache.enable = 1`", "–", "fewer", "fewer opcache"),
    Advice("OPcache (mod_fcgid)", "`opcache.enable = 1`, in each process", "–", "fcgid", "fcgid opcache"),
    Advice(
        "a just-in-time compiler (nginx)",
        "`opcache.jit = tracing`",
        "×2.7 (HHVM)",
        "nginx opcache",
        "nginx jit",
        "cpu of all",
    ),
    Advice("a just-in-time compiler (Brisk)", "`opcache.jit = tracing`", "–", "brisk opcache", "brisk jit", "cpu of all"),
    Advice("a just-in-time compiler (mod_php)", "`opcache.jit = tracing`", "–", "fewer opcache", "fewer jit", "cpu of all"),
    Advice("keep pages for a second (mod_php, Brisk before it)", "`proxy_cache`", "–", "fewer opcache", "fewer front"),
    Advice("keep pages for a second (mod_fcgid, Brisk before it)", "`proxy_cache`", "–", "fcgid opcache", "fcgid front"),
    Advice("keep pages for a second (Apache, Brisk before it)", "`proxy_cache`", "–", "apache opcache", "apache front"),
    Advice("keep pages for a second (nginx, Brisk before it)", "`proxy_cache`", "–", "nginx opcache", "nginx front"),
    Advice("keep pages for a second (nginx)", "`fastcgi_cache`", "“full page caching”", "nginx opcache", "nginx cache"),
    Advice("keep pages for a second (Brisk)", "`fastcgi_cache`", "–", "brisk opcache", "brisk cache"),
    Advice("Brisk in place of nginx, pages kept", "the same file", "–", "nginx cache", "brisk cache", "cpu"),
    Advice("Brisk runs PHP, pages kept", "`php_pool`, `fastcgi_cache`", "–", "nginx cache", "own cache", "cpu of all"),
]


def per_process(results):
    """The memory of one process of the tier, and what a rate is in a day: the article's last table, computed."""
    rows = []
    for setting in results.settings:
        cells = [megabytes(results.tier(setting.key, tier, "pss_bytes_per_process")) for tier in ("server", "PHP")]
        rate = results.typical(setting.key)
        rows.append([setting.label, *cells, f"{rate * 6 * 3600:,.0f}", f"{rate * 86400:,.0f}"])
    return ["setting", "server: memory per process", "PHP: memory per process", "requests in 6 hours", "in a day"], rows


def sweeps(stage, rows, quick):
    """One of each kind, over the number of users."""
    chosen = {"apache", "apache opcache", "nginx opcache", "brisk opcache", "own auto", "nginx cache", "brisk cache"}
    curves = {}
    for row in rows:
        if row.key not in chosen:
            continue
        with stage.scope():
            users = "1,5" if quick else "1,2,5,10,20,50"
            run = load.bench(stage, row.up(stage), "--users", users, "-d", "1s" if quick else "2s")
        curves[row.label] = run["runs"]
        load.say(f"  sweep: {row.label}")
    return curves


def run(stage, about):
    quick = about.is_quick
    about.versions = servers.versions("nginx", "Apache", "PHP", "MariaDB")
    with examples.application("wordpress") as app:
        rows = settings(Blog(app))
        curves = sweeps(stage, rows, quick)
        length, count = ("1500ms", 2) if quick else ("2s", 3)
        options = ["-c", "5", "-w", "500ms" if quick else "1s", "-d", length]
        results = load.rounds(stage, rows, ADVICE, options, stage.until(0 if quick else 0.97), count)
    return written(results, curves, length)


def written(results, curves, length):
    page = Page("003", "WordPress on Apache, nginx and Brisk", INTRO)
    page.verdicts(judged(results, ADVICE))
    page.heading("The front page, 5 users over https")
    page.text(
        f"`brisk bench -c 5 -d {length}`. With mod_php and mod_fcgid the server's "
        "figures hold PHP's processes. PHP-FPM and mod_fcgid have five processes; Brisk's `pm auto` has what it found. Where Brisk's cache stands before another "
        "server, that is the tier behind."
    )
    tiers = ["server", "behind", "PHP", "database"]
    page.table(*measured(results, tiers))
    cpu_chart(page, results, tiers)
    page.heading("Over the number of users")
    told = [
        ("the article: Apache, PHP-FPM", [[5, 13.33]]),
        ("the article: Apache, PHP-FPM, OPcache", [[5, 37.13]]),
        ("the article: nginx, HHVM", [[5, 93.95]]),
    ]
    sweep_charts(page, curves, told, x_scale="log", y_scale="log")
    page.text("`brisk bench --users`, nobody pausing; PHP-FPM has five processes, Brisk's pool those that it found.")
    page.heading("Memory per process, and requests per day")
    page.text(
        "The article counts the resident memory of Apache's processes, in which shared pages count once for each; here they "
        "are divided among those who share them (PSS). Its table of requests per day says 1,152,000 for 10 a second; it is "
        "864,000."
    )
    page.table(*per_process(results))
    return page
