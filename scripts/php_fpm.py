#!/usr/bin/env python3
"""What PHP-FPM's own tests take for php-fpm: the pools of an FPM configuration, run by Brisk.

  BRISK=PROGRAM php_fpm.py -y FILE [-O] [-F] [-t] [-d NAME=VALUE]...

Each pool becomes a `php_pool NAME from=FILE` of a server that listens nowhere. The addresses of `listen` are this program's: it passes
their bytes on to the pools' sockets. FPM's messages of a start and an end are written when Brisk says the same in its own words; what
Brisk writes to its error log is written with FPM's date and level.
"""
import asyncio
import glob
import os
import re
import shutil
import signal
import sys
import tempfile
import time

LEVELS = {"debug": "DEBUG", "notice": "NOTICE", "warn": "WARNING", "error": "ERROR", "alert": "ALERT", "crit": "ALERT", "emerg": "ALERT"}
ORDER = ["DEBUG", "NOTICE", "WARNING", "ERROR", "ALERT"]
LINE = re.compile(r"^\S+ \S+ \[(\w+)\] \S+ (?:\*\d+ )?(.*)$")


class Files:
    """An FPM configuration: what is global, and the text of each pool."""

    def __init__(self, path):
        self.globals, self.pools, self.section = {}, {}, None
        self.read(path)

    def read(self, path):
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
                return value.strip("\"'")
        return None


