#!/usr/bin/env python3
"""What PHP-FPM's own tests take for php-fpm: the pools of an FPM configuration, run by Brisk.

  BRISK=PROGRAM php_fpm.py -y FILE [-O] [-F] [-t|-tt] [-v] [-p PREFIX] [-d NAME=VALUE]...

Each pool becomes a `php_pool NAME from=FILE` of a server that listens nowhere. What is not a pool's but the program's is done here: options, the global
settings, addresses of `listen` (whose bytes are passed on to the pools' sockets), the log with FPM's dates, levels and `log_limit`. FPM's
messages are written when Brisk says the same in its own words, or has done what they tell of.
"""
import asyncio
import glob
import grp
import ipaddress
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

LEVELS = {"debug": "DEBUG", "notice": "NOTICE", "warn": "WARNING", "error": "ERROR", "alert": "ALERT", "crit": "ALERT", "emerg": "ALERT"}
ORDER = ["DEBUG", "NOTICE", "WARNING", "ERROR", "ALERT"]
LINE = re.compile(r"^\S+ \S+ \[(\w+)\] \S+ (?:\*\d+ )?(.*)$", re.S)
USAGE = "Usage: php-fpm [-O] [-F] [-D] [-R] [-n] [-t] [-v] [-y FILE] [-p PREFIX] [-c FILE] [-d NAME=VALUE]"
LOG_LIMIT_MIN, LOG_LIMIT_USUAL = 512, 1024
# What Brisk says of a configuration, and how FPM says it.
OF_CONFIGURATION = [
    (r'"(\w+)\[\]" has no name in its brackets in (\S+:\d+)', r"[\2] You must provide a key for field '\1'"),
    (r'"([\w.]+)\[.+?\]" has a name in its brackets.* in (\S+:\d+)', r"[\2] Keys provided to field '\1' are ignored"),
    (r'"([\w.]+)" must begin with "/" in (\S+:\d+)', r"[\2] Values provided to field '\1' must begin with '/'"),
    (r'there is no user "(.*)", whom PHP pool "(.*)" names', r"[pool \2] cannot get uid for user '\1'"),
    (r'there is no group "(.*)", which PHP pool "(.*)" names', r"[pool \2] cannot get gid for group '\1'"),
]
# The same of what happens in a pool.
OF_POOLS = [
    (r"pool (\S+) has reached pm.max_children \((\d+)\) .*", "WARNING", r"[pool \1] server reached pm.max_children setting (\2), consider raising it"),
    (r'worker process (\d+) of pool (\S+) is slow: "(.*)", script "(.*)" has run for ([\d.]+) s', "WARNING",
     r"[pool \2] child \1, script '\4' (request: \"\3\") executing too slow (\5 sec), logging"),
    (r'worker process (\d+) of pool (\S+) is ended: its request took ([\d.]+) s \(.*?\), "(.*)", script "(.*)"', "WARNING",
     r"[pool \2] child \1, script '\5' (request: \"\4\") execution timed out (\3 sec), terminating"),
    (r"worker process (\d+) of pool (\S+) exited on signal (\d+).*", "WARNING", r"[pool \2] child \1 exited on signal \3"),
]


class Failed(Exception):
    """The program cannot begin: what FPM says of that, lines of level and text."""


class Files:
    """An FPM configuration: what is global, and the text of each pool."""

    def __init__(self, path):
        self.globals, self.pools, self.section, self.paths = {}, {}, None, []
        self.read(path)

    def read(self, path):
        self.paths.append(path)
        with open(path) as file:
            for line in file:
                self.take(line.rstrip("\n"))

    def take(self, line):
        header = re.match(r"\s*\[([^\]]+)\]\s*$", line)
        name, _, value = (part.strip() for part in line.partition("="))
        if header:
            self.section = header[1]
            if self.section != "global":
                self.pools.setdefault(self.section, [])
        elif name == "include":
            for path in sorted(glob.glob(value)):
                self.read(path)
        elif self.section not in (None, "global"):
            self.pools[self.section].append(line)
        elif value:
            self.globals[name] = value.strip("\"'")

    def setting(self, pool, name):
        for line in self.pools[pool]:
            have, _, value = (part.strip() for part in line.partition("="))
            if have == name:
                return value.strip("\"'").replace("$pool", pool)
        return None

    def shown(self):
        """All settings as PHP itself reads them, for -tt."""
        read = "echo json_encode(array_map(fn($f) => parse_ini_file($f, true), array_slice($argv, 1)));"
        told = subprocess.run(["php", "-n", "-r", read, "--", *self.paths], capture_output=True, check=True)
        for file in json.loads(told.stdout):
            for section, settings in (file.items() if file else ()):
                if not isinstance(settings, dict):
                    continue
                yield f"[{section}]"
                for name, value in settings.items():
                    name = name.replace("_flag", "_value") if name.startswith("php_") else name
                    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
                    for key, one in pairs or ():
                        yield f"\t{name}[{'' if name == 'access.suppress_path' else key}] = {one}"
                    if pairs is None:
                        yield f"\t{name} = {value}"


