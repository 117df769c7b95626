"""One application on one server from a bad start: its files in several versions, its programs, and what `brisk tune` finds for it."""

import itertools
import json
import subprocess
import time
from pathlib import Path

from . import examples, php, servers, stage
from .load import Target

TEMPLATES = Path(__file__).resolve().parent.parent / "tune"
USERS = 20
GOAL = "max rate where p95<2s, errors<1%"
# Where each application's pages lie, which one is asked for, and what it must say. The bank's is a customer's, who has logged in.
APPS = {
    "bank": ("public", "/account", "Latest transfers"),
    "gallery": ("public", "/", "Gallery No. 12"),
    "wordpress": ("", "/", "A blog on Brisk"),
}
APACHE = [*servers.APACHE_BASE, "mpm_event", "proxy", "proxy_fcgi"]
# The articles' own: 12 processes, OPcache, connections that are kept.
CHILDREN_BY_HAND = 12
# Four settings with three values each, besides the start's number of processes.
CHILDREN = [12, 32]
OPCACHE = ["off", "on", "on with JIT"]
KEEPALIVE = [0, 5, 65]
BUFFER_POOL = ["8M", "64M", "256M"]


class Case:
    """`versions` holds the texts of its files by name: the start's, those by hand, and those that were found."""

    def __init__(self, here, app, server, children, name=None):
        self.stage, self.app, self.server, self.children = here, app, server, children
        self.name = name or f"{app.name}-{server}-{children}"
        self.data = here.make(self.name)
        self.port = here.port()
        self.socket = self.data / "php.sock"
        folder, self.path, self.contains = APPS[app.name]
        self.cookie = None
        self.site = app.site / folder
        self.inis = {kind: self.ini(kind) for kind in OPCACHE}
        self.versions = {
            "start": self.version(children, "off", 0, "8M"),
            "hand": self.version(CHILDREN_BY_HAND, "on", 65, "8M"),
        }

    def conf(self):
        return self.data / "server.conf"

    def mysql(self):
        return self.data / "my.cnf"

    def version(self, children, opcache, keepalive, buffer_pool):
        """The texts of all files with these values."""
        return {
            self.conf(): self.config(children, keepalive),
            self.data / "pool.conf": self.pool(php.STATIC.format(children)),
            self.data / "php.ini": self.inis[opcache],
            self.mysql(): self.options(buffer_pool),
        }

    def sweep(self):
        """The names of all 81 versions, those with the same database behind each other."""
        names = []
        for values in itertools.product(BUFFER_POOL, OPCACHE, KEEPALIVE, [self.children, *CHILDREN]):
            buffer_pool, opcache, keepalive, children = values
            name = f"{children} processes, OPcache {opcache}, keep-alive {keepalive} s, buffer pool {buffer_pool}"
            self.versions[name] = self.version(children, opcache, keepalive, buffer_pool)
            names.append(name)
        return names

    def config(self, children, keepalive, cache=""):
        values = {"PORT": self.port, "DATA": self.data, "SITE": self.site, "SOCKET": self.socket}
        name = f"{self.name}/server.conf"
        if self.server == "apache":
            folder = stage.installed("/usr/lib/apache2/modules", "Apache's modules")
            lines = [f"LoadModule {servers.symbol(one)} {servers.file_of(folder, one)}" for one in APACHE]
            values |= {"MODULES": "\n".join(lines), "MIME": servers.mime_types(self.stage)}
            values["KEEPALIVE"] = f"KeepAlive On\nKeepAliveTimeout {keepalive}" if keepalive else "KeepAlive Off"
            return self.stage.fill(TEMPLATES / "apache.conf", name, **values).read_text()
        pool = f"    php_pool app {{\n        user nobody;\n        php_ini {self.data}/php.ini;\n        pm static;\n"
        pool += f"        pm.max_children {children};\n    }}\n"
        is_own = self.server == "brisk"
        values |= {
            "COMMON": servers.common(self.stage, self.data),
            "PARAMS": servers.params(self.stage),
            "POOL": (pool if is_own else "") + cache,
            "PASS": "php_pass app" if is_own else f"fastcgi_pass unix:{self.socket}",
            "KEEPALIVE": keepalive,
        }
        return self.stage.fill(TEMPLATES / "nginx.conf", name, **values).read_text()

    def pool(self, pm):
        """The pool's file; `pm`: how it has processes."""
        head = f"[app]\nuser = nobody\ngroup = nogroup\nlisten = {self.socket}\nlisten.mode = 0666\nlisten.backlog = 511\n"
        return f"{head}{pm}\n"

    def ini(self, kind, more=""):
        """The text of a php.ini with OPcache so, and these lines."""
        if kind != "off":
            return (php.ini(self.stage, self.name, jit=kind == "on with JIT", more=more) / "php.ini").read_text()
        extension = stage.installed("/usr/lib/php/20*/opcache.so", "PHP's OPcache")
        more += f"zend_extension={extension}\nopcache.enable = 0\n"
        return (php.ini(self.stage, self.name, opcache=False, more=more) / "php.ini").read_text()

    def options(self, buffer_pool):
        """MariaDB's option file; its data are the application's own."""
        folder = self.app.folder
        share = stage.installed("/usr/share/mysql", "MariaDB's messages")
        return (
            f"[mariadbd]\ndatadir = {folder}/data\nsocket = {folder}/mysql.sock\npid-file = {folder}/mysql.pid\ntmpdir = {folder}/tmp\n"
            f"lc-messages-dir = {share}\ncharacter-sets-dir = {share}/charsets\nskip-networking\nskip-log-bin\n"
            f"innodb_buffer_pool_size = {buffer_pool}\n"
        )

    def write(self, version):
        for path, text in self.versions[version].items():
            path.write_text(text)

    def database(self):
        """Starts MariaDB with the option file as it is."""
        socket = self.app.folder / "mysql.sock"
        socket.unlink(missing_ok=True)
        return self.stage.start("database", [stage.program("mariadbd"), f"--defaults-file={self.mysql()}"], socket).pid

    def up(self, version, database=None):
        """What starts its programs with these files; `database`: the PID of one that runs."""

        def start(here):
            self.write(version)
            tiers = {"database": database or self.database()}
            if self.server != "brisk":
                self.socket.unlink(missing_ok=True)
                main = self.data / "fpm.conf"
                main.write_text(f"[global]\nerror_log = {self.data}/fpm.log\ninclude = {self.data}/pool.conf\n")
                program = stage.installed(f"/usr/sbin/php-fpm{stage.php_version()}", "PHP-FPM")
                words = [program, "-n", "-c", self.data / "php.ini", "-y", main, "-F"]
                tiers["PHP"] = here.start("fpm", words, self.socket).pid
            if self.server == "apache":
                words = [stage.program("apache2"), "-d", self.data, "-f", self.conf(), "-D", "FOREGROUND"]
            else:
                first = here.brisk if self.server == "brisk" else stage.program("nginx")
                words = [first, "-p", f"{self.data}/", "-c", self.conf(), "-g", "daemon off;"]
            tiers["server"] = here.start(self.server, words, self.port).pid
            if self.app.name == "bank" and self.cookie is None:
                self.cookie = examples.log_in(self.app, self.base())
            options = ["-b", self.cookie] if self.cookie else []
            return Target(self.base() + self.path, tiers, options, contains=self.contains, prime=20)

        return start

    def base(self):
        return f"http://127.0.0.1:{self.port}"

    def scenario(self):
        """Users who ask for the page as the measurements do."""
        if self.app.name == "bank":
            # The cookie is good for any of its servers.
            with self.stage.scope():
                self.up("hand")(self.stage)
        return self.visitors(f'headers = {{ Cookie = "{self.cookie}" }}\n' if self.cookie else "")

    def visitors(self, headers):
        """Their scenario, with this line about headers."""
        text = f'target = "{self.base()}"\nusers = {USERS}\n\n[[user]]\nname = "visitor"\n\n[[user.step]]\nname = "page"\n'
        text += f'request = "GET {self.path}"\n{headers}check = {{ status = 200, contains = "{self.contains}" }}\n'
        return self.stage.write(f"{self.name}/visitors.toml", text)

    def files(self):
        """The options that name its files."""
        words = ["--mysql", self.mysql(), "--php-ini", self.data / "php.ini"]
        if self.server == "apache":
            words += ["--apache", self.conf()]
        else:
            words += ["--site", self.conf(), "--program", "brisk" if self.server == "brisk" else "nginx"]
        if self.server != "brisk":
            words += ["--fpm", self.data / "pool.conf"]
        return words

    def before_tuning(self):
        """Starts what the tuner looks at, besides its own copy."""
        self.database()

    def tune(self, brisk, minutes):
        """What the tuner finds from the start, as its JSON; its patches become the version "tuner"."""
        scenario = self.scenario()
        self.write("start")
        words = [brisk, "tune", "--scenario", scenario, "-q", "--json", "--budget", f"{minutes * 60:.0f}s", "--goal", GOAL]
        began = time.monotonic()
        with self.stage.scope():
            self.before_tuning()
            words += self.files()
            done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
        if done.returncode not in (0, 2, 3):
            raise stage.Refused(f"{' '.join(map(str, words))} failed:\n{done.stderr}")
        found = json.loads(done.stdout)
        found["minutes"] = (time.monotonic() - began) / 60
        tuned = dict(self.versions["start"])
        for patch in found["patches"]:
            path = Path(patch["file"])
            path.write_text(tuned[path])
            words = ["patch", "-s", "-o", "-", str(path)]
            tuned[path] = subprocess.run(words, input=patch["patch"], capture_output=True, text=True, check=True).stdout
        # The stage's programs are no root's, and may not write to /var/cache.
        tuned[self.conf()] = tuned[self.conf()].replace("/var/cache/", f"{self.data}/")
        self.versions["tuner"] = tuned
        return found
