"""The real software of an experiment: found, started in a folder of its own, waited for, and stopped whatever happens.

Nothing of the machine is touched: every server gets a configuration, a port and a folder of the stage, and runs as
nobody if the experiment is run by root. Who is stopped is known by its process, never by a name.
"""

import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

EXPERIMENTS = Path(__file__).resolve().parent.parent
REPOSITORY = EXPERIMENTS.parent
NOBODY = 65534
REMEDY = "run `scripts/setup.sh experiments`, which installs what the experiments need"
START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 20
# The whole of an experiment, unless `run.py --minutes` gives it less.
MINUTES_MAX = 15


class Refused(Exception):
    """Something is missing or does not start; the text says what, and what to do about it."""


def program(*names):
    """The path of the first of these programs that this machine has.

    BRISK_EXPERIMENTS_PATH names the folders to search, in place of PATH and those for administrators.
    """
    search = os.environ.get("BRISK_EXPERIMENTS_PATH") or os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for name in names:
        found = shutil.which(name, path=search)
        if found:
            return found
    raise Refused(f"{' or '.join(names)} is missing: {REMEDY}")


def installed(path, what):
    """The first file of this pattern, or a refusal that names what is missing."""
    for found in sorted(Path("/").glob(str(path).lstrip("/"))):
        return str(found)
    raise Refused(f"{what} is missing (no {path}): {REMEDY}")


def pool_masters(brisk):
    """What `make php` has built, in the folders in which the program looks for it."""
    here = Path(brisk).resolve().parent
    folders = (here, here / "../php", here / "../lib/brisk", Path("/usr/lib/brisk"))
    names = ("brisk-php*", "libbrisk-php*")
    found = [path for folder in folders for name in names for path in sorted(folder.glob(name))]
    return list({path.name: path for path in reversed(found)}.values())


def php_version():
    """The version of the PHP whose programs carry it in their names, e.g. 8.2."""
    fpm = installed("/usr/sbin/php-fpm[0-9]*", "PHP-FPM")
    return fpm.rsplit("php-fpm", 1)[1]


class Process:
    """One program that was started here, with all that it has started."""

    def __init__(self, name, popen, log):
        self.name, self.popen, self.log = name, popen, log
        self.pid = popen.pid

    def is_alive(self):
        return self.popen.poll() is None

    def last_words(self):
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(lines[-12:])

    def stop(self, how=signal.SIGTERM):
        if self.is_alive():
            self.popen.send_signal(how)
            try:
                self.popen.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        # It led a session of its own: who is left of it is left of nobody else.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


