#!/usr/bin/env python3
"""Faults under load in PHP pools, each so many times: php_faults.py BRISK [TIMES [FAULT ...]]

Processes of pools are killed, scripts crash, have no memory or no end, pool masters are killed, a database is gone for five seconds at a time,
clients give up after a second. Meanwhile others ask without pause: each of their requests must be answered with 200. A table says what became of
the requests that were hit, of the others, and whether all places of the pool are there afterwards; it ends with 1 if anything failed that was not
hit. TIMES: 1000; a database is gone TIMES / 50 times, under so many clients that more than TIMES requests meet it. Needs root (it runs PHP as
nobody) and ten minutes.
"""
import asyncio
import collections
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PORT = 18090
PLACES = 6
MASTERS = 8
QUEUE = "queue 400 timeout=60s;"
SCRIPTS = {
    "pid": "<?php usleep(1000); echo getmypid();",
    # The first try is killed; a second one, of a GET, finds the file.
    "victim": "<?php $f = 'NOTES/victim-' . $_GET['n']; if (file_exists($f)) exit('again');"
              " file_put_contents(\"$f.new\", getmypid()); rename(\"$f.new\", $f); sleep(60);",
    "segfault": "<?php posix_kill(getmypid(), 11); sleep(5);",
    "destructor": "<?php class D { function __destruct() { posix_kill(getmypid(), 11); } } $d = new D; echo 'x';",
    "memory": "<?php ini_set('memory_limit', '8M'); $a = str_repeat('x', 50 << 20);",
    "output": "<?php ini_set('memory_limit', '8M'); ob_start(fn ($text) => str_repeat($text, 50 << 20)); echo 'x';",
    "loop": "<?php set_time_limit(0); for (;;) {}",
    "wait": "<?php sleep(100);",
    # PHP does not come to look at its own time limit.
    "native": "<?php set_time_limit(1); iterator_count(new InfiniteIterator(new ArrayIterator([1])));",
    "slow": "<?php sleep(2); echo str_repeat('x', 50000);",
    "row": "<?php $d = @stream_socket_client('unix://NOTES/database'); if (!$d) { http_response_code(500); exit('no database'); } echo fgets($d);",
    "at-once": "<?php $f = 'NOTES/at-once-' . $_GET['key']; file_put_contents($f, 'x', FILE_APPEND | LOCK_EX); $until = microtime(true) + 60;"
               " while (($c = strlen(file_get_contents($f))) < $_GET['count'] && microtime(true) < $until) usleep(1000);"
               " echo $c >= $_GET['count'] ? 'all' : 'some';",
}
DATABASE = """
import os, socket, sys
path = sys.argv[1]
if os.path.exists(path): os.unlink(path)
listener = socket.socket(socket.AF_UNIX); listener.bind(path); os.chmod(path, 0o666); listener.listen(1000)
while True:
    one = listener.accept()[0]
    try: one.sendall(b'row\\n')
    except OSError: pass
    one.close()
"""


def start(brisk, folder):
    pools = {
        "www": f"pm static; max_children {PLACES};",
        "ends": f"pm static; max_children {2 * PLACES}; request_terminate_timeout 1s;",
        "slow": "pm static; max_children 64;",
    }
    pools.update({f"m{at}": "pm static; max_children 3;" for at in range(MASTERS)})
    text = "".join(f"php_pool {name} {{ {pool} {QUEUE} php_admin_flag[display_errors] off; }}\n" for name, pool in pools.items())
    text += "php_pool row { pm static; max_children 8; queue 32 timeout=1s; }\n"
    places = "".join(f"location ~ ^/{name}/[a-z-]+\\.php$ {{ rewrite ^/{name}/(.*)$ /$1 break; php_pass {name}; }}\n" for name in [*pools, "row"])
    conf = f"""daemon off; user nobody nogroup; pid {folder}/brisk.pid; error_log {folder}/error.log;
events {{ worker_connections 8192; }}
http {{ access_log off; {text} server {{ listen 127.0.0.1:{PORT} backlog=1024; root {folder}/html; {places} }} }}
"""
    with open(f"{folder}/brisk.conf", "w") as file:
        file.write(conf)
    return subprocess.Popen([brisk, "-p", folder, "-c", f"{folder}/brisk.conf"])


class Cut(Exception):
    """The client gave up, as it was told."""


async def ask(method, target, gives_up_after=None):
    """Status and body."""
    writer = None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
        body = "a=1" if method == "POST" else ""
        kind = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n" if body else ""
        writer.write(f"{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{kind}\r\n{body}".encode())
        try:
            answer = await asyncio.wait_for(reader.read(-1), gives_up_after or 120)
        except asyncio.TimeoutError:
            if gives_up_after:
                raise Cut from None
            return 0, b"no answer in two minutes"
        head, _, rest = answer.partition(b"\r\n\r\n")
        return (int(head[9:12]) if head.startswith(b"HTTP/1.1 ") else 0), rest
    except OSError as error:
        return 0, str(error).encode()
    finally:
        if writer:
            writer.close()


