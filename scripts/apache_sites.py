#!/usr/bin/env python3
"""Compares Brisk with Apache on public site files: apache_sites.py BINARY FOLDER OUT.tsv [NAME ...]

FOLDER has files with <VirtualHost> blocks, or what distributions put into conf-available; none of them is ours, so none is in the
repository. Each is served by Debian's whole /etc/apache2 with that file in it, unmodified, in a copy of the machine's files (an overlay)
and a network of their own: first by Apache, then by `brisk httpd`. Folders, certificates, passwords, back ends and PHP are made where
the file names them. Both are asked the same, by every host of the file: targets that every site is asked for, and what its own patterns
match. They must answer the same: status, Location, fields, body.

A line that one of the servers refuses by name before it starts is taken out for both, and told. Ends with 1 if a difference is not
explained by EXPLAINED, or if something can be read that Apache refuses. As root; needs apache2, php-fpm and openssl.
"""

import collections, os, pathlib, random, re, shutil, signal, socket, ssl, subprocess, sys, tempfile, threading, time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True
from htaccess import Answer, EXPLAINED, SCRIPT, SCRIPTS, TREE, quoted, requests_of, sample, words

MODULES = """access_compat alias allowmethods auth_basic auth_digest authn_core authn_file authz_core authz_groupfile authz_host authz_user
    autoindex deflate dir env expires filter headers include macro mime negotiation proxy proxy_balancer proxy_fcgi proxy_http
    lbmethod_byrequests slotmem_shm remoteip reqtimeout rewrite setenvif socache_shmcb speling ssl unique_id userdir vhost_alias""".split()

TARGETS = """/ /?a=b /index.php /index.html /readme.txt /none /none/at/all.txt /.env /.git/config /.htaccess /.htpasswd /composer.json
    /config.ini /error.log /page.html.bak /folder /folder/ /folder/deep/ /folder/deep/file.txt /empty/ /a.json /index.php/path/info
    /uploads/evil.php /vendor/lib.txt /css/main.css /images/a.png /caf%C3%A9 //readme.txt /README.TXT /index.html/x /folder/..%2f.env /%2eenv
    /~ann /~ann/ /~ann/readme.txt /~ann/none /~root/ /~nobody/x /server-status /icons/ /cgi-bin/test /wp-admin/ /robots.txt /favicon.ico /..%2f..%2fetc/passwd""".split()

FIELDS = ["", "User-Agent: Mozilla/5.0 (compatible; badbot)\r\nX-Forwarded-Proto: https\r\nX-Forwarded-For: 192.0.2.7\r\nAuthorization: Basic YW5uOnJpZ2h0\r\n"]


def is_same_but_login(theirs, ours):
    """Whether scripts answer the same but for a client's Authorization, which Apache keeps from them unless CGIPassAuth is on."""
    def without(answer):
        status, fields, body = answer.shown()
        return status, fields, re.sub(r"(?m)^(REDIRECT_)?HTTP_AUTHORIZATION=.*\n?", "", body).strip()

    return theirs.status == 200 and "HTTP_AUTHORIZATION=" in ours.text and without(theirs) == without(ours)


# Differences that are meant, beside those of .htaccess files; by what must be so of target, Apache's answer and Brisk's.
OWN = [
    ("a path above the root is refused otherwise", lambda t, a, b: "..%2f" in t and b.status == 400 and (a.status in (403, 404) or a.is_to("/404"))),
    ("a script that nobody runs is refused before its path is looked at", lambda t, a, b: ".php/" in t and a.status == 404 and b.status == 500),
    ("/server-status and its kin are not there", lambda t, a, b: re.match(r"/(server-(status|info)|balancer-manager)", t) and a.status == 200 and b.status in (403, 404)),
    ("applications get Authorization unless CGIPassAuth is off", lambda t, a, b: is_same_but_login(a, b)),
    ("the source of a script is not served, and the page of that error is elsewhere", lambda t, a, b: "<?php" in a.text and b.status == 302 and b.is_to("/500")),
    ("the same of its path", lambda t, a, b: ".php/" in t and a.status == b.status == 302 and a.is_to("/404") and b.is_to("/500")),
    ("CGI programs are not run", lambda t, a, b: "cgi" in t and b.status >= 400),
]


