"""What the recipes are cooked in: a folder of files, sites of nginx, Brisk and Apache, PHP, a database, a slow application."""

import gzip
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from lab import php, servers
from lab.load import Target
from lab.stage import REMEDY, Refused, program

HERE = Path(__file__).parent
WEB = {"nginx": servers.nginx, "Brisk": servers.brisk}
PHP_LOCATION = """location ~ \\.php$ {{
            include @PARAMS@;
            fastcgi_pass unix:{socket};
        }}"""
GZIP = ["-H", "Accept-Encoding: gzip"]


@dataclass
class Site:
    """One configuration of a site: what differs from the empty one, and how it is asked."""

    http: str = ""
    server: str = ""
    listen: str = ""
    workers: int = 1
    log: str = "@DATA@/access.log"
    # Of Apache.
    modules: list = field(default_factory=list)
    lines: str = ""
    directory: str = "Require all granted"
    # How it is asked.
    path: str = "/small.css"
    options: list = field(default_factory=list)
    is_tls: bool = False
    key: str = "ec"
    # PHP: lines of the pool, or None; and of php.ini.
    pool: str | None = None
    ini: dict = field(default_factory=dict)
    # Milliseconds of each application that waits, which a configuration names as @BACK0@, @BACK1@ …
    backends: list = field(default_factory=list)
    at_a_time: int = 1000
    prime: int = 0
    # Called before the first request: up(stage), and gives further tiers.
    before: object = None


def on(server, site):
    """What starts this site on "nginx", "Brisk" or "Apache"."""

    def up(stage):
        tiers, values = {}, {}
        for number, milliseconds in enumerate(site.backends):
            values[f"BACK{number}"] = port = stage.port()
            words = ["/usr/bin/python3", HERE / "backend.py", port, milliseconds, site.at_a_time]
            tiers["application" + str(number or "")] = stage.start(f"backend{number}", words, port).pid
        tiers |= site.before(stage) if site.before else {}
        socket = None
        if site.pool is not None:
            ini = php.ini(stage, "cookbook", **site.ini)
            socket, fpm = php.fpm(stage, "cookbook", ini, site.pool)
            tiers["PHP"] = fpm.pid
        start = on_apache if server == "Apache" else on_nginx
        port, process = start(stage, server, site, socket, values)
        scheme = "https" if site.is_tls else "http"
        options = [*site.options]
        return Target(f"{scheme}://127.0.0.1:{port}{site.path}", {"server": process.pid, **tiers}, options, prime=site.prime)

    return up


def on_nginx(stage, server, site, socket, values):
    lines, listen = site.server, site.listen
    if socket:
        lines += PHP_LOCATION.format(socket=socket)
    if site.is_tls:
        listen += " ssl"
        names = certificate(stage, site.key)
        lines += f"\n        ssl_certificate {names['CHAIN']};\n        ssl_certificate_key {names['KEY']};"
    fill = dict(WORKERS=site.workers, LOG=site.log, HTTP=site.http, LISTEN=listen, SERVER=lines, **values)
    return WEB[server](stage, HERE / "site.conf", server.lower(), **fill)


def on_apache(stage, _, site, socket, values):
    modules, lines = [*servers.APACHE_BASE, "mpm_event", *site.modules], site.lines
    if socket:
        modules += ["proxy", "proxy_fcgi"]
        lines += f'\n<FilesMatch "\\.php$">\n    SetHandler "proxy:unix:{socket}|fcgi://localhost"\n</FilesMatch>'
    if site.is_tls:
        modules += ["ssl", "socache_shmcb"]
        names = certificate(stage, site.key)
        lines += f"\nSSLEngine on\nSSLCertificateFile {names['CHAIN']}\nSSLCertificateKeyFile {names['KEY']}"
    fill = dict(LOG="@DATA@/access.log", LINES=lines, DIRECTORY=site.directory, **values)
    return servers.apache(stage, HERE / "apache.conf", list(dict.fromkeys(modules)), **fill)


