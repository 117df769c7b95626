#!/usr/bin/env python3
"""Compares Brisk with Apache on public .htaccess files: htaccess.py BINARY FOLDER [OUT.tsv]

FOLDER has .htaccess files, each of whatever name, at any depth; none of them is ours, so none is in the repository. Each becomes a
site of its own over one tree of files, with the files and folders that it names. Both servers are asked the same, by targets that every
site is asked for and by what its patterns match, and must answer the same: status, Location, fields, body. A difference is explained
if one of the servers has refused the file by name (its error log says which directive), or by the table EXPLAINED below.

Ends with 1 if a difference is not explained, or if something can be read that Apache refuses. Needs apache2 and php-fpm of Debian.
"""

import collections, gzip, os, pathlib, random, re, shutil, signal, socket, subprocess, sys, tempfile, time, zlib
import re._constants as sre
import re._parser as parser

MODULES = """mpm_event authn_core authn_file authz_core authz_host authz_user authz_groupfile access_compat auth_basic auth_digest alias autoindex
    brotli deflate dir env expires filter headers mime rewrite setenvif proxy proxy_fcgi""".split()

TYPES = """text/html html htm
text/css css
text/javascript js
text/plain txt log
text/xml xml
image/png png
image/jpeg jpg jpeg
image/gif gif
image/svg+xml svg
image/x-icon ico
application/json json
application/pdf pdf
font/woff2 woff2
application/gzip gz
application/zip zip"""

TREE = {name: name for name in """index.html readme.html readme.txt robots.txt a.json logo.svg app.js style.css picture.png photo.jpg
    favicon.ico font.woff2 archive.zip dump.sql config.ini error.log page.html.bak module.inc composer.json .env .git/config feed.xml
    document.pdf folder/index.html folder/deep/file.txt empty/file.txt images/a.png images/b.jpg css/main.css js/main.js vendor/lib.txt
    uploads/a.png public/index.html public/app.js wp-content/uploads/a.png wp-includes/js/a.js cache/page.html""".split()}

SCRIPT = """<?php header('Content-Type: text/plain; charset=utf-8'); echo basename(__FILE__), "\\n";
foreach (['REQUEST_METHOD','QUERY_STRING','REDIRECT_URL','REDIRECT_QUERY_STRING','HTTP_AUTHORIZATION','REDIRECT_HTTP_AUTHORIZATION'] as $n)
    if (($_SERVER[$n] ?? '') !== '') echo "$n=$_SERVER[$n]\\n";
"""

SCRIPTS = """index.php wp-login.php wp-config.php xmlrpc.php admin.php install.php folder/script.php uploads/evil.php app.php
    public/index.php wp-content/uploads/evil.php vendor/script.php""".split()

TARGETS = """/ /?a=b /index.php /index.php?q=1&r=2 /index.html /hello-world/ /2024/01/post?p=1 /readme.html /readme.txt /wp-content/uploads/a.png
    /css/main.css /js/main.js /wp-config.php /xmlrpc.php /.env /.git/config /.htaccess /.htpasswd /composer.json /dump.sql /config.ini /error.log
    /page.html.bak /module.inc /folder /folder/ /folder/deep/ /folder/deep/file.txt /empty/ /none /none/at/all.txt /a.json /logo.svg
    /index.php/path/info /uploads/evil.php /vendor/lib.txt /caf%C3%A9 /a%20b //readme.txt /README.TXT /index.html/x /picture.png
    /readme.txt%0a /.htaccess%20 /folder/..%2f.env /%2eenv /readme.txt.""".split()

FIELDS = ["", "User-Agent: Mozilla/5.0 (compatible; badbot; HTTrack; wget)\r\nReferer: http://elsewhere.example/page\r\n"
          "Cookie: wordpress_logged_in_x=1; a=b\r\nAuthorization: Basic YW5uOnJpZ2h0\r\n"]

COMPARED = """location cache-control content-encoding content-language set-cookie strict-transport-security referrer-policy
    content-security-policy www-authenticate permissions-policy content-type""".split()