class Machine:
    """A copy of the machine's files, in which servers run."""

    def __init__(self, binary):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="brisk-sites-"))
        run("mount", "-t", "tmpfs", "tmpfs", self.dir)
        for name in ("upper", "work", "root"):
            (self.dir / name).mkdir()
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={self.dir}/upper,workdir={self.dir}/work", self.dir / "root")
        self.root = self.dir / "root"
        run("mount", "--rbind", "/dev", self.root / "dev")
        run("mount", "-t", "proc", "proc", self.root / "proc")
        shutil.copy2(binary, self.root / "usr/local/bin/brisk")
        enabled = self.root / "etc/apache2/mods-enabled"
        for old in enabled.iterdir():
            old.unlink()
        for name in [*MODULES, "mpm_event"]:
            for ending in ("load", "conf"):
                if (self.root / f"etc/apache2/mods-available/{name}.{ending}").exists():
                    (enabled / f"{name}.{ending}").symlink_to(f"../mods-available/{name}.{ending}")
        self.put("/etc/apache2/conf-enabled/zz-test.conf", "ServerName localhost\n")
        with self.at("/etc/passwd").open("a") as accounts:
            accounts.write("ann:x:4321:4321::/home/ann:/bin/sh\n")
        self.put("/home/ann/public_html/readme.txt", "ann's")
        self.at("/home").chmod(0o755)
        self.processes = []

    def at(self, path):
        return self.root / str(path).lstrip("/")

    def put(self, path, text):
        place = self.at(path)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                place.write_text(text)
        except OSError:
            pass

    def chroot(self, *command, **more):
        return subprocess.run(["chroot", self.root, "sh", "-c", ". /etc/apache2/envvars; exec \"$@\"", "sh", *command],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", **more)

    def start(self, port, *command):
        process = subprocess.Popen(["chroot", self.root, "sh", "-c", ". /etc/apache2/envvars; exec \"$@\"", "sh", *command],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(self.at("/tmp/said"), "w"))
        self.processes.append(process)
        for _ in range(400):
            if process.poll() is not None:
                raise RuntimeError(f"{command[0]} ended: {self.at('/tmp/said').read_text()[-600:]}")
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return process
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"{command[0]} does not listen")

    def stop(self, process):
        process.send_signal(signal.SIGTERM)
        process.wait()
        self.processes.remove(process)

    def close(self):
        for process in list(self.processes):
            self.stop(process)
        run("umount", "-l", self.root / "dev", self.root / "proc", self.root)
        run("umount", "-l", self.dir)
        self.dir.rmdir()


def run(*command):
    subprocess.run([str(word) for word in command], check=True, stdin=subprocess.DEVNULL)


