"""The bank application under 10 … 200 users: three web servers, 5 and 12 PHP processes, two application servers."""

import json
import re
import shutil
import ssl
import subprocess
import urllib.request
from pathlib import Path

from lab import databases, examples, load, machines, php, servers
from lab.advice import Advice, judged
from lab.load import Setting, Target, beside
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
Here everything shares one machine, so two application servers have no more CPUs than one: what can be seen is what each tier
costs. For the step to a second machine, and to replicas of the database after it, there are machines of {share:.0%} of a CPU each in
network namespaces of their own. The article would like to see the
application in other languages: the same page, byte for byte, is made by Node and by Java as well.
"""
# CPUs that a machine has where several stand beside each other, so that the load generator keeps most of its own.
SHARE = 0.3
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
        # What databases on machines of their own begin with.
        self.files = None

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
        return self.target_at("127.0.0.1", port, {**tiers, "database": self.app.database}, prime)

    def target_at(self, address, port, tiers, prime=0):
        base = f"https://{address}:{port}"
        if self.cookie is None:
            self.cookie = examples.log_in(self.app, base)
        return Target(f"{base}/account", tiers, ["-b", self.cookie], contains="Latest transfers", prime=prime)


    def site_with(self, stage, name, source):
        """The pages, with their database elsewhere."""
        site = stage.folder / f"site-{name}"
        if not site.exists():
            shutil.copytree(self.app.site, site)
            config = site / "config.php"
            text = re.sub(r"'mysql:[^']*'", f"'mysql:{source};dbname=bank;charset=utf8mb4'", config.read_text())
            config.write_text(text)
            for path in [site, *site.rglob("*")]:
                stage.give(path)
        return site


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


def serve(stage, bank, name, socket, tls="ssl", label=None, site=None):
    return WEB[name](
        stage,
        HERE / "bank.conf",
        label or name.lower(),
        SITE=(site or bank.app.site) / "public",
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


def elsewhere(bank, hosts, children, count):
    """nginx and PHP on the first machine; on it too, on the second, or as a primary with replicas on all others, the databases."""

    def up(stage):
        config, tiers = bank.config(), {}
        config = {key: config[key] for key in ("user", "password", "database")}
        places = hosts[1 : 1 + count] if count else hosts[:1]
        servers_ = []
        for number, host in enumerate(places, 1):
            with stage.on(host):
                servers_.append(databases.Database(stage, bank.files, config, number))
            tiers["database" if count < 2 else f"database {number}"] = servers_[-1].process.pid
        for replica in servers_[1:]:
            replica.copies(servers_[0])
        with stage.on(hosts[0]):
            source = f"host={servers_[0].address};port={databases.PORT}"
            if count > 1:
                password = private(stage, "probe.pw", "probe\n")
                stage.give(password)
                lines = [f"server {server.address}:{databases.PORT};" for server in servers_]
                lines[0] = lines[0].replace(";", " role=primary;")
                port, process = servers.brisk(
                    stage, HERE / "split.conf", "split", SERVERS=" ".join(lines), PASSWORD=password
                )
                tiers["splitter"] = process.pid
                source = f"host={stage.address};port={port}"
            socket, fpm = pool(stage, "bank", children)
            site = bank.site_with(stage, f"{children}-{count}-{source.rpartition('=')[2]}", source)
            port, process = serve(stage, bank, "nginx", socket, site=site)
        return bank.target_at(hosts[0].address, port, {"server": process.pid, "PHP": fpm.pid, **tiers})

    return up


def settings_elsewhere(bank, hosts):
    return [
        Setting("one machine", "all on one machine, 5 PHP processes", elsewhere(bank, hosts, 5, 0), "660"),
        Setting("elsewhere 5", "the database on a second machine, 5 PHP processes", elsewhere(bank, hosts, 5, 1)),
        Setting("elsewhere 12", "the same, 12 PHP processes", elsewhere(bank, hosts, 12, 1), "825, derived: 660 + 25 %"),
        Setting("replicas", "a primary, two replicas and Brisk's `mysql_split`", elsewhere(bank, hosts, 12, 3)),
    ]


ADVICE_ELSEWHERE = [
    Advice("the database on a machine of its own", "`dsn`", "–", "one machine", "elsewhere 5"),
    Advice("more PHP processes, the database elsewhere", "`pm.max_children = 12`", "+25 %", "elsewhere 5", "elsewhere 12"),
    Advice("two replicas that are read from", "`mysql_split on;`", "“replication or clustering”", "elsewhere 12", "replicas"),
]


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
        beside("apache 5", "Apache, 5 PHP processes", on_apache(bank, 5), "falls beyond 75 users"),
        beside("nginx 5", "nginx, 5 PHP processes", on(bank, "nginx", 5), "660"),
        beside("brisk 5", "Brisk, 5 PHP processes", on(bank, "Brisk", 5)),
        beside(
            "nginx 12", "nginx, 12 PHP processes", on(bank, "nginx", 12), "825, derived: 660 + 25 % (database elsewhere)"
        ),
        beside("brisk 12", "Brisk, 12 PHP processes", on(bank, "Brisk", 12)),
        beside(
            "node",
            "Node, 2 processes, behind nginx",
            in_language(bank, "Node", node, 2000),
            "“quite a bit better” (with MongoDB)",
        ),
        beside("java", "Java, 12 threads, behind nginx", in_language(bank, "Java", java, 6000)),
        beside("apache balancer", "Apache before two application servers", balanced(bank, "Apache")),
        beside("nginx balancer", "nginx before two application servers", balanced(bank, "nginx"), "1500"),
        beside("brisk balancer", "Brisk before two application servers", balanced(bank, "Brisk")),
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
        results = load.rounds(stage, rows, ADVICE, options, stage.until(0 if quick else 0.7), 2 if quick else 3)
        apart = on_machines(stage, bank, options, quick)
    return written(results, sweeps, users, apart)


def on_machines(stage, bank, options, quick):
    """The article's step to a second machine, and that to replicas. Where there can be no machines, why not."""
    reason = machines.why_not()
    if reason:
        return reason
    bank.files = stage.folder / "bank-data"
    bank.app.copy_of_data(bank.files)
    with machines.machines(application=SHARE, primary=SHARE, replica1=SHARE, replica2=SHARE) as hosts:
        rows = settings_elsewhere(bank, hosts)
        return load.rounds(stage, rows, ADVICE_ELSEWHERE, options, stage.until(0 if quick else 0.95), 2 if quick else 3)


