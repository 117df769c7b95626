#!/usr/bin/env python3
"""The primary of a database is killed under load, so many times: db_failover.py BRISK [TIMES [SEED]]

A MariaDB with two semi-synchronous replicas stands behind a BRISK with mysql_check, and four writers insert numbers through it, each 5 ms after the last one. The
primary is killed (SIGKILL) at a random moment; within three seconds the replica that has received the most is promoted, as a tool for failover would do
it, and Brisk finds that out by asking. The killed one comes back as a replica, and all of it begins again. Each time: is every write there that was acknowledged, ever, and
how long after the promotion (read_only is off) was the first one acknowledged? A table says so; it ends with 1 if a write is missing, or writes did not
go on within LIMIT_MS. A writer never repeats a statement that was not acknowledged. TIMES: 20; needs mariadb-server-core and seven seconds for each.
"""
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

LIMIT_MS = 2000
WRITERS = 4
SERVERS = 3
PATIENCE_S = 120
# Between two writes of a writer: whoever comes back must carry out all that was ever written.
PAUSE_S = 0.005
APP, PROBE, REPLICATION = ("app", "app-secret"), ("probe", "probe-secret"), ("repl", "repl-secret")
OPTIONS = """bind-address = 127.0.0.1
skip-name-resolve
max_connections = 300
innodb_log_file_size = 4M
innodb_buffer_pool_size = 16M
innodb_doublewrite = OFF
innodb_flush_log_at_trx_commit = 2
innodb_fast_shutdown = 2
sync_binlog = 0
performance_schema = OFF
log_bin = binlog
log_slave_updates = ON
binlog_format = ROW
gtid_strict_mode = ON
relay_log = relay
slave_net_timeout = 10
rpl_semi_sync_slave_enabled = ON
rpl_semi_sync_master_timeout = 600000
rpl_semi_sync_master_wait_point = AFTER_SYNC
read_only = ON
"""


class Refused(Exception):
    """The server answers with an error."""


class Session:
    """A connection to a MariaDB, by mysql_native_password: to a socket, to a port here, or to an address."""

    # Protocol 4.1, transactions, mysql_native_password.
    BITS = 0x8A201

    def __init__(self, to, account=("root", ""), database=""):
        if isinstance(to, str):
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(PATIENCE_S)
            self.socket.connect(to)
        else:
            self.socket = socket.create_connection(to if isinstance(to, tuple) else ("127.0.0.1", to), PATIENCE_S)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = self.socket.makefile("rb")
        try:
            self.log_in(account, database)
        except BaseException:
            self.close()
            raise

    def log_in(self, account, database):
        _, greeting = self.receive()
        at = greeting.index(b"\0") + 1 + 4
        nonce = greeting[at:at + 8] + greeting[at + 27:at + 39]
        bits = self.BITS | (8 if database else 0)
        proof = native(account[1], nonce)
        login = struct.pack("<IIB23x", bits, 1 << 24, 45) + account[0].encode() + b"\0" + bytes([len(proof)]) + proof
        login += (database.encode() + b"\0" if database else b"") + b"mysql_native_password\0"
        self.send(1, login)
        while True:
            number, answer = self.receive()
            if answer[0] == 0:
                return
            # Another nonce for the same plugin.
            self.send(number + 1, native(account[1], answer.split(b"\0", 1)[1][:20]))

    def send(self, number, payload):
        self.socket.sendall(struct.pack("<I", len(payload))[:3] + bytes([number & 255]) + payload)

    def receive(self):
        head = self.input.read(4)
        payload = self.input.read(int.from_bytes(head[:3], "little")) if len(head) == 4 else b""
        if not payload:
            raise ConnectionError("the connection is closed")
        if payload[0] == 0xFF:
            raise Refused(payload[3:].decode(errors="replace"))
        return head[3], payload

    def run(self, statement):
        """The rows of the answer, each by the names of its columns."""
        self.send(0, b"\x03" + statement.encode())
        _, head = self.receive()
        if head[0] == 0:
            return []
        names = [list(texts(self.receive()[1]))[4] for _ in range(head[0])]
        self.receive()
        rows = []
        while True:
            _, row = self.receive()
            if row[0] == 0xFE and len(row) < 9:
                return rows
            rows.append(dict(zip(names, texts(row))))

    def value(self, statement):
        return next(iter(self.run(statement)[0].values()))

    def close(self):
        self.input.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def native(password, nonce):
    if not password:
        return b""
    once = hashlib.sha1(password.encode()).digest()
    mask = hashlib.sha1(nonce + hashlib.sha1(once).digest()).digest()
    return bytes(a ^ b for a, b in zip(once, mask))