def lines_of(text):
    """Logical lines as words: name and arguments, sections by their name with the bracket."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        parts = words(line.strip())
        if parts and not parts[0].startswith("#"):
            parts[-1] = parts[-1].rstrip(">")
            yield parts[0].lower(), parts[1:]


def ports_of(text):
    """Each port of the file, and whether it has TLS."""
    ports = {}
    for block in re.split(r"(?i)<VirtualHost\b", text)[1:]:
        addresses = block.split(">", 1)[0]
        for port in re.findall(r":(\d+)(?=[\s\"']|$)", addresses) or ["80"]:
            engine = re.search(r"(?im)^\s*SSLEngine\s+(\w+)", block)
            has_certificate = re.search(r"(?im)^\s*SSLCertificateFile\b", block)
            ports.setdefault(int(port), engine[1].lower() == "on" if engine else bool(port == "443" and has_certificate))
    return ports or {80: False}


def hosts_of(text):
    names = []
    for name, rest in lines_of(text):
        if name == "servername" or name == "serveralias":
            names += [re.sub(r"^\w+://|:\d+$", "", word).replace("*", "www").replace("?", "x") for word in rest]
    # What a macro or the environment puts there is not known.
    names = [name.strip("/") for name in names if re.fullmatch(r"[\w.-]+", name.strip("/"))]
    return list(dict.fromkeys(names))[:2] + ["unknown.example"]


def lay_out(machine, text):
    """Makes what a file names; gives PHP's sockets, the other back ends, and the names of machines."""
    folders, sockets, back_ends, machines = {"/var/www/html"}, set(), set(), set()
    for name, rest in lines_of(text):
        paths = [word for word in rest if word.startswith("/")]
        if name in ("documentroot", "virtualdocumentroot") and paths:
            folders.add(paths[0].split("%")[0])
        elif name == "alias" and len(paths) > 1:
            folders.add(paths[1])
        elif name == "<directory" and paths and not re.search(r"[*?~^\[]", paths[0]):
            folders.add(paths[0])
        elif name in ("sslcertificatefile", "sslcertificatekeyfile", "sslcertificatechainfile", "sslcacertificatefile") and paths:
            machine.put(paths[0], CERTIFICATE)
        elif name == "authuserfile" and paths:
            machine.put(paths[0], "ann:{SHA}" + "8AJEBXNoA9tlLIxE4iNTi4P4/dY=\n")
        elif name in ("errorlog", "customlog", "transferlog") and paths:
            machine.at(os.path.dirname(paths[0])).mkdir(parents=True, exist_ok=True)
        elif name in ("include", "includeoptional") and paths and "*" not in paths[0]:
            machine.put(paths[0], "")
        for word in rest:
            if m := re.search(r"unix:([^|]+)\|", word):
                sockets.add(m[1])
            elif m := re.match(r"(?:proxy:)?fcgi://([\w.-]+):(\d+)", word):
                sockets.add(f"127.0.0.1:{m[2]}")
                machines.add(m[1])
            elif m := re.match(r"(?:https?|wss?|ajp)://\[?([\w.:-]*?)\]?(?::(\d+))?(?=[/$]|$)", word):
                back_ends.add((m[1], int(m[2] or 80)))
                machines.add(m[1])
    for folder in folders - {"/", "/var", "/usr", "/etc", "/home", "/srv", "/opt", "/tmp", "/usr/share"}:
        for path, body in TREE.items():
            machine.put(f"{folder}/{path}", body)
        for path in SCRIPTS:
            machine.put(f"{folder}/{path}", SCRIPT)
        subprocess.run(["chmod", "-R", "a+rX", str(machine.at(folder))], stderr=subprocess.DEVNULL)
        for parent in pathlib.PurePosixPath(folder).parents:
            machine.at(parent).chmod(machine.at(parent).stat().st_mode | 0o555)
    return sockets, back_ends, machines


def php(machine, sockets):
    pools = [f"[p{number}]\nuser = www-data\ngroup = www-data\nlisten = {where}\nlisten.mode = 0666\npm = static\npm.max_children = 2\n"
             for number, where in enumerate(sorted(sockets | {"/run/php/php8.2-fpm.sock", "127.0.0.1:9999"}))]
    for where in sockets:
        if where.startswith("/"):
            machine.at(os.path.dirname(where)).mkdir(parents=True, exist_ok=True)
    machine.at("/run/php").mkdir(parents=True, exist_ok=True)
    machine.at("/tmp/fpm.conf").write_text("[global]\nerror_log = /tmp/fpm.log\ndaemonize = no\n" + "".join(pools))
    binary = sorted(pathlib.Path("/usr/sbin").glob("php-fpm*"))[-1]
    machine.start(9999, str(binary), "-y", "/tmp/fpm.conf", "-n")