# Differences that are meant; by what must be so of target, Apache's answer and Brisk's.
EXPLAINED = [
    ("what begins with .ht is 403 in any configuration, before rules", lambda t, a, b: re.search(r"/\.ht", t, re.I) and b.status == 403),
    ("the source of a script is not served", lambda t, a, b: b.status in (403, 500) and "<?php" in a.text),
    ("Apache tries the next index file where one is refused; Brisk refuses", lambda t, a, b: a.status == 200 and b.status == 403 and re.search(r"/\.?$", t.partition("?")[0])),
    ("a script is not run that its folder's file takes away from PHP; Apache's SetHandler of the host gives it back", lambda t, a, b: b.status in (403, 500) and re.match(r"\S+\.php\n", a.text)),
    ("a script that its folder's file takes away from PHP is refused otherwise", lambda t, a, b: a.status == 404 and b.status == 403 and ".php/" in t),
    ("a file that a handler for scripts is meant for is not served as it is", lambda t, a, b: b.status == 500 and ("content-type", "application/x-httpd-php") in a.fields),
    ("a folder with an unknown handler is listed by none", lambda t, a, b: a.status == 404 and b.status == 403 and t.partition("?")[0].endswith("/")),
    ("rules that lead to longer and longer paths end with another refusal", lambda t, a, b: a.status == 403 and b.status in (404, 500)),
    ("the type of a name without a known last ending", lambda t, a, b: a.status == b.status == 200 and a.without("content-type") == b.without("content-type") and re.search(r"\.bak|\.gz|\.inc|/\.", t)),
]


class Answer:
    def __init__(self, raw):
        head, _, body = raw.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split(" ")[1])
        self.fields = [(n.strip().lower(), v.strip()) for n, _, v in (line.partition(":") for line in lines[1:])]
        if ("transfer-encoding", "chunked") in self.fields:
            body = dechunked(body)
        if ("content-encoding", "gzip") in self.fields:
            # Encoders differ.
            try:
                body = gzip.decompress(body)
            except (EOFError, OSError, zlib.error):
                pass
        self.text = body.decode("latin-1")

    def is_to(self, end):
        return any(name == "location" and value.endswith(end) for name, value in self.fields)

    def shown(self):
        is_listing = self.status == 200 and "Index of" in self.text
        out = set()
        for name, value in self.fields:
            is_kept = name in COMPARED or name.startswith(("x-", "access-control-")) and name != "x-powered-by"
            if not is_kept or name == "content-type" and (self.status != 200 or is_listing):
                continue
            value = re.sub(r'nonce="[^"]*"', "nonce", value)
            out.add((name, re.sub(r"^(https?://[^/:]*):\d+", r"\1", value)))
            if name == "location" and self.status not in range(300, 400):
                out.discard((name, value))
        if any(name == "expires" for name, _ in self.fields):
            out.add(("expires", ""))
        body = self.text.strip() if self.status == 200 and not is_listing else ""
        return (self.status, tuple(sorted(out)), body)

    def without(self, field):
        status, fields, body = self.shown()
        return (status, tuple(f for f in fields if f[0] != field), body)


def dechunked(body):
    out = b""
    while True:
        size, _, rest = body.partition(b"\r\n")
        count = int(size.split(b";")[0] or b"0", 16)
        if not count:
            return out
        out, body = out + rest[:count], rest[count + 2:]


def ask(port, host, target, fields):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        s.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n".encode("latin-1"))
        raw = b""
        while piece := s.recv(65536):
            raw += piece
    return Answer(raw)