def written(results, sweeps, users, apart):
    page = Page("000", "a banking application under more and more users", INTRO.format(share=SHARE))
    head, rows = judged(results, ADVICE)
    if not isinstance(apart, str):
        rows += judged(apart, ADVICE_ELSEWHERE)[1]
    page.verdicts((head, rows), "At 50 users.")
    page.heading("50 users")
    page.text(
        "`brisk bench -c 50` over TLS: the page of the accounts, three queries. The article's figures are those of its "
        "graph's end, at 200 users. PHP makes a connection to the database for each page, as the article's application does; "
        "Node and Java keep theirs, and Java's heap may grow to 256 MB, as PHP's processes may."
    )
    tiers = ["server", "application", "PHP", "database"]
    page.table(*measured(results, tiers))
    cpu_chart(page, results, tiers)
    page.heading("The database elsewhere, and its replicas")
    if isinstance(apart, str):
        page.text(f"Not measured here: {apart}.")
    else:
        page.text(
            f"nginx, PHP and the databases on machines of {SHARE} CPUs each. The replicas follow the primary by GTID; Brisk, on the "
            "application's machine, asks them what they are and gives them what only reads, the statements that the bank prepares among it: the "
            "application is unchanged."
        )
        page.table(*measured(apart, ["server", "PHP", "splitter", "database"]))
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
