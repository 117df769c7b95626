#!/usr/bin/env python3
"""An Initial flood: what others notice of it, and what it costs in memory.

    scripts/http3_flood.py BRISK [--rate N] [--seconds N] [--retry auto|on|off]

BRISK is the server and the generator of the others' requests (a release build); aioquic is wanted (`pip install aioquic`, outside of this
repository), for ClientHellos. Every datagram is a whole Initial packet of a client that never goes on, from another address of 127/8. Clients that
ask for a small file at a steady rate are measured for as long without the flood and with it. Prints both latencies, the server's memory
and its own counters. Run it on a machine with CPUs to spare: flood, server and clients share them.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection

CONF = """daemon off; worker_processes 1; pid brisk.pid; error_log error.log;
events {{ worker_connections 16384; }}
http {{
    access_log off;
    server {{
        listen 127.0.0.1:{port} ssl; listen 127.0.0.1:{port} quic; quic_retry {retry};
        ssl_certificate a.crt; ssl_certificate_key a.key;
        location / {{ return 200 "a small answer\\n"; }}
    }}
    server {{ listen 127.0.0.1:{metrics}; location / {{ metrics; }} }}
}}
"""
SOCKETS = 200


def initials(count):
    """First datagrams of so many clients."""
    found = []
    for _ in range(count):
        client = QuicConnection(configuration=QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name="localhost",
                                                                verify_mode=ssl.CERT_NONE))
        client.connect(("127.0.0.1", 443), now=0.0)
        found.append(client.datagrams_to_send(now=0.0)[0][0])
    return found


def flood(number, packets, to, rate, seconds, sent):
    """Sends at this rate, from many addresses in turn."""
    sockets = []
    for at in range(SOCKETS):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.bind((f"127.{100 + number}.{at}.{random.randrange(1, 255)}", 0))
        # Answers go to nobody.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        one.setblocking(False)
        sockets.append(one)
    begun, count = time.monotonic(), 0
    while (now := time.monotonic() - begun) < seconds:
        due = int(now * rate)
        if count >= due:
            time.sleep(0.0005)
            continue
        for _ in range(min(due - count, 500)):
            try:
                sockets[count % SOCKETS].sendto(packets[count % len(packets)], to)
            except (BlockingIOError, ConnectionRefusedError):
                pass
            count += 1
    with sent.get_lock():
        sent.value += count


def memory(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+)", text, re.M).group(1)) / 1024


def metrics(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
        lines = answer.read().decode().splitlines()
    return [line for line in lines if line.startswith("brisk_quic_") and not line.endswith(" 0")]


def others(brisk, port, seconds):
    """Latencies of clients at a steady rate."""
    command = [brisk, "bench", "-q", "--json", "-3", "--rate", "500", "-c", "16", "-t", "1", "-d", f"{seconds}s",
               f"https://127.0.0.1:{port}/"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    errors = sum(found["errors"].values()) + found["non_2xx"]
    return found["service_us"], found["responses"], errors


def free_ports():
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("brisk")
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--retry", default="auto")
    parser.add_argument("--initials", type=int, default=4000)
    options = parser.parse_args()
    brisk = str(pathlib.Path(options.brisk).resolve())
    packets = initials(options.initials)
    with tempfile.TemporaryDirectory(prefix="brisk-flood-") as name:
        folder, (port, status) = pathlib.Path(name), free_ports()
        folder.chmod(0o755)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-keyout", f"{name}/a.key", "-out", f"{name}/a.crt"], check=True, capture_output=True)
        (folder / "brisk.conf").write_text(CONF.format(port=port, metrics=status, retry=options.retry))
        server = subprocess.Popen([brisk, "-p", f"{name}/", "-c", "brisk.conf"])
        try:
            for _ in range(200):
                if subprocess.run([brisk, "get", "-3", "-k", f"https://127.0.0.1:{port}/"], capture_output=True, check=False).returncode == 0:
                    break
                time.sleep(0.05)
            children = pathlib.Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
            worker = int(children[0]) if children else server.pid
            calm, count, errors = others(brisk, port, options.seconds)
            before = memory(worker)
            print(f"calm: p50 {calm['p50'] / 1e3:.3f} ms, p99 {calm['p99'] / 1e3:.3f} ms, {count} answers, {errors} errors; {before:.1f} MiB", flush=True)
            sent, senders = multiprocessing.Value("Q", 0), []
            for number in range(2):
                arguments = (number, packets[number::2], ("127.0.0.1", port), options.rate / 2, options.seconds, sent)
                senders.append(multiprocessing.Process(target=flood, args=arguments))
                senders[-1].start()
            wet, count, errors = others(brisk, port, options.seconds)
            during = memory(worker)
            for sender in senders:
                sender.join()
            print(f"flood: p50 {wet['p50'] / 1e3:.3f} ms, p99 {wet['p99'] / 1e3:.3f} ms, {count} answers, {errors} errors; {during:.1f} MiB; "
                  f"{sent.value / options.seconds:.0f} Initials/s were sent")
            print(f"p99: {wet['p99'] / calm['p99']:.2f} times; memory: {during - before:+.1f} MiB")
            print("\n".join(metrics(status)))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()


if __name__ == "__main__":
    sys.exit(main())
