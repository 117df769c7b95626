#!/usr/bin/env python3
"""Plays the cases of the quic-interop-runner with aioquic as the client, over a network of its own.

    scripts/interop_http3.py BRISK [case ...]

BRISK is the server's program. aioquic is wanted (`pip install aioquic`, outside of this repository). The network is a relay in this
process, with the runner's rates; --seed repeats a run. Prints a line per case and ends with 1 if one has failed.
"""

import argparse
import asyncio
import contextlib
import os
import pathlib
import random
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted
from aioquic.tls import CipherSuite

CASE_SECONDS_MAX = 300
MIB = 1 << 20


class Network(asyncio.DatagramProtocol):
    """Datagrams between one client and the server: delayed, lost, changed, and seen from other ports."""

    def __init__(self, server, rng, delay=0.0, lost=0.0, changed=0.0, hole=None, rebind=None,
                 first=None):
        self.server, self.rng, self.delay, self.lost, self.changed = server, rng, delay, lost, changed
        # (seconds on, seconds off): whether anything passes.
        self.hole, self.rebind, self.first = hole, rebind, first
        self.begun = time.monotonic()
        self.client = self.back = None
        self.moves, self.up, self.down = 0, 0, 0
        self.mover = None

    async def open(self, port=0):
        loop = asyncio.get_running_loop()
        self.front, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=("127.0.0.1", port))
        await self.move("127.0.0.1")
        if self.rebind:
            self.mover = asyncio.create_task(self.keep_moving())
        return self.front.get_extra_info("sockname")[1]

    async def move(self, address):
        network = self

        class Back(asyncio.DatagramProtocol):
            def datagram_received(self, data, _):
                network.carry(data, False)

        loop = asyncio.get_running_loop()
        old, (self.back, _) = self.back, await loop.create_datagram_endpoint(Back, local_addr=(address, 0))
        if old:
            old.close()
            self.moves += 1

    async def keep_moving(self):
        every, addresses = self.rebind
        for number in range(1, 1000):
            await asyncio.sleep(every)
            await self.move(f"127.0.0.{1 + number % 200}" if addresses else "127.0.0.1")

    def datagram_received(self, data, address):
        self.client = address
        self.carry(data, True)

    def carry(self, data, is_up):
        if is_up:
            self.up += len(data)
        else:
            self.down += len(data)
            if self.first is not None:
                self.first.append((self.up, self.down))
        if self.hole:
            on, off = self.hole
            if (time.monotonic() - self.begun) % (on + off) > on:
                return
        if self.rng.random() < self.lost:
            return
        if self.rng.random() < self.changed:
            at = self.rng.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1:]
        asyncio.get_running_loop().call_later(self.delay, self.deliver, data, is_up)

    def deliver(self, data, is_up):
        if is_up and not self.back.is_closing():
            self.back.sendto(data, self.server)
        elif not is_up and self.client and not self.front.is_closing():
            self.front.sendto(data, self.client)

    def close(self):
        if self.mover:
            self.mover.cancel()
        self.front.close()
        self.back.close()


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.waiting, self.end, self.is_resumed, self.took_early = {}, None, False, False

    def begin(self, authority, path):
        stream = self._quic.get_next_available_stream_id()
        fields = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", authority.encode()), (b":path", path.encode())]
        self.http.send_headers(stream, fields, end_stream=True)
        self.waiting[stream] = [0, bytearray(), asyncio.get_running_loop().create_future()]
        self.transmit()
        return self.waiting[stream][2]

    async def get(self, path, authority="localhost"):
        return await self.begin(authority, path)

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.is_resumed, self.took_early = event.session_resumed, event.early_data_accepted
        if isinstance(event, ConnectionTerminated):
            self.end = event
            for _, _, future in self.waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError(f"{event.error_code:#x} {event.reason_phrase}"))
        for told in self.http.handle_event(event):
            it = self.waiting.get(told.stream_id)
            if it is None:
                continue
            if isinstance(told, HeadersReceived):
                it[0] = it[0] or int(dict(told.headers)[b":status"])
            if isinstance(told, DataReceived):
                it[1] += told.data
            if getattr(told, "stream_ended", False) and not it[2].done():
                it[2].set_result((it[0], bytes(it[1])))