class Others:
    """Who asks meanwhile for something that has nothing to do with the fault."""

    def __init__(self, targets, count=6):
        self.targets, self.count = targets, count
        self.asked, self.failed, self.slowest = 0, collections.Counter(), 0.0
        self.is_over = False

    async def one(self, at):
        while not self.is_over:
            target, began = self.targets[self.asked % len(self.targets)], time.monotonic()
            status, body = await ask("GET" if at % 2 else "POST", target)
            self.asked += 1
            self.slowest = max(self.slowest, time.monotonic() - began)
            if status != 200:
                self.failed[status] += 1
                print(f"  failed: {target}: {status} {body[:80]}", file=sys.stderr)

    async def __aenter__(self):
        self.tasks = [asyncio.create_task(self.one(at)) for at in range(self.count)]
        return self

    async def __aexit__(self, *_):
        self.is_over = True
        await asyncio.gather(*self.tasks)


async def at_most(limit, works):
    """Carries out what an iterator gives, so many at once."""
    works = iter(works)

    async def worker():
        for work in works:
            await work
    await asyncio.gather(*(worker() for _ in range(limit)))


def children(pid):
    try:
        return [int(one) for one in open(f"/proc/{pid}/task/{pid}/children").read().split()]
    except OSError:
        return []


def title(pid):
    try:
        return open(f"/proc/{pid}/cmdline").read().rstrip("\0")
    except OSError:
        return ""