def sample(pattern, chance):
    """A text that a pattern matches, as far as that is simple."""
    def made(items):
        out = ""
        for op, arg in items:
            if op is sre.LITERAL:
                out += chr(arg)
            elif op is sre.NOT_LITERAL or op is sre.ANY:
                out += "x"
            elif op is sre.IN:
                out += of_class(arg)
            elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT, getattr(sre, "POSSESSIVE_REPEAT", None)):
                least, most, inner = arg
                count = min(int(most), max(int(least), chance.choice([0, 1, 2]))) if int(least) < 3 else int(least)
                out += "".join(made(inner) for _ in range(min(count, 40)))
            elif op is sre.BRANCH:
                out += made(chance.choice(arg[1]))
            elif op is sre.SUBPATTERN:
                out += made(arg[3])
            elif op is getattr(sre, "ATOMIC_GROUP", None):
                out += made(arg)
        return out

    def of_class(items):
        negated = items[0][0] is sre.NEGATE
        if negated:
            return "x"
        op, arg = chance.choice(items)
        if op is sre.LITERAL:
            return chr(arg)
        if op is sre.RANGE:
            return chr(chance.randint(*arg))
        return {sre.CATEGORY_DIGIT: "7", sre.CATEGORY_WORD: "w", sre.CATEGORY_SPACE: " "}.get(arg, "-")

    try:
        return made(parser.parse(pattern))
    except Exception:
        return ""


def quoted(path):
    return "".join(c if re.match(r"[\w./?=&~!$'()*+,;:@-]", c) and ord(c) < 128 else "".join(f"%{b:02X}" for b in c.encode()) for c in path)


def words(line):
    return [a or b for a, b in re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', line)]


def requests_of(text, chance):
    """Targets and fields that a file's own lines ask for."""
    found, conditions = [], []
    for line in text.splitlines():
        parts = words(line.strip())
        if not parts or parts[0].startswith("#"):
            continue
        name, rest = parts[0].lower(), parts[1:]
        if name == "rewritecond" and len(rest) > 1:
            conditions.append(rest)
        elif name == "rewriterule" and rest:
            for _ in range(2):
                path, query, fields = sample(rest[0].lstrip("!"), chance).lstrip("/"), "", ""
                for what, pattern, *_ in conditions:
                    value = sample(pattern.lstrip("!"), chance) if not pattern.startswith(("-", "=", "<", ">", "!=")) else pattern.lstrip("=!")
                    if what == "%{QUERY_STRING}":
                        query = "?" + quoted(value)
                    elif what == "%{REQUEST_URI}":
                        path = value.lstrip("/")
                    elif m := re.match(r"%\{HTTP_(USER_AGENT|REFERER|COOKIE|ACCEPT)\}|%\{HTTP:([\w-]+)\}", what):
                        field = (m[1] or m[2]).replace("_", "-")
                        fields += f"{field}: " + re.sub(r"[^\x20-\x7e]", "x", value) + "\r\n" if value.strip() else ""
                found.append(("/" + quoted(path) + query, fields))
            conditions = []
        elif name in ("redirectmatch", "<filesmatch") or name == "<files" and rest[:1] == ["~"]:
            patterns = [w.rstrip(">") for w in rest if not re.fullmatch(r"\d+|permanent|temp|gone|seeother|~", w)]
            for pattern in patterns[:1]:
                found += [("/" + quoted(sample(pattern, chance).lstrip("/")), "") for _ in range(3)]
        elif name == "redirect" and rest:
            path = [w for w in rest if w.startswith("/")][:1]
            found += [(quoted(p + end), "") for p in path for end in ("", "/more?a=b")]
        elif name == "<files" and rest:
            found.append(("/" + quoted(rest[0].rstrip(">").replace("*", "x").replace("?", "y")), ""))
    return found


def files_of(text):
    """Files that a site's own lines name."""
    names = set()
    for line in text.splitlines():
        parts = words(line.strip())
        if parts and parts[0].lower() in ("<files", "directoryindex", "errordocument", "fallbackresource", "rewriterule"):
            names |= {w.rstrip(">").lstrip("/") for w in parts[1:]}
    plain = re.compile(r"(?!.*\.\.)[\w-][\w./-]*\.(php|html?|txt|ini|log|json|xml|md|yml|sql)")
    return {name for name in names if plain.fullmatch(name)}


def lay_out(root, files, used):
    for number, source in enumerate(files):
        site = root / f"s{number}"
        text = source.read_bytes()
        for name, body in TREE.items():
            put(site / name, body)
        for name in set(SCRIPTS) | files_of(text.decode("latin-1")):
            put(site / name, SCRIPT if name.endswith(".php") else name)
        (site / ".htaccess").write_bytes(text)
        used.append(source)


def put(path, body):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body)
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        pass


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(command, at, **more):
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **more)
    for _ in range(600):
        assert process.poll() is None, f"{command[0]} ended"
        try:
            socket.create_connection(("127.0.0.1", at)).close()
            return process
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"{command[0]} does not listen")