def back_end(port, over):
    """Answers with what it was asked."""
    def serve(client):
        with client:
            client.settimeout(20)
            head = b""
            while b"\r\n\r\n" not in head:
                piece = client.recv(65536)
                if not piece:
                    return
                head += piece
            lines = head.decode("latin-1").split("\r\n")
            kept = [line for line in lines[1:] if re.match(r"(?i)(x-forwarded-proto|x-[a-z]*user|authorization|x-script-name):", line)]
            body = "\n".join([lines[0], *sorted(kept)]).encode()
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    with socket.create_server(("127.0.0.1", port)) as listener:
        listener.settimeout(0.2)
        while not over.is_set():
            try:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
            except OSError:
                pass


def take_out(path, number):
    """Makes a comment of the logical line, or of the whole section."""
    lines, at = path.read_text(errors="replace").split("\n"), number - 1
    # Apache names the last line of one that goes on.
    while at and lines[at - 1].endswith("\\"):
        at -= 1
    taken = lines[at].strip()
    name = re.match(r"\s*<([A-Za-z]+)", lines[at])
    depth = 0
    while at < len(lines):
        if name:
            depth += bool(re.match(rf"\s*<{name[1]}\b", lines[at], re.I)) - bool(re.match(rf"\s*</{name[1]}>", lines[at], re.I))
        is_continued = lines[at].endswith("\\")
        lines[at] = "#taken out: " + lines[at].rstrip("\\")
        at += 1
        if not is_continued and depth <= 0:
            break
    path.unlink()
    path.write_text("\n".join(lines))
    return taken


def refused(machine, command, pattern):
    """Takes out what a server refuses by name; gives the lines, or raises."""
    found = []
    for _ in range(40):
        tried = machine.chroot(*command, "-t")
        said = tried.stdout + tried.stderr
        if tried.returncode == 0:
            return found
        m = re.search(pattern, said)
        if not m:
            raise RuntimeError(said[-500:])
        taken = take_out(machine.at(m["path"]), int(m["line"]))
        if taken.startswith("#taken out"):
            raise RuntimeError(said[-500:])
        found.append(taken)
    raise RuntimeError("refuses too much: " + said[-300:])


def ask(port, is_tls, host, target, fields):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        s = plain
        if is_tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            s = context.wrap_socket(plain, server_hostname=host)
        s.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}\r\n".encode("latin-1"))
        raw = b""
        try:
            while piece := s.recv(65536):
                raw += piece
        except (ssl.SSLError, ConnectionError):
            pass
    return Answer(raw) if raw else None


def requests(text, ports, chance):
    own = [target for target, _ in requests_of(text, chance)]
    for name, rest in lines_of(text):
        paths = [word for word in rest if word.startswith(("/", "^"))]
        if name in ("alias", "proxypass", "<location", "scriptalias", "redirect", "redirectpermanent", "redirecttemp") and paths:
            own += [quoted(paths[0]) + end for end in ("", "/", "/index.html", "/readme.txt", "/x/y?z=1", "x")]
        elif name in ("aliasmatch", "proxypassmatch", "<locationmatch") and paths:
            own += ["/" + quoted(sample(paths[0].replace("\\", "\\"), chance).lstrip("/")) for _ in range(3)]
    own = [target for target in dict.fromkeys(own) if target.startswith("/")][:60]
    for port, is_tls in sorted(ports.items()):
        for host in hosts_of(text):
            for target in TARGETS + own:
                for fields in FIELDS:
                    yield port, is_tls, host, target, fields


def answers(asked):
    out = []
    for one in asked:
        try:
            out.append(ask(*one))
        except (OSError, ValueError, IndexError):
            out.append(None)
    return out


