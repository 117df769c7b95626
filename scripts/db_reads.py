#!/usr/bin/env python3
"""What replicas are good for behind `mysql_split`: db_reads.py BRISK [--part scale|own] [--checks N] [--seconds S] [--rounds N]

*scale*: a primary and two replicas have a machine of their own each (a network namespace with a share of the CPUs), and so has Brisk. sysbench reads
through it (oltp_read_only as text, without transactions), with one replica and with both, in turns. A table says how many queries there were per second, where
they were answered, and which share of its machine each server used; two replicas must carry TIMES_MIN times the reads of one.

*own*: a writer and ten readers, half of which want to be told of their writes (CLIENT_SESSION_TRACK). The writer counts up in its row and reads it back; a reader reads
the writer's row, counts up in its own, and reads that back, until N numbers were read back in all. Meanwhile one replica and then the other carries
nothing out for a second. A number that is not the one just written is a violation, and there must be none. What is promised to one session only is
told, too: how often a reader saw a number of the writer that was not the newest acknowledged, and how often one that was older than what it had seen before.

Ends with 1 if one of the two does not hold. Needs root, sysbench and MariaDB (scripts/setup.sh experiments).
"""
import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(HERE), str(HERE.parent / "experiments")]

from db_failover import Session, until  # noqa: E402
from lab import databases, machines  # noqa: E402
from lab.stage import Refused, Stage, program  # noqa: E402

TIMES_MIN = 1.8
# CPUs of each machine where reads are counted: little for those that must be full, enough for Brisk.
DATABASE_SHARE = 0.15
BRISK_SHARE = 0.9
# No limit: a machine here has no more.
WHOLE = 4
THREADS = 16
READERS = 10
PAUSE_S = 1
SHOP = "shop"
CONFIG = {"user": SHOP, "password": SHOP, "database": SHOP}
CONF = """worker_processes 2;
pid {data}/pid;
error_log {data}/error.log info;
events {{ worker_connections 1024; }}
http {{ access_log off; server {{ listen {host}:{api}; location /api {{ api; }} }} }}
stream {{
    upstream db {{
        zone db 64k;
        {servers}
        mysql_check user=probe password_file={password} lag=30s;
    }}
    server {{ listen {host}:{port}; proxy_pass db; mysql_split on; }}
}}
"""


class Tracking(Session):
    """A session that is told which transaction it has written."""

    BITS = Session.BITS | 1 << 23


class Brisk:
    """The program on its machine, before a primary and some of its replicas."""

    def __init__(self, stage, servers):
        self.servers, self.address = servers, stage.address
        self.port, self.api = stage.port(), stage.port()
        data = stage.make(f"brisk-{self.port}")
        password = stage.write("probe.pw", "")
        password.chmod(0o600)
        password.write_text("probe\n")
        lines = " ".join(f"server {server.address}:{databases.PORT};" for server in servers)
        text = CONF.format(data=data, host=self.address, port=self.port, api=self.api, servers=lines, password=password)
        conf = stage.write(f"brisk-{self.port}.conf", text)
        command = [stage.brisk, "-p", f"{data}/", "-c", conf, "-e", data / "error.log", "-g", "daemon off;"]
        self.process = stage.start(f"brisk-{self.port}", command, self.port)
        until("servers and accounts that Brisk knows", self.is_ready)

    def status(self):
        with urllib.request.urlopen(f"http://{self.address}:{self.api}/api/9/databases", timeout=10) as answer:
            return json.load(answer)["db"]

    def is_ready(self):
        status = self.status()
        return status["accounts"] and all(server["reads"] for server in status["servers"])


def replicated(stage, hosts):
    """A primary and its replicas, each on its machine, with an empty database."""
    files = stage.make("pristine")
    command = [program("mariadb-install-db"), "--no-defaults", f"--datadir={files}", "--skip-test-db", "--auth-root-authentication-method=normal"]
    made = subprocess.run(command, env={**os.environ, "TMPDIR": str(stage.make("install"))}, capture_output=True, text=True, **stage.identity())
    if made.returncode != 0:
        raise Refused(f"mariadb-install-db failed: {made.stderr}")
    servers = []
    for number, host in enumerate(hosts, 1):
        with stage.on(host):
            servers.append(databases.Database(stage, files, CONFIG, number))
    for replica in servers[1:]:
        replica.copies(servers[0])
    servers[0].say(f"CREATE DATABASE {SHOP}")
    return servers