def apache(work, count, at, fpm):
    lines = [f"ServerRoot {work}\nPidFile {work}/apache.pid\nErrorLog {work}/apache.log\nLogLevel warn\nServerName localhost\nListen 127.0.0.1:{at}",
             "User nobody\nGroup nogroup"] if os.geteuid() == 0 else [f"ServerRoot {work}\nPidFile {work}/apache.pid\nErrorLog {work}/apache.log\nServerName localhost\nListen 127.0.0.1:{at}"]
    lines += [f"LoadModule {m}_module /usr/lib/apache2/modules/mod_{m}.so" for m in MODULES]
    lines += [f"Mutex posixsem\nTypesConfig {work}/mime.types\nDirectoryIndex index.php index.html\nProxyFCGIBackendType FPM\n<Directory />\nRequire all denied\n</Directory>",
              f'<FilesMatch "^\\.ht">\nRequire all denied\n</FilesMatch>\n<FilesMatch "\\.php$">\nSetHandler "proxy:fcgi://127.0.0.1:{fpm}"\n</FilesMatch>',
              f"<Directory {work}/sites>\nOptions FollowSymLinks\nAllowOverride All\nCGIPassAuth On\nRequire all granted\n</Directory>"]
    lines += [f"<VirtualHost *:{at}>\nServerName s{n}.test\nDocumentRoot {work}/sites/s{n}\n</VirtualHost>" for n in range(count)]
    (work / "httpd.conf").write_text("\n".join(lines) + "\n")
    return ["/usr/sbin/apache2", "-f", f"{work}/httpd.conf", "-DFOREGROUND"]


def brisk(binary, work, count, at, fpm):
    types = TYPES.replace("\n", "; ") + ";"
    servers = "".join(f"""server {{ listen 127.0.0.1:{at}; server_name s{n}.test; root {work}/sites/s{n}; directory_overrides on; location / {{ }}
        location ~ \\.php(/|$) {{ fastcgi_split_path_info ^(.+?\\.php)(/.*)$; fastcgi_pass 127.0.0.1:{fpm};
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param PATH_INFO $fastcgi_path_info;
            fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param SCRIPT_NAME $fastcgi_script_name; fastcgi_param CONTENT_TYPE $content_type; fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param REMOTE_ADDR $remote_addr; fastcgi_param REMOTE_PORT $remote_port; fastcgi_param DOCUMENT_ROOT $document_root;
            fastcgi_param SERVER_ADDR $server_addr; fastcgi_param SERVER_PORT $server_port; fastcgi_param SERVER_NAME $server_name;
            fastcgi_param SERVER_PROTOCOL $server_protocol; fastcgi_param REQUEST_SCHEME $scheme; }} }}
        """ for n in range(count))
    (work / "brisk.conf").write_text(f"daemon off; worker_processes 1; pid {work}/brisk.pid; error_log {work}/brisk.log; events {{ worker_connections 512; }}"
                                     f" http {{ access_log off; types {{ {types} }} default_type ''; index index.php index.html; {servers} }}")
    return [binary, "-p", f"{work}/", "-c", f"{work}/brisk.conf"]


def fpm_of(work, at):
    who = "user = nobody\ngroup = nogroup\n" if os.geteuid() == 0 else ""
    (work / "fpm.conf").write_text(f"[global]\nerror_log = {work}/fpm.log\ndaemonize = no\n[www]\n{who}listen = 127.0.0.1:{at}\npm = static\npm.max_children = 4\n")
    binary = sorted(pathlib.Path("/usr/sbin").glob("php-fpm*"))[-1]
    return [str(binary), "-y", f"{work}/fpm.conf", "-n"]