class Log:
    """FPM's log: the file that is configured, and the standard error if that is asked for."""

    def __init__(self):
        self.path, self.outs, self.least, self.limit = None, [], ORDER.index("NOTICE"), LOG_LIMIT_USUAL

    def open(self, path, to_stderr):
        self.path, self.outs = path, []
        if path:
            self.outs.append(open(path, "a", buffering=1, errors="surrogateescape"))
        if to_stderr or not path:
            sys.stderr.reconfigure(errors="surrogateescape")
            self.outs.append(sys.stderr)

    def say(self, level, text):
        if ORDER.index(level) >= self.least:
            self.write(f"{self.head(level)}{text}")

    def head(self, level):
        return f"{time.strftime('[%d-%b-%Y %H:%M:%S]')} {level}: "

    def write(self, line):
        for out in list(self.outs):
            try:
                print(line, file=out, flush=True)
            except OSError:
                # The reader has gone, and goes on waiting for the end of this program.
                self.outs.remove(out)

    def wrap(self, head, text, quote):
        """A text of any length: no line is longer than the limit."""
        room = self.limit - 1 - len(head) - 2 * len(quote)
        for at in range(0, max(len(text), 1), room):
            self.write(f"{head}{quote}{text[at:at + room]}{quote}")


class Address:
    """What a pool listens on, as FPM has it."""

    def __init__(self, files, pool, log):
        self.pool, self.text = pool, files.setting(pool, "listen") or ""
        allowed = files.setting(pool, "listen.allowed_clients")
        self.allowed = None if not allowed else [ip for ip in map(self.ip, re.split(r"[\s,]+", allowed)) if ip]
        if self.text.startswith("/"):
            self.check_owner(files)
        else:
            self.host, _, port = self.text.rpartition(":")
            self.port = int(port) if port.isdigit() else -1
            if not 0 < self.port < 65536:
                raise Failed(("ERROR", f"invalid port value '{port}'"))
        self.log = log

    @staticmethod
    def ip(text):
        try:
            ip = ipaddress.ip_address(text)
        except ValueError:
            return None
        return getattr(ip, "ipv4_mapped", None) or ip

    def check_owner(self, files):
        for setting, find, what in (("listen.owner", pwd.getpwnam, "uid for user"), ("listen.group", grp.getgrnam, "gid for group")):
            name = files.setting(self.pool, setting)
            try:
                name and not name.isdigit() and find(name)
            except KeyError as error:
                raise Failed(("ERROR", f"[pool {self.pool}] cannot get {what} '{name}': {error.args[0]}")) from None

    def bind(self):
        if self.text.startswith("/"):
            if os.path.lexists(self.text):
                os.unlink(self.text)
            return self.bound(socket.AF_UNIX, self.text)
        try:
            if not self.host:
                try:
                    return self.bound(socket.AF_INET6, ("::", self.port))
                except OSError:
                    self.log.say("NOTICE", "Failed implicitly binding to ::, retrying with 0.0.0.0")
                    return self.bound(socket.AF_INET, ("0.0.0.0", self.port))
            host = self.host.strip("[]")
            return self.bound(socket.AF_INET6 if ":" in host else socket.AF_INET, (host, self.port))
        except OSError as error:
            text = f"unable to bind listening socket for address '{self.text}': {os.strerror(error.errno)} ({error.errno})"
            raise Failed(("ERROR", text)) from None

    @staticmethod
    def bound(family, address):
        one = socket.socket(family)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if family != socket.AF_UNIX:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(address)
        except OSError:
            one.close()
            raise
        return one

    def allows(self, peer):
        return self.allowed is None or not isinstance(peer, tuple) or self.ip(peer[0]) in self.allowed