async def until(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise RuntimeError(f"not within {seconds} s: {what}")
        await asyncio.sleep(0.002)
    return found


class Lab:
    def __init__(self, brisk, folder, times):
        self.folder, self.times = folder, times
        self.notes = f"{folder}/notes"
        self.hit = collections.Counter()
        self.broken = []
        self.server = start(brisk, folder)
        self.database = None

    def expect(self, status, allowed, what):
        self.hit[status] += 1
        if status not in allowed:
            self.broken.append(f"{what}: {status}")

    async def has_all_places(self, pool, count):
        key = f"{pool}-{time.monotonic_ns()}"
        answers = await asyncio.gather(*(ask("GET", f"/{pool}/at-once.php?key={key}&count={count}") for _ in range(count)))
        if not all(status == 200 and b"all" in body for status, body in answers):
            self.broken.append(f"{pool}: not all places are there: {collections.Counter(answers)}")
            return "no"
        return "yes"

    # The faults. Each gives what the others asked, and the pools that must have all places afterwards.

    async def killed_workers(self):
        async def one(at):
            method = "POST" if at % 2 else "GET"
            request = asyncio.create_task(ask(method, f"/www/victim.php?n={at}"))
            path = f"{self.notes}/victim-{at}"
            await until("the victim", lambda: os.path.exists(path))
            os.kill(int(open(path).read()), signal.SIGKILL)
            status, _ = await request
            self.expect(status, [502] if method == "POST" else [200], f"{method} of a killed worker")
        async with Others(["/www/pid.php"]) as others:
            await at_most(3, (one(at) for at in range(self.times)))
        return others, {"www": PLACES}

    async def crashes(self):
        async def one(at):
            status, _ = await ask("POST", f"/www/{('segfault', 'destructor')[at % 2]}.php")
            self.expect(status, [502], "a crash")
        async with Others(["/www/pid.php"]) as others:
            await at_most(3, (one(at) for at in range(self.times)))
        return others, {"www": PLACES}

    async def without_memory(self):
        async def one(at):
            status, _ = await ask("GET", f"/www/{('memory', 'output')[at % 2]}.php")
            self.expect(status, [200, 500], "without memory")
        async with Others(["/www/pid.php"]) as others:
            await at_most(3, (one(at) for at in range(self.times)))
        return others, {"www": PLACES}

    async def without_end(self):
        async def one(at):
            status, _ = await ask("GET", f"/ends/{('loop', 'wait', 'native', 'wait')[at % 4]}.php")
            self.expect(status, [502], "without end")
        async with Others(["/ends/pid.php"], 2) as others:
            await at_most(2 * PLACES - 2, (one(at) for at in range(self.times)))
        return others, {"ends": 2 * PLACES}

    async def killed_masters(self):
        def master(pool):
            found = [pid for pid in children(self.server.pid) if title(pid) == f"brisk: php pool {pool}"]
            return found and len(children(max(found))) == 3 and max(found)

        async def of_pool(pool, count):
            before = None
            for _ in range(count):
                pid = await until("another pool master", lambda: (now := master(pool)) != before and now)
                # Who dies within its first second is started again later and later.
                await asyncio.sleep(1.1)
                os.kill(pid, signal.SIGKILL)
                self.hit["started again"] += 1
                before = pid
            await until("the last pool master", lambda: (now := master(pool)) != before and now)
        names = [f"m{at}" for at in range(MASTERS)]
        async with Others([f"/{name}/pid.php" for name in names], MASTERS) as others:
            await asyncio.gather(*(of_pool(name, -(-self.times // MASTERS)) for name in names))
        return others, dict.fromkeys(names, 3)

    def start_database(self):
        self.database = subprocess.Popen([sys.executable, "-c", DATABASE, f"{self.notes}/database"])

    async def gone_database(self):
        """In turns it says nothing, and is not there."""
        is_over = False
        self.start_database()

        async def client():
            while not is_over:
                status, _ = await ask("GET", "/row/row.php")
                self.expect(status, [200, 500, 503], "without a database")
                await asyncio.sleep(0.02 if status != 200 else 0)
        async with Others(["/www/pid.php"]) as others:
            clients = [asyncio.create_task(client()) for _ in range(50)]
            for at in range(max(2, self.times // 50)):
                if at % 2:
                    self.database.kill()
                    self.database.wait()
                else:
                    self.database.send_signal(signal.SIGSTOP)
                await asyncio.sleep(5)
                if at % 2:
                    self.start_database()
                else:
                    self.database.send_signal(signal.SIGCONT)
                await asyncio.sleep(2)
            is_over = True
            await asyncio.gather(*clients)
        for _ in range(50):
            if (await ask("GET", "/row/row.php"))[0] != 200:
                self.broken.append("the database is back, and a request fails")
        self.database.kill()
        self.database.wait()
        return others, {"row": 8}

    async def given_up(self):
        async def one(at):
            try:
                status, body = await ask("GET", "/slow/slow.php", 1.0 if at % 10 < 3 else None)
                self.expect(status, [200] if at % 10 >= 3 else [], "a client that stayed")
                if len(body) < 50000:
                    self.broken.append(f"{len(body)} bytes of an answer")
            except Cut:
                self.hit["given up"] += 1
        async with Others(["/slow/pid.php"], 2) as others:
            await at_most(60, (one(at) for at in range(self.times * 10 // 3)))
        return others, {"slow": 64}


FAULTS = {
    "killed-workers": ("`kill -9` of a worker", Lab.killed_workers),
    "crashes": ("segmentation fault, also in a destructor", Lab.crashes),
    "memory": ("out of memory, also inside of output", Lab.without_memory),
    "endless": ("endless: in PHP, in C, waiting", Lab.without_end),
    "killed-masters": ("`kill -9` of the pool master", Lab.killed_masters),
    "database": ("database gone for 5 s", Lab.gone_database),
    "clients": ("clients give up after 1 s (30 %)", Lab.given_up),
}


async def carry_out(lab, names):
    for _ in range(200):
        if lab.server.poll() is not None:
            sys.exit("the server does not start")
        if (await ask("GET", "/www/pid.php"))[0] == 200:
            break
        await asyncio.sleep(0.1)
    print("| fault | times | requests that were hit | others asked | of them failed | slowest | all places afterwards | took |\n|---|---|---|---|---|---|---|---|")
    for name in names:
        words, fault = FAULTS[name]
        lab.hit.clear()
        began = time.monotonic()
        others, pools = await fault(lab)
        took = time.monotonic() - began
        places = {await lab.has_all_places(pool, count) for pool, count in pools.items()}
        if others.failed:
            lab.broken.append(f"{words}: others failed: {dict(others.failed)}")
        hit = ", ".join(f"{count} × {what}" for what, count in sorted(lab.hit.items(), key=str))
        times = max(2, lab.times // 50) if name == "database" else lab.times
        print(f"| {words} | {times} | {hit} | {others.asked} | {sum(others.failed.values())} | {others.slowest * 1000:.0f} ms"
              f" | {'no' if 'no' in places else 'yes'} | {took:.0f} s |", flush=True)


def main(brisk, times="1000", *names):
    folder = tempfile.mkdtemp(prefix="php-faults-")
    os.chmod(folder, 0o755)
    for path, mode in (("html", 0o755), ("notes", 0o777)):
        os.mkdir(f"{folder}/{path}")
        os.chmod(f"{folder}/{path}", mode)
    for name, text in SCRIPTS.items():
        with open(f"{folder}/html/{name}.php", "w") as file:
            file.write(text.replace("NOTES", f"{folder}/notes"))
    lab = Lab(os.path.realpath(brisk), folder, int(times))
    try:
        asyncio.run(carry_out(lab, names or FAULTS))
    finally:
        if lab.database and lab.database.poll() is None:
            lab.database.kill()
        lab.server.send_signal(signal.SIGTERM)
        lab.server.wait()
    alerts = [line for line in open(f"{folder}/error.log") if "[emerg]" in line or "panic" in line]
    for line in [*alerts[:10], *lab.broken[:20]]:
        print(f"FAILED: {line.strip()}")
    if not alerts and not lab.broken:
        shutil.rmtree(folder, ignore_errors=True)
    return bool(alerts or lab.broken)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not set(sys.argv[3:]) <= set(FAULTS):
        sys.exit(__doc__ + f"\nFaults: {' '.join(FAULTS)}")
    sys.exit(main(*sys.argv[1:]))
