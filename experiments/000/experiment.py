"""The bank application under 10 … 200 users: three web servers, 5 and 12 PHP processes, two application servers."""

import csv
import json
import re
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from lab import examples, load, php, servers
from lab.advice import Advice, judged
from lab.load import Setting, Target
from lab.page import Page, cpu_chart, measured, number, percent, sweep_charts
from lab.stage import Refused, installed, program

HERE = Path(__file__).parent
WEB = {"nginx": servers.nginx, "Brisk": servers.brisk}
# Debian's pool, with another number of processes at most.
POOL = """pm = dynamic
pm.max_children = {}
pm.start_servers = 2
pm.min_spare_servers = 1
pm.max_spare_servers = 3"""
APACHE = [*servers.APACHE_BASE, "mpm_event", "ssl", "socache_shmcb", "proxy"]
BALANCER = ["proxy_http", "proxy_balancer", "slotmem_shm", "lbmethod_byrequests"]

INTRO = """
The article loads a small banking application, with its login in a JSON Web Token, by 10 to 200 users: Apache, then nginx;
then the database on a machine of its own; then 12 PHP processes in place of 5; then a balancer before two servers.
Here everything shares one machine, so the step to a second machine for the database cannot be taken, and two
application servers have no more CPUs than one: what can be seen is what each tier costs. The article would like to see the
application in other languages: the same page, byte for byte, is made by Node and by Java as well.
"""
# As many as PHP has processes where it has most.
CONNECTIONS = 12
DRIVER = [
    ("mariadb-java-client", "Java's driver of MariaDB"),
    ("jna", "Java's way to Unix sockets"),
    ("jna-platform", "the same"),
]


class Bank:
    """The pages, the database, and the cookie of a customer who has logged in."""

    def __init__(self, app):
        self.app, self.cookie, self.page = app, None, None
        with open(app.folder / "people.csv", newline="") as people:
            self.person = next(csv.DictReader(people))

    def config(self):
        """What the application knows of its database, as other languages read it."""
        text = (self.app.site / "config.php").read_text()
        given = dict(re.findall(r"'(\w+)' => '([^']*)'", text))
        source = dict(part.split("=") for part in given["dsn"].removeprefix("mysql:").split(";"))
        return {
            "socket": source["unix_socket"],
            "database": source["dbname"],
            "connections": CONNECTIONS,
            **{key: given[key] for key in ("user", "password", "secret")},
        }

    def look_alike(self, port, what):
        """Refuses to measure another page than PHP's."""
        request = urllib.request.Request(f"https://127.0.0.1:{port}/account", headers={"Cookie": self.cookie})
        with urllib.request.urlopen(request, timeout=60, context=ssl._create_unverified_context()) as answer:
            body = answer.read()
        self.page = self.page or body
        if body != self.page:
            raise Refused(f"{what} makes another page than PHP:\n{body.decode()}\nbut PHP makes\n{self.page.decode()}")

    def target(self, port, tiers, prime=0):
        """The page of three queries. Any server takes the cookie that another one gave: nothing is kept on any of them."""
        base = f"https://127.0.0.1:{port}"
        if self.cookie is None:
            self.cookie = log_in(base, self.person)
        tiers["database"] = self.app.database
        return Target(f"{base}/account", tiers, ["-b", self.cookie], contains="Latest transfers", prime=prime)


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def log_in(base, person):
    tls = urllib.request.HTTPSHandler(context=ssl._create_unverified_context())
    form = urllib.parse.urlencode({"login": person["login"], "password": person["password"]}).encode()
    try:
        urllib.request.build_opener(tls, Stay).open(f"{base}/login", form, timeout=60)
    except urllib.error.HTTPError as answer:
        if answer.code == 303:
            return answer.headers["Set-Cookie"].partition(";")[0]
        raise Refused(f"{base}/login gave {answer.code}") from None
    raise Refused(f"{base}/login let nobody in")


def pool(stage, name, children):
    return php.fpm(stage, name, php.ini(stage, name), POOL.format(children))


def on_apache(bank, children):
    def up(stage):
        socket, fpm = pool(stage, "bank", children)
        port, process = servers.apache(
            stage,
            HERE / "apache.conf",
            [*APACHE, "proxy_fcgi"],
            SITE=bank.app.site / "public",
            SOCKET=socket,
            **servers.certificate(stage),
        )
        return bank.target(port, {"server": process.pid, "PHP": fpm.pid})

    return up


def serve(stage, bank, name, socket, tls="ssl", label=None):
    return WEB[name](
        stage,
        HERE / "bank.conf",
        label or name.lower(),
        SITE=bank.app.site / "public",
        SOCKET=socket,
        TLS=tls,
        **servers.certificate(stage),
    )