def catch_up(servers):
    """Waits until the replicas have what the primary has."""
    place = ask(servers[0], "SELECT @@gtid_binlog_pos")
    for replica in servers[1:]:
        if ask(replica, f"SELECT MASTER_GTID_WAIT('{place}', 60)") != "0":
            raise Refused(f"a replica does not come to {place}")


def ask(server, statement):
    with Session(str(server.socket), ("lab", "lab")) as session:
        return session.value(statement)


def sysbench(address, port, *words):
    command = [program("sysbench"), f"--mysql-host={address}", f"--mysql-port={port}", "--db-ps-mode=disable", f"--threads={THREADS}"]
    command += [f"--mysql-{name}={SHOP}" for name in ("user", "password", "db")]
    done = subprocess.run([*command, "oltp_read_only", "--skip-trx=on", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused(f"sysbench {' '.join(words)} failed: {done.stdout}{done.stderr}")
    return done.stdout


def cpu_seconds(process):
    """CPU time of a program and of what it has started, which is in its session."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == process.pid:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(stage, host, servers, seconds):
    """Queries per second through a Brisk that knows these servers, the share that replicas answered, and each one's CPUs."""
    with stage.scope(), stage.on(host):
        brisk = Brisk(stage, servers)
        sysbench(brisk.address, brisk.port, "--time=1", "run")
        watched = [brisk.process, *(server.process for server in servers)]
        before, began, status = [cpu_seconds(one) for one in watched], time.monotonic(), brisk.status()["statements"]
        text = sysbench(brisk.address, brisk.port, f"--time={seconds}", "run")
        took, used = time.monotonic() - began, [cpu_seconds(one) for one in watched]
        reads = brisk.status()["statements"]["replica_reads"] - status["replica_reads"]
    queries = int(re.search(r"queries:\s+(\d+)", text)[1])
    rate = queries / float(re.search(r"total time:\s+([\d.]+)s", text)[1])
    return rate, reads / queries, [(after - first) / took for first, after in zip(before, used)]


def scale(stage, seconds, rounds):
    """Whether two replicas carry TIMES_MIN times the reads of one."""
    shares = {"primary": DATABASE_SHARE, "replica1": DATABASE_SHARE, "replica2": DATABASE_SHARE}
    with machines.machines(brisk=BRISK_SHARE, **shares) as hosts, stage.scope():
        servers = replicated(stage, hosts[1:])
        sysbench_prepare(stage, hosts[0], servers)
        print(f"machines: Brisk {BRISK_SHARE} CPUs, databases {DATABASE_SHARE} each; {rounds} rounds of {seconds} s, {THREADS} connections")
        print(f"{'replicas':>8} {'queries/s':>10} {'at replicas':>11}   share of its machine: Brisk, primary, replicas")
        rates = {1: [], 2: []}
        for _ in range(rounds):
            for count in random.sample([1, 2], 2):
                rate, share, cpus = measure(stage, hosts[0], servers[: 1 + count], seconds)
                rates[count].append(rate)
                full = [f"{cpu / host.cpus:.0%}" for cpu, host in zip(cpus, hosts)]
                print(f"{count:>8} {rate:>10.0f} {share:>11.1%}   {', '.join(full)}", flush=True)
    times = [two / one for one, two in zip(rates[1], rates[2])]
    one, two = (statistics.median(rates[count]) for count in (1, 2))
    print(f"reads: {one:.0f}/s with one replica, {two:.0f}/s with two: {statistics.median(times):.2f} times "
          f"({min(times):.2f} to {max(times):.2f}; at least {TIMES_MIN})")
    return statistics.median(times) >= TIMES_MIN


def sysbench_prepare(stage, host, servers):
    """The table is made through Brisk, as an application would."""
    with stage.scope(), stage.on(host):
        brisk = Brisk(stage, servers)
        sysbench(brisk.address, brisk.port, "prepare")
    catch_up(servers)


class Reader(threading.Thread):
    """A session with a row of its own. The first one is the writer, whose row all others read as well."""

    def __init__(self, number, to, checks):
        super().__init__(daemon=True)
        self.number, self.to, self.checks = number, to, checks
        self.read_back = self.violations = self.reads = self.stale = self.backwards = 0
        self.acknowledged, self.seen, self.why = 0, 0, None
        # The readers know it: whose number is newest.
        self.writer = self

    def run(self):
        try:
            kind = Tracking if self.number % 2 == 0 else Session
            with kind(self.to, (SHOP, SHOP), SHOP) as session:
                while self.read_back < self.checks:
                    if self.writer is not self:
                        self.look(session)
                    self.count_up(session)
        except Exception as error:
            self.why = error

    def value(self, session, number):
        self.reads += 1
        return int(session.value(f"SELECT value FROM own WHERE session = {number}"))

    def look(self, session):
        newest = self.writer.acknowledged
        seen = self.value(session, self.writer.number)
        self.stale += seen < newest
        self.backwards += seen < self.seen
        self.seen = seen

    def count_up(self, session):
        wanted = self.acknowledged + 1
        session.run(f"UPDATE own SET value = {wanted} WHERE session = {self.number}")
        self.acknowledged = wanted
        got = self.value(session, self.number)
        self.read_back += 1
        if got != wanted:
            self.violations += 1
            print(f"session {self.number} wrote {wanted} and read {got}", flush=True)


def disturb(replicas, is_over):
    """One replica, then the other, carries nothing out for a while."""
    while True:
        for replica in replicas:
            for what in ("STOP", "START"):
                replica.say(f"{what} SLAVE SQL_THREAD")
                # Whatever was stopped runs again at the end.
                if is_over.wait(PAUSE_S) and what == "START":
                    return


def own(stage, checks):
    """Whether sessions read what they have written."""
    with machines.machines(brisk=WHOLE, primary=WHOLE, replica1=WHOLE, replica2=WHOLE) as hosts, stage.scope():
        servers = replicated(stage, hosts[1:])
        servers[0].say(f"CREATE TABLE {SHOP}.own (session INT PRIMARY KEY, value BIGINT)")
        servers[0].say(f"INSERT INTO {SHOP}.own VALUES " + ", ".join(f"({number}, 0)" for number in range(1 + READERS)))
        catch_up(servers)
        with stage.on(hosts[0]):
            brisk = Brisk(stage, servers)
        each = -(-checks // (1 + READERS))
        sessions = [Reader(number, (brisk.address, brisk.port), each) for number in range(1 + READERS)]
        for reader in sessions[1:]:
            reader.writer = sessions[0]
        is_over = threading.Event()
        disturber = threading.Thread(target=disturb, args=(servers[1:], is_over), daemon=True)
        for thread in (disturber, *sessions):
            thread.start()
        for session in sessions:
            session.join()
        statements = brisk.status()["statements"]
        is_over.set()
        disturber.join()
    for session in sessions:
        if session.why:
            raise Refused(f"session {session.number}: {session.why!r}")
    return judged(sessions, statements)


def judged(sessions, statements):
    total = {name: sum(getattr(session, name) for session in sessions) for name in ("read_back", "violations", "reads", "stale", "backwards")}
    answered, late = statements["replica_reads"], statements["late_reads"]
    print(f"a writer and {READERS} readers: {total['read_back']} own writes read back, {total['violations']} violations")
    print(f"reads: {total['reads']}, of them {answered} at replicas ({answered / total['reads']:.1%}), {late} at the primary because no replica had the session's writes")
    print(f"the writer's numbers: {total['stale']} older than the newest acknowledged, {total['backwards']} older than the same reader had seen")
    return total["violations"] == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("brisk", help="the program")
    parser.add_argument("--part", choices=["scale", "own"], help="only this one")
    parser.add_argument("--checks", type=int, default=100_000, help="numbers that are read back [100000]")
    parser.add_argument("--seconds", type=int, default=5, help="length of a measurement [5]")
    parser.add_argument("--rounds", type=int, default=5, help="of both measurements [5]")
    options = parser.parse_args()
    holds = True
    try:
        if options.part != "own":
            with Stage(options.brisk) as stage:
                holds = scale(stage, options.seconds, options.rounds)
        if options.part != "scale":
            with Stage(options.brisk) as stage:
                holds = own(stage, options.checks) and holds
    except Refused as refusal:
        sys.exit(f"db_reads: {refusal}")
    except KeyboardInterrupt:
        sys.exit("db_reads: interrupted; everything it had started is stopped")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