def texts(packet):
    """Texts with their lengths before them; None is NULL."""
    at = 0
    while at < len(packet):
        first, at = packet[at], at + 1
        if first == 0xFB:
            yield None
            continue
        more = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
        length = int.from_bytes(packet[at:at + more], "little") if more else first
        at += more
        yield packet[at:at + length].decode(errors="replace")
        at += length


def until(what, condition, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while True:
        try:
            if found := condition():
                return found
        except (OSError, Refused, IndexError):
            pass
        if time.monotonic() > end:
            raise RuntimeError(f"not within {seconds} s: {what}")
        time.sleep(0.005)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Node:
    """One MariaDB, with a folder of its own. It comes up without taking writes, so that a killed primary does not come back as one."""

    def __init__(self, folder, number):
        self.folder, self.number, self.port, self.process = f"{folder}/node{number}", number, free_port(), None
        self.socket = f"{self.folder}/db.sock"
        os.mkdir(self.folder)
        own = "".join(f"{name} = {self.folder}/{file}\n" for name, file in [
            ("datadir", "data"), ("socket", "db.sock"), ("pid-file", "db.pid"), ("log-error", "db.log")])
        user = "user = root\n" if os.getuid() == 0 else ""
        with open(f"{self.folder}/my.cnf", "w") as file:
            file.write(f"[mysqld]\n{user}{own}tmpdir = {self.folder}\nport = {self.port}\nserver_id = {number + 1}\n{OPTIONS}")

    def start(self):
        command = ["/usr/sbin/mariadbd", f"--defaults-file={self.folder}/my.cnf"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def wait(self):
        def answers():
            if self.process.poll() is not None:
                raise RuntimeError(f"MariaDB ended: {open(f'{self.folder}/db.log').read()}")
            with self.root() as root:
                return root.value("SELECT 1")
        until("a MariaDB that answers", answers)

    def root(self):
        return Session(self.socket)

    def kill(self):
        if self.process:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def replication(self, root, name):
        """A value of SHOW SLAVE STATUS; None: it is no replica."""
        rows = root.run("SHOW SLAVE STATUS")
        return rows[0][name] if rows else None


class Databases:
    """A primary, and replicas that have what it acknowledges."""

    def __init__(self, folder):
        self.nodes = [Node(folder, number) for number in range(SERVERS)]
        self.pristine = f"{folder}/pristine"

    def start(self):
        command = ["mariadb-install-db", "--no-defaults", f"--datadir={self.pristine}", "--auth-root-authentication-method=normal",
                   "--skip-test-db", "--innodb-log-file-size=4M", f"--tmpdir={self.nodes[0].folder}"]
        subprocess.run(command + (["--user=root"] if os.getuid() == 0 else []), check=True, stdin=subprocess.DEVNULL, capture_output=True)
        for node in self.nodes:
            shutil.copytree(self.pristine, f"{node.folder}/data")
            node.start()
        for node in self.nodes:
            node.wait()
        with self.nodes[0].root() as root:
            for name, password in (APP, PROBE, REPLICATION):
                root.run(f"CREATE USER {name}@'%' IDENTIFIED BY '{password}'")
            root.run("CREATE DATABASE test")
            root.run("CREATE TABLE test.written (n BIGINT PRIMARY KEY)")
            # Nothing else: who has more may write although read_only is on.
            root.run("GRANT SELECT, INSERT ON test.* TO app@'%'")
            root.run("GRANT REPLICATION SLAVE ON *.* TO repl@'%'")
            root.run("GRANT BINLOG MONITOR, SLAVE MONITOR ON *.* TO probe@'%'")
            root.run("SET GLOBAL read_only = OFF")
        for node in self.nodes[1:]:
            self.follow(node, self.nodes[0])
        self.settle(self.nodes[0])

    def running(self):
        return [node for node in self.nodes if node.process]

    def follow(self, node, primary):
        with node.root() as root:
            root.run("STOP SLAVE")
            root.run(f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {primary.port}, MASTER_USER = '{REPLICATION[0]}', "
                     f"MASTER_PASSWORD = '{REPLICATION[1]}', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1")
            root.run("START SLAVE")

    def settle(self, primary):
        """From now on nothing is acknowledged that no replica has; all that was acknowledged before, they all have."""
        with primary.root() as root:
            clients = "SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'"
            until("semi-synchronous replicas", lambda: root.run(clients)[0]["Value"] == str(SERVERS - 1))
            root.run("SET GLOBAL rpl_semi_sync_master_enabled = ON")
            until("semi-synchronous replication", lambda: root.run("SHOW STATUS LIKE 'Rpl_semi_sync_master_status'")[0]["Value"] == "ON")
            place = root.value("SELECT @@gtid_binlog_pos")
        for node in self.nodes:
            if node is not primary:
                with node.root() as root:
                    if root.value(f"SELECT MASTER_GTID_WAIT('{place}', {PATIENCE_S - 5})") != "0":
                        raise RuntimeError(f"server {node.number} does not come to {place}")

    def most_advanced(self):
        """The one to promote: it has received the most."""
        places = {}
        for node in self.running():
            with node.root() as root:
                # What the lost primary had sent is read to its end.
                until("the end of what was sent", lambda: node.replication(root, "Slave_IO_Running") != "Yes")
                places[node] = int(node.replication(root, "Gtid_IO_Pos").rsplit("-", 1)[1])
        return max(places, key=places.get)

    def promote(self, chosen):
        """What a tool for failover does; gives the moment at which writes are taken."""
        with chosen.root() as root:
            root.run("STOP SLAVE IO_THREAD")
            received = chosen.replication(root, "Gtid_IO_Pos")
            if root.value(f"SELECT MASTER_GTID_WAIT('{received}', {PATIENCE_S - 5})") != "0":
                raise RuntimeError(f"server {chosen.number} does not carry out what it has received")
            root.run("STOP SLAVE")
            root.run("RESET SLAVE ALL")
            for node in self.running():
                if node is not chosen:
                    self.follow(node, chosen)
            root.run("SET GLOBAL read_only = OFF")
            return time.monotonic()

    def rejoin(self, node, primary):
        """The killed one begins anew: what it had and nobody else has, was never acknowledged."""
        shutil.rmtree(f"{node.folder}/data")
        shutil.copytree(self.pristine, f"{node.folder}/data")
        node.start()
        node.wait()
        self.follow(node, primary)
        self.settle(primary)

    def stop(self):
        for node in self.nodes:
            node.kill()


class Brisk:
    def __init__(self, binary, folder, nodes):
        self.port, self.api = free_port(), free_port()
        with open(os.open(f"{folder}/probe.pw", os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(PROBE[1] + "\n")
        servers = " ".join(f"server 127.0.0.1:{node.port};" for node in nodes)
        with open(f"{folder}/brisk.conf", "w") as file:
            file.write(f"""daemon off; pid {folder}/brisk.pid; error_log {folder}/brisk.log info; worker_processes 2;
events {{ }}
http {{ access_log off; server {{ listen 127.0.0.1:{self.api}; location /api {{ api; }} }} }}
stream {{
    upstream db {{ zone db 64k; {servers} mysql_check user={PROBE[0]} password_file={folder}/probe.pw lag=2s; }}
    server {{ listen 127.0.0.1:{self.port}; proxy_pass db; }}
}}
""")
        self.process = subprocess.Popen([binary, "-p", folder, "-c", f"{folder}/brisk.conf"])

    def roles(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.api}/api/9/databases", timeout=10) as answer:
            return [(one["role"], one["reads"]) for one in json.load(answer)["db"]["servers"]]

    def wait_for(self, primary):
        wanted = [("primary" if number == primary.number else "replica", True) for number in range(SERVERS)]
        until("a primary with two replicas", lambda: self.roles() == wanted)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class Writer(threading.Thread):
    """Inserts numbers, each of them once."""

    def __init__(self, port, number):
        super().__init__(daemon=True)
        self.port, self.next = port, number * 10**12
        self.acknowledged, self.ended, self.is_over = [], 0, False
        self.latest = 0.0

    def run(self):
        while not self.is_over:
            try:
                with Session(self.port, APP, "test") as session:
                    while not self.is_over:
                        self.next += 1
                        session.run(f"INSERT INTO written VALUES ({self.next})")
                        self.latest = time.monotonic()
                        self.acknowledged.append(self.next)
                        time.sleep(PAUSE_S)
            except (OSError, Refused):
                self.ended += 1
                time.sleep(0.005)


def one_failover(databases, brisk, writers, primary, pause_s):
    ended = sum(writer.ended for writer in writers)
    killed = time.monotonic()
    primary.kill()
    time.sleep(pause_s)
    chosen = databases.most_advanced()
    promoted = databases.promote(chosen)
    until("writes", lambda: any(writer.latest > promoted for writer in writers))
    after_ms = 1000 * (min(writer.latest for writer in writers if writer.latest > promoted) - promoted)
    # Every writer goes on, and not only the first.
    until("all writers", lambda: all(writer.latest > promoted for writer in writers))
    acknowledged = [number for writer in writers for number in writer.acknowledged[:]]
    with chosen.root() as root:
        there = {int(row["n"]) for row in root.run("SELECT n FROM test.written")}
    missing = [number for number in acknowledged if number not in there]
    databases.rejoin(primary, chosen)
    brisk.wait_for(chosen)
    ended = sum(writer.ended for writer in writers) - ended
    print(f"{primary.number:>6} {chosen.number:>8} {1000 * (promoted - killed):>12.0f} {after_ms:>12.0f} {ended:>8} {len(acknowledged):>12} "
          f"{len(missing):>8}", flush=True)
    return chosen, after_ms, missing


def series(databases, brisk, times, pick):
    primary, results = databases.nodes[0], []
    brisk.wait_for(primary)
    writers = [Writer(brisk.port, number) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    until("writes", lambda: all(writer.latest for writer in writers))
    print(f"{'killed':>6} {'promoted':>8} {'promotion ms':>12} {'writes ms':>12} {'refused':>8} {'acknowledged':>12} {'missing':>8}", flush=True)
    for _ in range(times):
        time.sleep(pick.uniform(0.2, 1.2))
        primary, after_ms, missing = one_failover(databases, brisk, writers, primary, pick.uniform(0, 3))
        results.append((after_ms, missing))
    for writer in writers:
        writer.is_over = True
    for writer in writers:
        writer.join(PATIENCE_S)
    return results


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    binary, times = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(10**6)
    print(f"{times} times, seed {seed}")
    memory = "/dev/shm" if shutil.disk_usage("/dev/shm").free > 2 << 30 else None
    folder = tempfile.mkdtemp(prefix="db-failover-", dir=memory)
    os.chmod(folder, 0o755)
    running = []
    try:
        databases = Databases(folder)
        running.append(databases)
        databases.start()
        brisk = Brisk(binary, folder, databases.nodes)
        running.insert(0, brisk)
        results = series(databases, brisk, times, random.Random(seed))
    finally:
        for one in running:
            one.stop()
        shutil.rmtree(folder, ignore_errors=True)
    took = sorted(after_ms for after_ms, _ in results)
    lost = sum(len(missing) for _, missing in results)
    print(f"{times} failovers: {lost} acknowledged writes missing; writes again {took[0]:.0f} to {took[-1]:.0f} ms after the promotion "
          f"(median {statistics.median(took):.0f})")
    return 1 if lost or took[-1] > LIMIT_MS else 0


if __name__ == "__main__":
    sys.exit(main())