class Site:
    """A server with files, in a folder of its own."""

    def __init__(self, binary, folder):
        self.folder = pathlib.Path(folder)
        self.rng = random.Random(1)
        self.files = {}
        for name, size in [("small", 500), ("32k", 32 * 1024), ("medium", MIB), ("large", 3 * MIB), ("larger", 10 * MIB)]:
            self.add(name, self.rng.randbytes(size))
        for number in range(2000):
            self.add(f"many/{number}", self.rng.randbytes(32))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-addext",
             "subjectAltName=DNS:localhost", "-keyout", self.folder / "a.key", "-out", self.folder / "a.crt", "-days", "2"],
            check=True, capture_output=True)
        # Long chains are what amplification limits are about.
        pem = (self.folder / "a.crt").read_text()
        (self.folder / "long.crt").write_text(pem * 9)
        self.ports = {name: free_port() for name in ["usual", "retry", "long", "six"]}
        listen = lambda name, address="127.0.0.1": f"listen {address}:{self.ports[name]} quic; listen {address}:{self.ports[name]} ssl;"
        (self.folder / "brisk.conf").write_text(f"""
            daemon off; pid {self.folder}/pid; error_log {self.folder}/error.log info; worker_processes 2;
            events {{ worker_connections 1024; }}
            http {{
                access_log off; root {self.folder}/html; ssl_certificate {self.folder}/a.crt; ssl_certificate_key {self.folder}/a.key;
                ssl_early_data on; http3_max_concurrent_streams 128; keepalive_requests 100000;
                server {{ {listen("usual")} server_name localhost; location /address {{ return 200 $remote_addr; }}
                         location /resumed {{ return 200 $ssl_session_reused; }} location /upload {{ client_max_body_size 10m; return 200 $content_length; }} }}
                server {{ {listen("retry")} server_name localhost; quic_retry on; }}
                server {{ {listen("long")} server_name localhost; ssl_certificate {self.folder}/long.crt; }}
                server {{ {listen("six", "[::1]")} server_name localhost; }}
            }}""")
        self.process = subprocess.Popen([binary, "-c", self.folder / "brisk.conf", "-p", self.folder], stderr=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.ports["usual"]), 1):
                break
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the server does not serve: {self.process.stderr.read().decode()}")
            time.sleep(0.05)

    def add(self, name, content):
        path = self.folder / "html" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.files["/" + name] = content

    def close(self):
        self.process.terminate()
        self.process.wait(30)


def free_port():
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        while True:
            tcp = socket.socket()
            tcp.bind(("127.0.0.1", 0))
            port = tcp.getsockname()[1]
            try:
                udp.bind(("127.0.0.1", port))
            except OSError:
                continue
            finally:
                tcp.close()
            return port