def on(bank, name, children):
    def up(stage):
        socket, fpm = pool(stage, "bank", children)
        port, process = serve(stage, bank, name, socket)
        return bank.target(port, {"server": process.pid, "PHP": fpm.pid})

    return up


def balanced(bank, name):
    """Two application servers of nginx and PHP-FPM, each with 12 processes."""

    def up(stage):
        tiers, ports = {}, []
        for which in (1, 2):
            socket, fpm = pool(stage, f"bank{which}", 12)
            port, process = serve(stage, bank, "nginx", socket, "", f"application{which}")
            tiers |= {f"PHP {which}": fpm.pid, f"application {which}": process.pid}
            ports.append(port)
        values = dict(APP1=ports[0], APP2=ports[1], **servers.certificate(stage))
        if name == "Apache":
            port, process = servers.apache(stage, HERE / "apache-balancer.conf", [*APACHE, *BALANCER], **values)
        else:
            port, process = WEB[name](stage, HERE / "balancer.conf", f"{name.lower()}-balancer", **values)
        return bank.target(port, {"server": process.pid, **tiers})

    return up


def node(stage, bank):
    config = private(stage, "bank.json", json.dumps({**bank.config(), "connections": CONNECTIONS // 2}))
    installed("/usr/share/nodejs/mysql/package.json", "Node's driver of MariaDB")
    port = stage.port()
    command = [program("node"), HERE / "bank.js", config, port]
    return port, stage.start("node", command, port, {"NODE_PATH": "/usr/share/nodejs", "NODE_ENV": "production"})


def java(stage, bank):
    config = private(stage, "bank.properties", "".join(f"{key}={value}\n" for key, value in bank.config().items()))
    jars = [installed(f"/usr/share/java/{name}.jar", what) for name, what in DRIVER]
    classes = stage.make("java")
    if not (classes / "Bank.class").exists():
        built = [program("javac"), "-encoding", "UTF-8", "-d", str(classes), str(HERE / "Bank.java")]
        subprocess.run(built, check=True, capture_output=True)
    port = stage.port()
    options = ["-Xmx256m", "-Dsun.net.httpserver.nodelay=true", f"-Djava.io.tmpdir={stage.make('java-tmp')}"]
    command = [program("java"), *options, "-cp", ":".join([str(classes), *jars]), "Bank", config, port]
    return port, stage.start("java", command, port)


def private(stage, name, text):
    """A file with a password of the database in it."""
    path = stage.write(name, "")
    path.chmod(0o600)
    path.write_text(text)
    return path


def in_language(bank, name, start, prime):
    """nginx before another language's server. Both compile while they run: they are asked before they are measured."""

    def up(stage):
        application, process = start(stage, bank)
        values = dict(APPLICATION=application, **servers.certificate(stage))
        port, web = servers.nginx(stage, HERE / "language.conf", f"nginx-{name.lower()}", **values)
        target = bank.target(port, {"server": web.pid, "application": process.pid}, prime)
        bank.look_alike(port, name)
        return target

    return up


def settings(bank):
    return [
        Setting("apache 5", "Apache, 5 PHP processes", on_apache(bank, 5), "falls beyond 75 users"),
        Setting("nginx 5", "nginx, 5 PHP processes", on(bank, "nginx", 5), "660"),
        Setting("brisk 5", "Brisk, 5 PHP processes", on(bank, "Brisk", 5)),
        Setting(
            "nginx 12", "nginx, 12 PHP processes", on(bank, "nginx", 12), "825, derived: 660 + 25 % (database elsewhere)"
        ),
        Setting("brisk 12", "Brisk, 12 PHP processes", on(bank, "Brisk", 12)),
        Setting(
            "node",
            "Node, 2 processes, behind nginx",
            in_language(bank, "Node", node, 2000),
            "“quite a bit better” (with MongoDB)",
        ),
        Setting("java", "Java, 12 threads, behind nginx", in_language(bank, "Java", java, 6000)),
        Setting("apache balancer", "Apache before two application servers", balanced(bank, "Apache")),
        Setting("nginx balancer", "nginx before two application servers", balanced(bank, "nginx"), "1500"),
        Setting("brisk balancer", "Brisk before two application servers", balanced(bank, "Brisk")),
    ]


ADVICE = [
    Advice("nginx in place of Apache", "–", "more, and no errors", "apache 5", "nginx 5"),
    Advice("more PHP processes (nginx)", "`pm.max_children = 12`", "+25 %, database elsewhere", "nginx 5", "nginx 12"),
    Advice("more PHP processes (Brisk)", "`pm.max_children = 12`", "–", "brisk 5", "brisk 12"),
    Advice("Node in place of PHP: CPU", "–", "“quite a bit better”, with MongoDB", "nginx 12", "node", "cpu of all"),
    Advice("Node in place of PHP: memory", "–", "–", "nginx 12", "node", "memory of all"),
    Advice("Java in place of PHP: CPU", "–", "“it would be interesting”", "nginx 12", "java", "cpu of all"),
    Advice("Java in place of PHP: memory", "–", "–", "nginx 12", "java", "memory of all"),
    Advice("two application servers", "`upstream hjapp { … }`", "+80 %, on two machines", "nginx 12", "nginx balancer"),
    Advice("Brisk in place of nginx", "the same file", "–", "nginx 5", "brisk 5"),
    Advice("Brisk in place of nginx", "the same file", "–", "nginx 5", "brisk 5", "cpu"),
    Advice("nginx in place of Apache as a balancer", "`proxy_pass`", "–", "apache balancer", "nginx balancer", "cpu"),
    Advice("Brisk in place of nginx as a balancer", "the same file", "–", "nginx balancer", "brisk balancer", "cpu"),
]


def sweep(stage, setting, users, seconds):
    with stage.scope():
        run = load.bench(stage, setting.up(stage), "--users", users, "-d", seconds)
    load.say(f"  sweep: {setting.label}")
    return run


def knee(run):
    """Where more users begin to cost throughput, or from where on they get no more, as far as the sweep can tell."""
    sweep = run.get("sweep") or {}
    users = (sweep.get("usl") or {}).get("knee_users")
    most = max(part["users"] for part in run["runs"])
    match sweep.get("shape"):
        case "knee":
            return f"{users:.0f}"
        case "saturated":
            return f"full from {sweep['saturated_from_users']} on"
        case "growing":
            return f"beyond {most}"
        case _:
            return "cannot be told"


def run(stage, about):
    quick = about.is_quick
    about.versions = servers.versions("nginx", "Apache", "PHP", "Node", "Java", "MariaDB")
    users = "10,50,200" if quick else "10,20,50,75,100,150,200"
    with examples.application("bank") as app:
        bank = Bank(app)
        rows = settings(bank)
        with stage.scope():
            first = next(row for row in rows if row.key == "nginx 12").up(stage)
            bank.look_alike(first.url.split(":")[2].split("/")[0], "PHP")
        sweeps = {row.label: sweep(stage, row, users, "1s" if quick else "3s") for row in rows}
        options = ["-c", "50", "-w", "500ms", "-d", "1s" if quick else "3s"]
        results = load.rounds(stage, rows, ADVICE, options, stage.until(0 if quick else 0.95), 2 if quick else 3)
    return written(results, sweeps, users)


def written(results, sweeps, users):
    page = Page("000", "a banking application under more and more users", INTRO)
    page.verdicts(judged(results, ADVICE), "At 50 users.")
    page.heading("50 users")
    page.text(
        "`brisk bench -c 50` over TLS: the page of the accounts, three queries. The article's figures are those of its "
        "graph's end, at 200 users. PHP makes a connection to the database for each page, as the article's application does; "
        "Node and Java keep theirs, and Java's heap may grow to 256 MB, as PHP's processes may."
    )
    tiers = ["server", "application", "PHP", "database"]
    page.table(*measured(results, tiers))
    cpu_chart(page, results, tiers)
    page.heading("Over the number of users")
    told = [("the article, one server (nginx)", [[200, 660]]), ("the article, two servers", [[200, 1500]])]
    sweep_charts(page, {label: swept["runs"] for label, swept in sweeps.items()}, told)
    page.text(
        "`brisk bench --users`: good responses per second, with the share of errors where there were any. Where a knee can "
        "be told, it is that of the scalability law fitted to them. Of its curves the article prints two figures."
    )
    table = []
    for label, swept in sweeps.items():
        cells = [number(load.FIGURES["rate"](part), 4) + errors(part) for part in swept["runs"]]
        table.append([label, *cells, knee(swept)])
    page.table(["users", *users.split(","), "knee"], table)
    page.text(ends(sweeps))
    return page


def errors(part):
    return f" ({percent(part['error_share'])} errors)" if part["error_share"] else ""


def ends(sweeps):
    """Who was full at the highest load, as `brisk bench` says, and what did not come back."""
    lines = ["At the end of each sweep:", ""]
    for label, swept in sweeps.items():
        last = swept["runs"][-1]
        kinds = {**last["statuses"], **last["errors"]}
        failed = [f"{count} × {kind}" for kind, count in kinds.items() if count and kind != "200"]
        full = (last.get("limit") or {}).get("full") or "nobody was full"
        lines.append(f"- {label}: {full}{'; failed: ' + ', '.join(failed) if failed else ''}")
    return "\n".join(lines)