def refused_by(log, site):
    """Directives for which a server has refused a site's file."""
    found = collections.Counter()
    for line in log.splitlines():
        if f"/{site}/.htaccess" not in line or "is never served" in line:
            continue
        if m := re.search(r"Invalid command '([^']*)'", line):
            found[m[1]] += 1
        elif m := re.search(r"\*\d+ (.*) in \S*\.htaccess:\d+|\.htaccess: (.*)", line):
            found[(m[1] or m[2])[:70]] += 1
    return found


def compare(at, files, logs, out):
    totals = collections.Counter()
    for number, source in enumerate(files):
        site, chance = f"s{number}", random.Random(source.name)
        own = requests_of(source.read_text("latin-1"), chance)
        asked = [(t, f) for t in TARGETS for f in FIELDS] + own[:160]
        counts, differences = collections.Counter(), []
        marks = [len(log.read_bytes()) if log.exists() else 0 for log in logs]
        for target, fields in asked:
            theirs, ours = (ask(p, f"{site}.test", target, fields) for p in at)
            counts["asked"] += 1
            if theirs.shown() == ours.shown():
                counts["same"] += 1
            else:
                differences.append((target, fields, theirs, ours))
        said = [log.read_bytes()[mark:].decode("latin-1") if log.exists() else "" for log, mark in zip(logs, marks)]
        refused = [refused_by(text, site) for text in said]
        scripts = set(re.findall(r"is PHP's by \.htaccess, but no location .*request: \"\S+ (\S+) HTTP/", said[1]))
        for target, fields, theirs, ours in differences:
            why = next((why for why, holds in EXPLAINED if holds(target, theirs, ours)), None)
            if not why and ours.status == 500 and target in scripts:
                why = "a file that PHP is meant for is not served as it is"
            if not why and theirs.status == 500 and refused[0]:
                why = "Apache has not: " + ", ".join(sorted(refused[0]))
            if not why and ours.status == 500 and refused[1]:
                why = "Brisk refuses: " + ", ".join(sorted(refused[1]))
            is_slash = "%2f" in target.lower()
            counts["open"] += ours.status == 200 and (theirs.status in (401, 403) or theirs.status == 404 and not is_slash)
            counts["explained" if why else "unexplained"] += 1
            out.write("\t".join([source.name, target, fields.replace("\r\n", " | "), why or "NOT EXPLAINED", repr(theirs.shown())[:300], repr(ours.shown())[:300]]) + "\n")
        totals += counts
        totals["sites"] += 1
        totals["sites refused by Brisk"] += bool(refused[1])
    return totals


def main():
    binary, folder = os.path.realpath(sys.argv[1]), pathlib.Path(sys.argv[2])
    found = sorted(p for p in folder.rglob("*") if p.is_file())
    work = pathlib.Path(tempfile.mkdtemp(prefix="brisk-htaccess-"))
    processes, used = [], []
    try:
        lay_out(work / "sites", found, used)
        (work / "mime.types").write_text(TYPES + "\n")
        subprocess.run(["chmod", "-R", "a+rX", str(work)], check=True)
        ports = [port() for _ in range(3)]
        processes.append(start(fpm_of(work, ports[2]), ports[2], stderr=subprocess.DEVNULL))
        processes.append(start(apache(work, len(used), ports[0], ports[2]), ports[0], stderr=subprocess.DEVNULL))
        processes.append(start(brisk(binary, work, len(used), ports[1], ports[2]), ports[1], stderr=subprocess.DEVNULL))
        with open(sys.argv[3] if len(sys.argv) > 3 else work / "out.tsv", "w") as out:
            totals = compare(ports[:2], used, [work / "apache.log", work / "brisk.log"], out)
    finally:
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
            process.wait()
        if not os.environ.get("KEEP"):
            shutil.rmtree(work, ignore_errors=True)
    print(" ".join(f"{name}={count}" for name, count in totals.items()))
    sys.exit(1 if totals["unexplained"] or totals["open"] else 0)


if __name__ == "__main__":
    main()