class Cases:
    def __init__(self, site, seed):
        self.site, self.seed = site, seed
        self.tickets, self.tokens = [], []

    def configuration(self, **more):
        configuration = QuicConfiguration(
            is_client=True, alpn_protocols=H3_ALPN, server_name="localhost", verify_mode=ssl.CERT_NONE,
            max_stream_data=4 * MIB, max_data=16 * MIB, idle_timeout=60, **more)
        return configuration

    @contextlib.asynccontextmanager
    async def client(self, port="usual", host="127.0.0.1", network=None, wait=True, **more):
        number = self.site.ports[port]
        relay = None
        if network is not None:
            relay = Network((host, number), random.Random(self.seed), **network)
            number = await relay.open()
        tickets, tokens = self.tickets, self.tokens
        async with connect(
                host, number, configuration=self.configuration(**more), create_protocol=Client, wait_connected=wait,
                session_ticket_handler=tickets.append, token_handler=tokens.append) as client:
            client.relay = relay
            yield client
        if relay:
            relay.close()

    async def fetch(self, client, *paths):
        answers = await asyncio.gather(*(client.get(path) for path in paths))
        for path, (status, body) in zip(paths, answers):
            assert status == 200 and body == self.site.files[path], f"{path}: {status}, {len(body)} bytes"

    async def transfers(self, *paths, **how):
        async with self.client(**how) as client:
            await self.fetch(client, *paths)
            return client.relay and client.relay.moves

    async def handshake(self):
        await self.transfers("/small")

    async def transfer(self):
        await self.transfers("/medium", "/large", "/larger")

    async def longrtt(self):
        await self.transfers("/small", network={"delay": 0.75})

    async def chacha20(self):
        await self.transfers("/large", cipher_suites=[CipherSuite.CHACHA20_POLY1305_SHA256])

    async def multiplexing(self):
        async with self.client() as client:
            names = [f"/many/{number}" for number in range(2000)]
            for at in range(0, len(names), 100):
                await self.fetch(client, *names[at:at + 100])

    async def retry(self):
        async with self.client(port="retry") as client:
            assert client._quic._retry_count == 1, "no Retry"
            await self.fetch(client, "/small")

    async def resumption(self, early=False):
        self.tickets.clear()
        async with self.client() as client:
            await self.fetch(client, "/32k")
            await asyncio.sleep(0.2)
        assert self.tickets, "no session ticket"
        async with self.client(wait=not early, session_ticket=self.tickets[-1], token=self.tokens[-1]) as client:
            if early:
                names = [f"/many/{number}" for number in range(10)]
                await self.fetch(client, *names)
                assert client.took_early, "early data was refused"
            await self.fetch(client, "/32k")
            assert client.is_resumed, "not resumed"

    async def zerortt(self):
        await self.resumption(early=True)

    async def http3(self):
        await self.transfers("/small", "/32k", "/medium")

    async def blackhole(self):
        async with self.client(network={"delay": 0.03, "hole": (5, 2)}) as client:
            begun = time.monotonic()
            while time.monotonic() - begun < 16:
                await self.fetch(client, "/large")

    async def keyupdate(self):
        async with self.client() as client:
            await self.fetch(client, "/32k")
            client.request_key_update()
            await self.fetch(client, "/large")
            client.request_key_update()
            await self.fetch(client, "/32k")

    async def amplificationlimit(self):
        seen = []
        async with self.client(port="long", network={"delay": 0.02, "lost": 0.0, "first": seen}) as client:
            await self.fetch(client, "/small")
        # Until the client's second flight has come, its first one allows three times its size.
        first = seen[0][0]
        before = [down for up, down in seen if up <= first]
        assert max(before) <= 3 * first, f"{max(before)} bytes for {first}"

    async def handshakes(self, **network):
        for number in range(50):
            self.seed += 1
            begun = time.monotonic()
            try:
                async with self.client(network={"delay": 0.015, **network}) as client:
                    await self.fetch(client, "/small")
            except ConnectionError as error:
                seconds = time.monotonic() - begun
                raise ConnectionError(f"{error}: the {number + 1}th of 50, after {seconds:.1f} s (seed {self.seed})") from error

    async def handshakeloss(self):
        await self.handshakes(lost=0.3)

    async def handshakecorruption(self):
        await self.handshakes(changed=0.3)

    async def transferloss(self):
        await self.transfers("/medium", network={"delay": 0.015, "lost": 0.02})

    async def transfercorruption(self):
        await self.transfers("/medium", network={"delay": 0.015, "changed": 0.02})

    async def ipv6(self):
        await self.transfers("/large", port="six", host="::1")

    async def rebind_port(self, addresses=False):
        async with self.client(network={"delay": 0.03, "rebind": (1.0, addresses)}) as client:
            begun = time.monotonic()
            while time.monotonic() - begun < 6:
                await self.fetch(client, "/large")
            assert client.relay.moves >= 4

    async def rebind_addr(self):
        await self.rebind_port(addresses=True)

    async def connectionmigration(self):
        async with self.client() as client:
            before = await client.get("/address")
            loop = asyncio.get_running_loop()
            client.change_connection_id()
            # The library's sockets are IPv6's; the new one takes the place of the old one by itself.
            await loop.create_datagram_endpoint(lambda: client, local_addr=("::ffff:127.0.0.9", 0))
            for _ in range(20):
                await self.fetch(client, "/32k")
                after = await client.get("/address")
                if after != before:
                    break
            assert (before[1], after[1]) == (b"127.0.0.1", b"127.0.0.9"), (before, after)

    async def versionnegotiation(self):
        with socket.socket(type=socket.SOCK_DGRAM) as udp:
            udp.setblocking(False)
            packet = b"\xc0\x1a\x2a\x3a\x4a\x08" + os.urandom(8) + b"\x08clientid" + bytes(1200)
            loop = asyncio.get_running_loop()
            await loop.sock_sendto(udp, packet, ("127.0.0.1", self.site.ports["usual"]))
            answer = await asyncio.wait_for(loop.sock_recv(udp, 1500), 5)
            assert answer[0] & 0x80 and answer[1:5] == bytes(4) and b"\0\0\0\1" in answer[5:]


NAMES = ("versionnegotiation handshake transfer longrtt chacha20 multiplexing retry resumption zerortt http3 blackhole keyupdate "
         "amplificationlimit handshakeloss transferloss handshakecorruption transfercorruption ipv6 rebind_port rebind_addr "
         "connectionmigration").split()


async def play(cases, name):
    begun = time.monotonic()
    try:
        await asyncio.wait_for(getattr(cases, name)(), CASE_SECONDS_MAX)
        result = "ok"
    except (Exception, asyncio.TimeoutError) as error:
        result = f"FAILED {type(error).__name__}: {error}"
    print(f"{name:20} {time.monotonic() - begun:6.1f} s  {result}", flush=True)
    return result == "ok"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("brisk")
    parser.add_argument("cases", nargs="*", help=" ".join(NAMES))
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="interop-")
    os.chmod(folder, 0o755)
    site = Site(args.brisk, folder)
    try:
        cases = Cases(site, args.seed)
        results = [asyncio.run(play(cases, name)) for name in args.cases or NAMES]
        print(f"{sum(results)} of {len(results)} cases")
    finally:
        site.close()
        shutil.rmtree(folder)
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