def certificate(stage, kind):
    """A certificate with an elliptic key of 256 bits, or an RSA key of 2,048 ("rsa") or 4,096 ("rsa4096")."""
    if kind == "ec":
        return servers.certificate(stage)
    chain, key = stage.folder / f"chain-{kind}.pem", stage.folder / f"key-{kind}.pem"
    if not chain.exists():
        bits = "4096" if kind == "rsa4096" else "2048"
        command = [program("openssl"), "req", "-x509", "-newkey", f"rsa:{bits}", "-nodes", "-subj", "/CN=localhost"]
        subprocess.run([*command, "-days", "2", "-keyout", key, "-out", chain], check=True, capture_output=True)
        stage.give(key)
        stage.give(chain)
    return {"CHAIN": chain, "KEY": key}


def files(stage):
    """The folder of the sites: small, large, compressible, pictures, scripts."""
    www = stage.make("www")
    stage.write("www/small.css", "body { margin: 0; color: #000 }\nnav { display: none }\n" * 2)
    rule = "nav.area-{0} > a:hover {{ color: #{0:06x}; margin: {0}px auto; padding: {0}px }}\n"
    css = "".join(rule.format(number) for number in range(700))
    stage.write("www/style.css", css)
    (www / "style.css.gz").write_bytes(gzip.compress(css.encode(), 9))
    (www / "large.bin").write_bytes(bytes(range(256)) * 4096)
    deep = stage.make("www/a/b/c/d")
    (deep / "small.css").write_text((www / "small.css").read_text())
    scripts(stage)
    pictures(stage, www)


def scripts(stage):
    """PHP: one that computes, one that waits, one of a hundred files."""
    stage.write("www/compute.php", COMPUTE)
    stage.write("www/wait.php", "<?php usleep(50000); echo 'waited';")
    stage.write("www/page.php", PAGE)
    folder = stage.make("www/classes")
    for number in range(100):
        methods = "".join(f"    function m{n}($a) {{ return $a . '{n}' . strlen($a); }}\n" for n in range(40))
        (folder / f"C{number}.php").write_text(f"<?php\nclass C{number} {{\n{methods}}}\n")
    wanted = "".join(f"require __DIR__ . '/classes/C{number}.php';\n" for number in range(100))
    stage.write("www/many.php", f"<?php\n{wanted}echo (new C7)->m3('many');\n")


COMPUTE = """<?php
$inside = 0;
for ($y = -39; $y < 39; $y++) {
    for ($x = -39; $x < 39; $x++) {
        $cr = $y / 40.0 - 0.5; $ci = $x / 40.0; $zr = $zi = 0.0; $n = 0;
        while ($zr * $zr + $zi * $zi < 4 && $n < 50) {
            [$zr, $zi] = [$zr * $zr - $zi * $zi + $cr, 2 * $zr * $zi + $ci];
            $n++;
        }
        $inside += $n;
    }
}
echo $inside;
"""
# What pages mostly do: arrays, texts, a template.
PAGE = """<?php
$rows = [];
for ($n = 0; $n < 400; $n++) {
    $rows[] = ['id' => $n, 'title' => "Item no. $n", 'tags' => explode(',', 'red,green,blue')];
}
usort($rows, fn ($a, $b) => strcmp(md5($a['title']), md5($b['title'])));
ob_start();
foreach ($rows as $row) {
    echo '<li id="', $row['id'], '">', htmlspecialchars($row['title']), ' ', implode(' ', array_map('ucfirst', $row['tags'])), "\\n";
}
echo strlen(ob_get_clean());
"""
PICTURE = """<?php
$image = imagecreatetruecolor(1200, 800);
for ($y = 0; $y < 800; $y++) {
    for ($x = 0; $x < 1200; $x++) {
        $r = (int) (128 + 100 * sin($x / 97) + 20 * sin($x * $y / 5000));
        $g = (int) (128 + 100 * cos($y / 71) + 15 * sin(($x + $y) / 9));
        imagesetpixel($image, $x, $y, (max(0, min(255, $r)) << 16) | (max(0, min(255, $g)) << 8) | ($x * $y / 4000) % 200);
    }
}
imagejpeg($image, "$argv[1]/photo.jpg", 85);
imagewebp($image, "$argv[1]/photo.webp", 80);
"""


def pictures(stage, www):
    """A picture with gradients and texture, as JPEG and as WebP of about the same look."""
    script = stage.write("picture.php", PICTURE)
    folder = php.ini(stage, "pictures")
    command = [program("php"), "-n", "-c", folder / "php.ini", script, www]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused(f"PHP draws no pictures ({(done.stdout + done.stderr).strip()}): {REMEDY}")
    for name in ("photo.jpg", "photo.webp"):
        stage.give(www / name)