def compare(binary, source, out):
    counts, text = collections.Counter(), source.read_text(errors="replace")
    machine, over = Machine(binary), threading.Event()
    try:
        ports = ports_of(text)
        is_site = re.search(r"(?i)<VirtualHost", text)
        place = "/etc/apache2/" + ("sites-enabled" if is_site else "conf-enabled") + "/site.conf"
        if is_site:
            machine.at("/etc/apache2/sites-enabled/000-default.conf").unlink()
        machine.at(place).write_text(text)
        listening = [port for port in ports if port not in (80, 443) and not re.search(rf"(?im)^\s*Listen\s+(\S*:)?{port}\b", text)]
        machine.put("/etc/apache2/conf-enabled/zz-ports.conf", "".join(f"Listen {port}\n" for port in listening))
        sockets, back_ends, machines = lay_out(machine, text)
        hosts = machines | set(hosts_of(text)) | {"localhost"}
        machine.at("/etc/hosts").write_text("127.0.0.1 " + " ".join(sorted(host for host in hosts if re.fullmatch(r"[\w.-]+", host))) + "\n")
        machine.at("/etc/nsswitch.conf").write_text("hosts: files\npasswd: files\ngroup: files\n")
        php(machine, sockets)
        apache, brisk = ["apache2"], ["brisk", "httpd", "-f", "/etc/apache2/apache2.conf"]
        by_apache = refused(machine, apache, r"on line (?P<line>\d+) of (?P<path>/[^:\s]+):")
        by_brisk = refused(machine, brisk, r"\[emerg\] .* in (?P<path>/\S+?):(?P<line>\d+)")
        for port in {port for _, port in back_ends} - set(ports):
            threading.Thread(target=back_end, args=(port, over), daemon=True).start()
        asked = list(requests(text, ports, random.Random(source.name)))
        first = min(ports)
        server = machine.start(first, *apache, "-DFOREGROUND")
        theirs = answers(asked)
        machine.stop(server)
        server = machine.start(first, *brisk, "-DFOREGROUND")
        ours = answers(asked)
        machine.stop(server)
        for one, a, b in zip(asked, theirs, ours):
            counts["asked"] += 1
            if a and b and a.shown() == b.shown() or not a and not b:
                counts["same"] += 1
                continue
            why = None
            if a and b:
                why = next((why for why, holds in EXPLAINED + OWN if holds(one[3], a, b)), None)
                counts["open"] += b.status == 200 and a.status in (401, 403)
            counts["explained" if why else "unexplained"] += 1
            shown = [repr(answer and answer.shown())[:300] for answer in (a, b)]
            out.write("\t".join([source.name, f"{one[2]}:{one[0]}", one[3], one[4].replace("\r\n", " | ")[:40], why or "NOT EXPLAINED", *shown]) + "\n")
        counts["sites"] += 1
        for who, lines in (("Apache", by_apache), ("Brisk", by_brisk)):
            counts[f"lines that {who} refuses"] += len(lines)
            for line in lines:
                out.write(f"{source.name}\t\t\t\t{who} refuses by name: {line}\n")
    except RuntimeError as error:
        counts["sites that do not start"] += 1
        out.write(f"{source.name}\t\t\t\tDOES NOT START: {error}\n".replace("\n", " ").strip() + "\n")
    finally:
        over.set()
        machine.close()
    return counts


def main():
    global CERTIFICATE
    if "BRISK_APACHE_SITES" not in os.environ:
        os.environ["BRISK_APACHE_SITES"] = "1"
        os.execvp("unshare", ["unshare", "-mnp", "--fork", "--kill-child", "--mount-proc", sys.executable, *sys.argv])
    run("ip", "link", "set", "lo", "up")
    binary, folder = os.path.realpath(sys.argv[1]), pathlib.Path(sys.argv[2])
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "-", "-days", "30", "-subj", "/CN=a"],
                          capture_output=True, text=True, check=True)
    CERTIFICATE = made.stdout
    found = sorted(p for p in folder.rglob("*") if p.is_file() and (len(sys.argv) < 5 or p.name in sys.argv[4:]))
    totals = collections.Counter()
    with open(sys.argv[3], "w") as out:
        for source in found:
            counts = compare(binary, source, out)
            totals += counts
            print(source.name, dict(counts), flush=True)
    print(" ".join(f"{name}={count}" for name, count in totals.items()))
    sys.exit(1 if totals["unexplained"] or totals["open"] else 0)


if __name__ == "__main__":
    main()
