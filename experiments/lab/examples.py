"""The applications of `examples`, with a database of their own; PHP and the web servers are the experiment's."""

import contextlib
import csv
import fcntl
import os
import re
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from .stage import REPOSITORY, Refused

# WordPress is unpacked once; each run goes on with what the last one left.
KEPT = Path(os.environ.get("BRISK_EXPERIMENTS_DIR", f"/var/tmp/brisk-experiments-{os.getuid()}"))
# Whatever address WordPress is asked by is its own: several servers show the same pages.
HOME = "(empty($_SERVER['HTTPS']) ? 'http' : 'https') . '://' . ($_SERVER['HTTP_HOST'] ?? 'localhost')"


class Application:
    """`site` holds the pages; `database` is the PID of its MariaDB."""

    def __init__(self, name):
        self.name = name
        self.folder = KEPT / name
        self.site = self.folder / "site"

    def script(self, *words):
        script = REPOSITORY / "examples" / self.name / f"{self.name}.sh"
        self.folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [script, *words],
            env={**os.environ, f"{self.name.upper()}_DIR": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise Refused(f"{script} {' '.join(words)} failed:\n{done.stdout}{done.stderr}")

    def copy_of_data(self, folder):
        """The database's files as they are while it does not run; it runs again afterwards."""
        self.script("down")
        subprocess.run(["cp", "-a", self.folder / "data", folder], check=True)
        self.script("up", "database")

    @property
    def database(self):
        return int((self.folder / "mysql.pid").read_text())


@contextlib.contextmanager
def application(name):
    """Its pages and its database, which ends with the block."""
    app = Application(name)
    KEPT.mkdir(parents=True, exist_ok=True)
    lock = open(KEPT / f"{name}.lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refused(f"another experiment uses {app.folder}: wait for it, or set BRISK_EXPERIMENTS_DIR") from None
    try:
        app.script("up", "database")
        if name == "wordpress":
            answer_to_any_name(app.site / "wp-config.php")
        yield app
    finally:
        app.script("down")
        lock.close()


def answer_to_any_name(config):
    text = config.read_text()
    text = re.sub(r"define\('(WP_HOME|WP_SITEURL)', .*\);", rf"define('\1', {HOME});", text)
    # Its jobs would be started by visitors, and measured with them.
    if "DISABLE_WP_CRON" not in text:
        text = text.replace("<?php\n", "<?php\ndefine('DISABLE_WP_CRON', true);\n", 1)
    config.write_text(text)


class Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def log_in(app, base):
    """The cookie of the bank's first customer, who logs in there."""
    with open(app.folder / "people.csv", newline="") as people:
        person = next(csv.DictReader(people))
    tls = urllib.request.HTTPSHandler(context=ssl._create_unverified_context())
    form = urllib.parse.urlencode({"login": person["login"], "password": person["password"]}).encode()
    try:
        urllib.request.build_opener(tls, Stay).open(f"{base}/login", form, timeout=60)
    except urllib.error.HTTPError as answer:
        if answer.code == 303:
            return answer.headers["Set-Cookie"].partition(";")[0]
        raise Refused(f"{base}/login gave {answer.code}") from None
    raise Refused(f"{base}/login let nobody in")
