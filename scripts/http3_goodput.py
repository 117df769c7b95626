#!/usr/bin/env python3
"""Goodput of HTTP/3 beside HTTP/2 of the same server: over loopback, with 20 ms and 1 % loss, and through a policer.

    scripts/http3_goodput.py BRISK [--seconds N] [--rounds N] [--tcp cubic] [--json] [case ...]

BRISK is the server and the generator (a release build). The network is a relay in this process between two network namespaces, at the level of
IP packets, so that TCP meets the same losses as QUIC: that takes root. Prints MB/s of both and their ratio, round by round.
"""

import argparse
import contextlib
import fcntl
import heapq
import json
import os
import pathlib
import random
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

TUNSETIFF = 0x400454CA
TUN_WITHOUT_HEADER = 0x1001
FILE_BYTES = 256 * 1024
CONF = """daemon off; worker_processes 1; pid brisk.pid; error_log error.log;
events {{}}
http {{
    access_log off; keepalive_requests 1000000;
    server {{
        listen {address}:8443 ssl; listen {address}:8443 quic; http2 on;
        ssl_certificate a.crt; ssl_certificate_key a.key; root {root};
    }}
}}
"""
# Round trip in seconds, share of lost packets, bytes per second and burst of a policer.
CASES = {
    "loopback": None,
    "20 ms, 1 % lost": (0.020, 0.01, None),
    "policer, 6 MB/s in bursts of 5 packets": (0.010, 0.0, (6e6, 5 * 1500)),
}


def run(*command, stderr=None):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=stderr)


class Network:
    """Two namespaces, and a thread that carries packets between them."""

    def __init__(self, round_trip, lost, policer, seed, tcp):
        self.delay, self.lost, self.policer, self.rng = round_trip / 2, lost, policer, random.Random(seed)
        self.spaces = [f"brisk-{os.getpid()}-{side}" for side in "ab"]
        self.devices, self.stop = [], False
        self.tokens, self.filled = [policer[1] if policer else 0] * 2, time.monotonic()
        for at, space in enumerate(self.spaces):
            name = f"bt{os.getpid() % 100000}{'ab'[at]}"
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), TUN_WITHOUT_HEADER))
            self.devices.append(device)
            run("ip", "netns", "add", space)
            run("ip", "link", "set", name, "netns", space)
            inside = ["ip", "-n", space]
            run(*inside, "addr", "add", f"10.77.0.{at + 1}/24", "dev", name)
            run(*inside, "link", "set", name, "up", "txqueuelen", "1000")
            run(*inside, "link", "set", "lo", "up")
            # The library's QUIC has CUBIC: a system with another algorithm would compare these.
            run(*inside, "route", "replace", "10.77.0.0/24", "dev", name, "src", f"10.77.0.{at + 1}", "congctl", tcp)
        self.thread = threading.Thread(target=self.carry, daemon=True)
        self.thread.start()

    def passes(self, way, size):
        if self.rng.random() < self.lost:
            return False
        if not self.policer:
            return True
        now = time.monotonic()
        rate, burst = self.policer
        gained, self.filled = (now - self.filled) * rate, now
        self.tokens = [min(burst, have + gained) for have in self.tokens]
        if self.tokens[way] < size:
            return False
        self.tokens[way] -= size
        return True

    def carry(self):
        queue, number = [], 0
        while not self.stop:
            wait = 0.05 if not queue else max(0.0, min(0.05, queue[0][0] - time.monotonic()))
            ready, _, _ = select.select(self.devices, [], [], wait)
            for device in ready:
                way = self.devices.index(device)
                for _ in range(64):
                    try:
                        packet = os.read(device, 2048)
                    except BlockingIOError:
                        break
                    if self.passes(way, len(packet)):
                        number += 1
                        heapq.heappush(queue, (time.monotonic() + self.delay, number, way, packet))
            now = time.monotonic()
            while queue and queue[0][0] <= now:
                _, _, way, packet = heapq.heappop(queue)
                # A full queue of the other side loses it, as a router's would.
                with contextlib.suppress(BlockingIOError, OSError):
                    os.write(self.devices[1 - way], packet)

    def close(self):
        self.stop = True
        self.thread.join()
        for device in self.devices:
            os.close(device)
        for space in self.spaces:
            subprocess.run(["ip", "netns", "del", space], check=False)


def rate(brisk, url, before, version, seconds):
    """MB/s of whole answers."""
    command = [*before, brisk, "bench", "-q", "--json", version, "-m", "4", "-c", "1", "-t", "1",
               "-w", "2s", "-d", f"{seconds}s", "--timeout", "60s", url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    if sum(found["errors"].values()) or found["non_2xx"]:
        raise SystemExit(f"{' '.join(command)}: {done.stdout[:2000]}")
    return found["responses_in_time"] * FILE_BYTES / 1e6 / found["seconds"]


def measure(brisk, folder, network, seconds, rounds):
    address = "10.77.0.1" if network else "127.0.0.1"
    inside = [["ip", "netns", "exec", space] if network else [] for space in (network.spaces if network else "ab")]
    (folder / "brisk.conf").write_text(CONF.format(address=address, root=folder / "html"))
    server = subprocess.Popen([*inside[0], brisk, "-p", f"{folder}/", "-c", "brisk.conf"])
    try:
        url = f"https://{address}:8443/file"
        for _ in range(200):
            done = subprocess.run([*inside[1], brisk, "get", "-k", "--only-body", "-o", "/dev/null", url],
                                  capture_output=True, check=False)
            if done.returncode == 0:
                break
            time.sleep(0.05)
        found = {"-2": [], "-3": []}
        for _ in range(rounds):
            for version in random.sample(["-2", "-3"], 2):
                found[version].append(rate(brisk, url, inside[1], version, seconds))
        return found["-2"], found["-3"]
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("brisk")
    parser.add_argument("case", nargs="*")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tcp", default="cubic", help="TCP's congestion control (but over loopback)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    brisk = str(pathlib.Path(options.brisk).resolve())
    results = []
    with tempfile.TemporaryDirectory(prefix="brisk-goodput-") as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        (folder / "html").mkdir()
        (folder / "html/file").write_bytes(os.urandom(FILE_BYTES))
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
            "-subj", "/CN=localhost", "-keyout", str(folder / "a.key"), "-out", str(folder / "a.crt"), stderr=subprocess.DEVNULL)
        for case, weather in CASES.items():
            if options.case and not any(wanted in case for wanted in options.case):
                continue
            network = Network(*weather, seed=7, tcp=options.tcp) if weather else None
            try:
                h2, h3 = measure(brisk, folder, network, options.seconds, options.rounds)
            finally:
                if network:
                    network.close()
            ratios = [three / two for two, three in zip(h2, h3)]
            results.append({"case": case, "http2_mb_per_second": h2, "http3_mb_per_second": h3, "ratios": ratios})
            if not options.json:
                print(f"{case}: HTTP/2 {statistics.median(h2):.2f} MB/s, HTTP/3 {statistics.median(h3):.2f} MB/s, "
                      f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", flush=True)
    if options.json:
        print(json.dumps(results))


if __name__ == "__main__":
    sys.exit(main())