class Program:
    def __init__(self, words):
        self.is_test = self.shows = self.to_stderr = self.is_version = False
        self.in_front = False
        self.path = self.prefix = None
        self.values, self.log = [], Log()
        self.options(iter(words))
        self.is_serving = self.is_ending = self.is_reloading = self.reloads_again = False
        self.serving, self.notices, self.listeners, self.early = 0, {}, {}, []
        self.daemon_told = None

    def options(self, words):
        for word in words:
            if word in ("-y", "--fpm-config"):
                self.path = next(words)
            elif word in ("-p", "--prefix"):
                self.prefix = next(words)
            elif word in ("-t", "-tt", "--test"):
                self.shows = word == "-tt" or self.is_test
                self.is_test = True
            elif word in ("-v", "--version"):
                self.is_version = True
            elif word in ("-O", "--force-stderr"):
                self.to_stderr = True
            elif word in ("-F", "--nodaemonize"):
                self.in_front = True
            elif word in ("-c", "--php-ini"):
                next(words)
            elif word == "-d":
                self.values.append(next(words))
            elif word.startswith("-d"):
                self.values.append(word[2:])
            elif word not in ("-n", "--no-php-ini", "-e", "-D", "--daemonize", "-R", "--allow-to-run-as-root"):
                print(USAGE)
                sys.exit(64)

    def version(self):
        brisk = os.path.realpath(os.environ["BRISK"])
        masters = glob.glob(os.path.join(os.path.dirname(brisk), "../php/brisk-php[0-9]*.[0-9]*"))
        return subprocess.run([sorted(masters)[-1], "-v"]).returncode

    def read(self):
        self.files = Files(self.path)
        level = self.files.globals.get("log_level", "notice").upper()
        self.log.least = ORDER.index({"WARN": "WARNING"}.get(level, level))
        self.log.limit = int(self.files.globals.get("log_limit", LOG_LIMIT_USUAL))
        if self.log.limit < LOG_LIMIT_MIN:
            raise Failed(("ERROR", f"log_limit must be greater than {LOG_LIMIT_MIN}"))

    def below_prefix(self, path):
        return path and os.path.join(self.prefix or "", path)

    def open_log(self):
        path = self.below_prefix(self.files.globals.get("error_log"))
        if path and path.startswith("/dev/std"):
            path = None
        is_daemon = self.daemon_told is not None
        self.log.open(None if self.is_test else path, self.is_test or (self.to_stderr and not is_daemon))

    def write_conf(self):
        pools = []
        for name, lines in self.files.pools.items():
            path = f"{self.folder}/{name}.pool"
            own = [f"prefix = {self.prefix}"] if self.prefix and not self.files.setting(name, "prefix") else []
            with open(path, "w") as file:
                print(f"[{name}]", *own, *lines, sep="\n", file=file)
            # Quotation marks are php.ini's.
            values = [value.replace('"', "") for value in self.values]
            values = f"php_ini {self.folder}/php.ini; " + "".join(f"php_value[{value.partition('=')[0]}] '{value.partition('=')[2]}'; " for value in values)
            # FPM has no limit of its own where none is written.
            limit = "" if self.files.setting(name, "request_terminate_timeout") else "request_terminate_timeout 0; "
            pools.append(f"php_pool {name} from={path} {{ {values}{limit}}}")
        open(f"{self.folder}/php.ini", "w").close()
        with open(f"{self.folder}/brisk.conf", "w") as file:
            file.write(f"daemon off; worker_processes 1; pid {self.folder}/brisk.pid; error_log {self.folder}/log notice;\nevents {{ }}\n"
                       f"http {{ access_log off; {' '.join(pools)}\n  server {{ listen unix:{self.folder}/http.sock; }} }}\n")

    # Addresses.

    async def pump(self, reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except (OSError, RuntimeError):
            writer.close()

    def passer(self, address):
        async def serve(reader, writer):
            if not address.allows(writer.get_extra_info("peername")):
                writer.close()
                return
            try:
                there = await asyncio.open_unix_connection(self.socket(address.pool))
            except OSError:
                writer.close()
                return
            # The pool's end is the client's; a client that has only ended its sending still reads.
            back = asyncio.create_task(self.pump(there[0], writer))
            out = asyncio.create_task(self.pump(reader, there[1]))
            await back
            out.cancel()
            for end in (writer, there[1]):
                end.close()
        return serve

    def socket(self, pool):
        found = [path for path in glob.glob(f"{self.folder}/logs/brisk-php/{pool}-????????.sock")]
        return found[0] if found else f"{self.folder}/none"

    def addresses(self):
        return [Address(self.files, pool, self.log) for pool in self.files.pools]

    async def listen(self):
        """Those that are listened on already stay; those of pools that have gone are closed."""
        wanted = {address.text: address for address in self.addresses()}
        for text in [text for text in self.listeners if text not in wanted]:
            self.listeners.pop(text).close()
        for text, address in wanted.items():
            if text in self.listeners:
                continue
            start = asyncio.start_unix_server if text.startswith("/") else asyncio.start_server
            self.listeners[text] = await start(self.passer(address), sock=address.bind())

    # What Brisk says.

    def take(self, line):
        """A line of Brisk's error log."""
        found = LINE.match(line)
        level, text = (LEVELS.get(found[1], "NOTICE"), found[2]) if found else ("WARNING", line)
        said = re.match(r"worker process (\d+) of pool (\S+) wrote to its standard (output|error): (.*)", text, re.S)
        ignored = re.match(r'pool (\S+): "user" and "group" have no effect: the server is not started as root', text)
        if re.search(r"the master \d+ of PHP pool .* serves", text):
            self.serving += 1
            if self.serving == len(self.files.pools) and not self.is_serving:
                self.begin_serving()
        elif said:
            stream = "stdout" if said[3] == "output" else "stderr"
            head = f"{self.log.head('WARNING')}[pool {said[2]}] child {said[1]} said into {stream}: "
            self.log.wrap(head, said[4], '"')
        elif text.startswith("PHP: "):
            self.log.wrap("", text[5:], "")
        elif ignored:
            # Pools begin at the same time; FPM goes through them in order.
            self.notices[ignored[1]] = [name for name in ("user", "group") if self.files.setting(ignored[1], name)]
        else:
            self.tell_of_pools(level, text)

    def tell_of_pools(self, level, text):
        for pattern, as_level, words in OF_POOLS:
            if re.fullmatch(pattern, text, re.S):
                self.log.say(as_level, re.sub(pattern, words, text, flags=re.S))
                return
        if level not in ("DEBUG", "NOTICE"):
            self.log.say(level, text)

    def begin_serving(self):
        for pool in self.files.pools:
            for name in self.notices.get(pool, ()):
                self.log.say("NOTICE", f"[pool {pool}] '{name}' directive is ignored when FPM is not running as root")
        self.is_serving = True
        self.say_ready()
        if self.daemon_told is not None:
            os.write(self.daemon_told, b"1")
            os.close(self.daemon_told)

    def say_ready(self):
        self.log.say("NOTICE", f"fpm is running, pid {os.getpid()}")
        self.log.say("NOTICE", "ready to handle connections")

    async def hear_errors(self, stream):
        """Before it serves, Brisk says there why it cannot; then, it is where logs of pools go that are to go there."""
        while line := await stream.readline():
            text = line.decode(errors="surrogateescape").rstrip("\n")
            if not self.is_serving:
                self.early.append(text)
            else:
                print(text, file=sys.stderr, flush=True)

    # Signals.

    def end(self, how):
        if not self.is_ending:
            self.is_ending = True
            self.told_end = asyncio.create_task(self.do_end(how))

    async def do_end(self, how):
        # What workers printed before is on its way through two processes.
        await asyncio.sleep(0.2)
        self.log.say("NOTICE", "Terminating ..." if how == signal.SIGTERM else "Finishing ...")
        self.brisk.send_signal(how)

    def reload(self):
        self.log.say("NOTICE", "Reloading in progress ...")
        if self.is_reloading:
            self.reloads_again = True
        else:
            self.is_reloading = True
            self.reloading = asyncio.create_task(self.do_reload())

    async def do_reload(self):
        while True:
            self.reloads_again = False
            self.log.say("NOTICE", f"reloading: execvp(\"{sys.argv[0]}\")")
            for text, listener in self.listeners.items():
                self.log.say("NOTICE", f'using inherited socket fd={listener.sockets[0].fileno()}, "{text}"')
            self.read()
            self.write_conf()
            await self.listen()
            told = [await self.order("-s", "reload")]
            # FPM's processes are new ones after each reload; Brisk's only where a pool has changed, unless that is asked for.
            told += [await self.order("php", "reload", pool) for pool in self.files.pools]
            if any(code for code, _ in told):
                self.log.say("ERROR", next(text for code, text in told if code))
            else:
                self.say_ready()
            if not self.reloads_again:
                break
        self.is_reloading = False

    async def order(self, *words):
        command = [os.environ["BRISK"], *words, "-p", self.folder, "-c", f"{self.folder}/brisk.conf"]
        run = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=asyncio.subprocess.STDOUT)
        text = (await run.communicate())[0].decode(errors="replace")
        return run.returncode, text.strip()

    def reopen(self):
        self.open_log()
        self.reopening = asyncio.create_task(self.do_reopen())

    async def do_reopen(self):
        await self.order("-s", "reopen")
        self.log.say("NOTICE", "error log file re-opened")
        if any(self.files.setting(pool, "access.log") for pool in self.files.pools):
            self.log.say("NOTICE", "access log file re-opened")

    # Beginning and end.

    def problems(self, text):
        """What FPM says of what Brisk has refused."""
        found = []
        for line in text.splitlines():
            for pattern, words in OF_CONFIGURATION:
                if match := re.search(pattern, line):
                    found.append(("ERROR", match.expand(words)))
        return found or [("ERROR", (text.splitlines() or ["Brisk has ended"])[0])]

    async def test(self):
        code, told = await self.order("-t")
        if code:
            raise Failed(*self.problems(told))
        if self.shows:
            for line in self.files.shown():
                self.log.say("NOTICE", line)
        self.log.say("NOTICE", f"configuration file {self.path} test is successful")
        return 0

    def say_defaults(self):
        for pool in self.files.pools:
            least, most = (self.files.setting(pool, f"pm.{name}_spare_servers") for name in ("min", "max"))
            if self.files.setting(pool, "pm") == "dynamic" and not self.files.setting(pool, "pm.start_servers") and least and most:
                start = int(least) + (int(most) - int(least)) // 2
                self.log.say("NOTICE", f"[pool {pool}] pm.start_servers is not set. It's been set to {start}.")

    async def start_brisk(self):
        os.mkfifo(f"{self.folder}/log")
        # Open for both, so that it has no end while Brisk opens it again.
        pipe = open(os.open(f"{self.folder}/log", os.O_RDWR | os.O_NONBLOCK), "rb", buffering=0)
        reader = asyncio.StreamReader(limit=1 << 20)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        # It ends with this program, however that ends.
        command = ["setpriv", "--pdeathsig", "TERM", os.environ["BRISK"], "-p", self.folder, "-c", f"{self.folder}/brisk.conf"]
        self.brisk = await asyncio.create_subprocess_exec(*command, stdout=None, stderr=asyncio.subprocess.PIPE, start_new_session=True)
        return reader

    async def hear_log(self, reader):
        while line := await reader.readline():
            self.take(line.decode(errors="surrogateescape").rstrip("\n"))

    async def run(self):
        try:
            # Which is told before there is a log.
            self.log.outs = [sys.stderr]
            self.read()
            self.open_log()
            self.write_conf()
            addresses = self.addresses()
            if self.is_test:
                return await self.test()
            del addresses
            self.say_defaults()
            await self.listen()
            return await self.serve()
        except Failed as failed:
            for level, text in failed.args:
                self.log.say(level, text)
            self.log.say("ERROR", "FPM initialization failed")
            return 78

    async def serve(self):
        loop = asyncio.get_running_loop()
        reader = await self.start_brisk()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.end, signal.SIGTERM)
        loop.add_signal_handler(signal.SIGQUIT, self.end, signal.SIGQUIT)
        loop.add_signal_handler(signal.SIGUSR2, self.reload)
        loop.add_signal_handler(signal.SIGUSR1, self.reopen)
        pid_file = self.below_prefix(self.files.globals.get("pid"))
        if pid_file:
            with open(pid_file, "w") as file:
                file.write(str(os.getpid()))
        hearing = asyncio.create_task(self.hear_log(reader))
        await self.hear_errors(self.brisk.stderr)
        code = await self.brisk.wait()
        # What it has written at last is in the pipe.
        while not hearing.done() and not await self.is_quiet(reader):
            pass
        hearing.cancel()
        if self.is_ending:
            self.log.say("NOTICE", "exiting, bye-bye!")
        for path in [pid_file, *self.listeners]:
            if path and path.startswith("/") and os.path.lexists(path):
                os.unlink(path)
        if not self.is_serving and not self.is_ending:
            raise Failed(*self.problems("\n".join(self.early)))
        return 0 if self.is_ending else code

    @staticmethod
    async def is_quiet(reader):
        """Whether the loop has nothing more to read."""
        await asyncio.sleep(0.01)
        return not reader._buffer  # There is no public way to ask.

    def become_daemon(self):
        """The one that was called ends when the other serves."""
        hear, told = os.pipe()
        if os.fork():
            os.close(told)
            os._exit(0 if os.read(hear, 1) else 78)
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        self.daemon_told = told


def main():
    program = Program(sys.argv[1:])
    if program.is_version:
        return program.version()
    if not program.path:
        print(USAGE)
        return 64
    if not program.in_front and not program.is_test and Files(program.path).globals.get("daemonize", "yes") == "yes":
        program.become_daemon()
    program.folder = tempfile.mkdtemp(prefix="php-fpm-")
    try:
        return asyncio.run(program.run())
    finally:
        shutil.rmtree(program.folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