class Program:
    def __init__(self, words):
        self.is_test = self.to_stderr = False
        self.values, self.log, self.is_ending = [], None, False
        words = iter(words)
        for word in words:
            if word in ("-y", "--fpm-config"):
                self.path = next(words)
            elif word in ("-t", "-tt", "--test"):
                self.is_test = True
            elif word in ("-O", "--force-stderr"):
                self.to_stderr = True
            elif word == "-d":
                self.values.append(next(words))
            elif word.startswith("-d"):
                self.values.append(word[2:])
        self.files = Files(self.path)
        self.folder = tempfile.mkdtemp(prefix="php-fpm-")
        self.least = ORDER.index(self.files.globals.get("log_level", "notice").upper().replace("WARN", "WARNING").replace("WARNINGING", "WARNING"))

    def open_log(self):
        path = self.files.globals.get("error_log")
        if self.to_stderr or self.is_test or not path or path.startswith("/dev/std"):
            self.log = sys.stderr
        else:
            self.log = open(path, "a", buffering=1)

    def say(self, level, text):
        if ORDER.index(level) >= self.least:
            self.write(f"{time.strftime('[%d-%b-%Y %H:%M:%S]')} {level}: {text}")

    def write(self, line):
        try:
            print(line, file=self.log, flush=True)
        except OSError:
            # The reader has gone, and goes on waiting for the end of this program.
            self.log = open(os.devnull, "w")

    def write_conf(self):
        pools = []
        for name, lines in self.files.pools.items():
            path = f"{self.folder}/{name}.pool"
            with open(path, "w") as file:
                print(f"[{name}]", *lines, sep="\n", file=file)
            # Quotation marks are php.ini's.
            self.values = [value.replace('"', "") for value in self.values]
            values = f"php_ini {self.folder}/php.ini; " + "".join(f"php_value[{value.partition('=')[0]}] '{value.partition('=')[2]}'; " for value in self.values)
            # FPM has no limit of its own where none is written.
            limit = "" if self.files.setting(name, "request_terminate_timeout") else "request_terminate_timeout 0; "
            pools.append(f"php_pool {name} from={path} {{ {values}{limit}}}")
        open(f"{self.folder}/php.ini", "w").close()
        conf = f"{self.folder}/brisk.conf"
        with open(conf, "w") as file:
            file.write(f"daemon off; worker_processes 1; pid {self.folder}/brisk.pid; error_log stderr notice;\nevents {{ }}\n"
                       f"http {{ access_log off; {' '.join(pools)}\n  server {{ listen unix:{self.folder}/http.sock; }} }}\n")
        return conf

    async def pump(self, reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except (OSError, RuntimeError):
            writer.close()

    def passer(self, pool):
        async def serve(reader, writer):
            try:
                there = await asyncio.open_unix_connection(self.socket(pool))
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

    async def listen(self):
        for pool in self.files.pools:
            address = self.files.setting(pool, "listen").replace("$pool", pool)
            if address.startswith("/"):
                if os.path.lexists(address):
                    os.unlink(address)
                await asyncio.start_unix_server(self.passer(pool), address)
                continue
            host, _, port = address.rpartition(":")
            await asyncio.start_server(self.passer(pool), host.strip("[]") or None, int(port))

    def take(self, line):
        """A line of Brisk's error log."""
        found = LINE.match(line)
        level, text = (LEVELS.get(found[1], "NOTICE"), found[2]) if found else ("WARNING", line)
        if re.search(r"the master \d+ of PHP pool .* serves", text):
            self.serving += 1
            if self.serving == len(self.files.pools):
                self.say("NOTICE", f"fpm is running, pid {os.getpid()}")
                self.say("NOTICE", "ready to handle connections")
        elif text.startswith("PHP: "):
            pool = next(iter(self.files.pools))
            if self.files.setting(pool, "decorate_workers_output") == "no":
                self.write(text[5:])
            else:
                self.say("WARNING", f'[pool {pool}] child {os.getpid()} said into stderr: "{text[5:]}"')
        elif level not in ("DEBUG", "NOTICE"):
            self.say(level, text)

    def end(self, brisk, how):
        if not self.is_ending:
            self.is_ending = True
            self.say("NOTICE", "Terminating ..." if how == signal.SIGTERM else "Finishing ...")
            brisk.send_signal(how)

    def reload(self, brisk):
        self.say("NOTICE", "Reloading in progress ...")
        self.serving = 0
        self.files = Files(self.path)
        self.write_conf()
        brisk.send_signal(signal.SIGHUP)

    def reopen(self, brisk):
        path = self.files.globals.get("error_log")
        if self.log is not sys.stderr:
            self.log = open(path, "a", buffering=1)
        brisk.send_signal(signal.SIGUSR1)
        self.say("NOTICE", "error log file re-opened")

    async def run(self):
        self.open_log()
        conf = self.write_conf()
        command = [os.environ["BRISK"], "-p", self.folder, "-c", conf]
        if self.is_test:
            test = await asyncio.create_subprocess_exec(*command, "-t", stdout=-1, stderr=asyncio.subprocess.STDOUT)
            told = (await test.communicate())[0].decode()
            if test.returncode:
                self.say("ERROR", told.splitlines()[0])
                return 78
            self.say("NOTICE", f"configuration file {self.path} test is successful")
            return 0
        self.serving = 0
        await self.listen()
        # It ends with this program, however that ends.
        command = ["setpriv", "--pdeathsig", "TERM"] + command
        brisk = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.end, brisk, signal.SIGTERM)
        loop.add_signal_handler(signal.SIGQUIT, self.end, brisk, signal.SIGQUIT)
        loop.add_signal_handler(signal.SIGUSR2, self.reload, brisk)
        loop.add_signal_handler(signal.SIGUSR1, self.reopen, brisk)
        pid_file = self.files.globals.get("pid")
        if pid_file:
            with open(pid_file, "w") as file:
                file.write(str(os.getpid()))
        while line := await brisk.stderr.readline():
            self.take(line.decode(errors="replace").rstrip("\n"))
        code = await brisk.wait()
        if self.is_ending:
            self.say("NOTICE", "exiting, bye-bye!")
        for path in [pid_file] + [self.files.setting(pool, "listen") for pool in self.files.pools]:
            if path and path.startswith("/") and os.path.lexists(path):
                os.unlink(path)
        return 0 if self.is_ending else code


if __name__ == "__main__":
    program = Program(sys.argv[1:])
    try:
        sys.exit(asyncio.run(program.run()))
    finally:
        shutil.rmtree(program.folder, ignore_errors=True)