class Stage:
    """A folder, ports and processes; `with Stage() as stage:` leaves nothing of them behind."""

    def __init__(self, brisk, minutes=MINUTES_MAX):
        self.folder = Path(tempfile.mkdtemp(prefix="brisk-experiment-"))
        self.processes = []
        self.is_starting = self.is_interrupted = False
        self.ports = set()
        self.made = 0
        # Where programs are started: here, or on one of `machines.machines`.
        self.machine = None
        # CPUs that were busy with something else, per run; see load.of_others.
        self.foreign = []
        self.began, self.seconds = time.monotonic(), minutes * 60
        # Whoever runs the servers may have no way into the folder that the program was built in.
        self.brisk = str(self.folder / "brisk")
        shutil.copy(brisk, self.brisk)
        # Where it looks for what runs its pools: beside itself.
        for master in pool_masters(brisk):
            shutil.copy(master, self.folder)
        self.folder.chmod(0o755)
        self.give(self.folder)
        resource.setrlimit(resource.RLIMIT_NOFILE, [resource.getrlimit(resource.RLIMIT_NOFILE)[1]] * 2)

    def __enter__(self):
        # Taken down by `kill` as by Ctrl-C.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.interrupted)
        return self

    def interrupted(self, *_):
        # Between a program's start and its entry in the list nobody would stop it: the interruption waits that long.
        self.is_interrupted = True
        if not self.is_starting:
            raise KeyboardInterrupt

    def __exit__(self, *_):
        self.stop_since(0)
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def scope(self):
        """What is started within is stopped at the end of it."""
        before = len(self.processes)
        try:
            yield self
        finally:
            self.stop_since(before)

    @contextlib.contextmanager
    def on(self, machine):
        """What is started within runs on that machine."""
        before, self.machine = self.machine, machine
        try:
            yield self
        finally:
            self.machine = before

    @property
    def address(self):
        """Where programs listen that are started now."""
        return self.machine.address if self.machine else "127.0.0.1"

    def until(self, share):
        """The moment at which this share of the experiment's time is over."""
        return self.began + self.seconds * share

    def stop_since(self, index):
        while len(self.processes) > index:
            self.processes.pop().stop()

    @staticmethod
    def identity():
        """The arguments that make a subprocess nobody's, if we are root."""
        return dict(user=NOBODY, group=NOBODY, extra_groups=[]) if os.getuid() == 0 else {}

    @staticmethod
    def give(path):
        if os.getuid() == 0:
            os.chown(path, NOBODY, NOBODY)

    def port(self):
        """A port of 127.0.0.1 that nobody listens on, and that was not given out before."""
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                number = probe.getsockname()[1]
            # The range that connections are made from comes later: a long run must not lose its port to one of them.
            if number not in self.ports:
                self.ports.add(number)
                return number

    def make(self, name):
        """A folder of the stage."""
        path = self.folder / name
        path.mkdir(parents=True, exist_ok=True)
        self.give(path)
        return path

    def make_new(self, name):
        """A folder of nobody else's: of servers that run beside each other each has its own."""
        self.made += 1
        return self.make(f"{name}-{self.made}")

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text)
        self.give(path)
        return path

    def fill(self, template, name, **values):
        """A copy of a file of the repository in which @NAME@ is replaced; @DIR@ is the stage's folder, @HOST@ the address."""
        text = Path(template).read_text()
        # Twice: what is filled in may name the folder.
        for key, value in 2 * list({"DIR": self.folder, "HOST": self.address, **values}.items()):
            text = text.replace(f"@{key}@", str(value))
        left = [word for word in text.split() if word.count("@") == 2 and word.strip("@;").isupper()]
        if left:
            raise Refused(f"{template}: nothing was given for {left[0]}")
        return self.write(name, text)

    def start(self, name, command, ready, env=None):
        """Starts a program in the foreground and waits until its port or socket takes connections."""
        log = self.folder / f"{name}.out"
        address, who = self.address, self.identity()
        if self.machine:
            # Entering a machine takes root; the last step of that gives it up.
            command, who = self.machine.inside(command), {}
        environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.folder), **(env or {})}
        self.is_starting = True
        try:
            with open(log, "ab") as out:
                popen = subprocess.Popen(
                    [str(word) for word in command],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    cwd=self.folder,
                    env=environment,
                    start_new_session=True,
                    **who,
                )
            process = Process(name, popen, log)
            self.processes.append(process)
        finally:
            self.is_starting = False
        if self.is_interrupted:
            raise KeyboardInterrupt
        deadline = time.monotonic() + START_SECONDS_MAX
        while not takes_connections(ready, address):
            if not process.is_alive():
                raise Refused(f"{name} does not start ({' '.join(map(str, command))}):\n{process.last_words()}")
            if time.monotonic() > deadline:
                raise Refused(f"{name} was not up after {START_SECONDS_MAX} s:\n{process.last_words()}")
            time.sleep(0.02)
        return process


def takes_connections(ready, host="127.0.0.1"):
    family = socket.AF_INET if isinstance(ready, int) else socket.AF_UNIX
    address = (host, ready) if isinstance(ready, int) else str(ready)
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(address)
        except OSError:
            return False
    return True
