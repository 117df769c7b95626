#!/usr/bin/env python3
"""Plays cases of the quic-interop-runner with libcurl as the client: ngtcp2 and nghttp3, on BoringSSL.

    scripts/interop_http3_curl.py BRISK [case ...]

BRISK is the server's program. curl_cffi, which brings such a libcurl, and aioquic, whose script has the site and the network, are wanted
(`pip install curl_cffi aioquic`, outside of this repository). Prints a line per case and ends with 1 if one has failed.
"""

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import sys
import tempfile
import time

import curl_cffi
from curl_cffi import AsyncSession, CurlHttpVersion, CurlOpt

from interop_http3 import MIB, Network, Site, play


class Cases:
    def __init__(self, site, seed):
        self.site, self.seed = site, seed

    @contextlib.asynccontextmanager
    async def client(self, port="usual", host="127.0.0.1", network=None, **options):
        number, relay = self.site.ports[port], None
        if network is not None:
            relay = Network((host, number), random.Random(self.seed), **network)
            number = await relay.open()
        # Requests wait for the connection that is being made: they share it.
        options = {CurlOpt.PIPEWAIT: 1, **options}
        async with AsyncSession(verify=False, http_version=CurlHttpVersion.V3ONLY, timeout=120, max_clients=100,
                                curl_options=options) as session:
            session.relay = relay
            session.base = f"https://[{host}]:{number}" if ":" in host else f"https://{host}:{number}"
            yield session
        if relay:
            relay.close()

    async def ask(self, session, path, **more):
        answer = await session.request("POST" if "data" in more else "GET", session.base + path, **more)
        assert answer.http_version == CurlHttpVersion.V3, answer.http_version
        assert answer.status_code == 200, answer.status_code
        return answer.content

    async def fetch(self, session, *paths):
        answers = await asyncio.gather(*(self.ask(session, path) for path in paths))
        for path, body in zip(paths, answers):
            assert body == self.site.files[path], f"{path}: {len(body)} bytes"

    async def transfers(self, *paths, **how):
        async with self.client(**how) as session:
            for path in paths:
                await self.fetch(session, path)

    async def handshake(self):
        await self.transfers("/small")

    async def transfer(self):
        await self.transfers("/medium", "/large", "/larger")

    async def parallel(self):
        async with self.client() as session:
            await self.fetch(session, "/small", "/32k", "/medium", "/large", "/larger")

    async def multiplexing(self):
        async with self.client() as session:
            await self.fetch(session, "/small")
            names = [f"/many/{number}" for number in range(2000)]
            for at in range(0, len(names), 100):
                await self.fetch(session, *names[at:at + 100])

    async def upload(self):
        async with self.client() as session:
            assert await self.ask(session, "/upload", data=os.urandom(3 * MIB)) == str(3 * MIB).encode()

    async def longrtt(self):
        await self.transfers("/small", network={"delay": 0.75})

    async def retry(self):
        await self.transfers("/small", "/medium", port="retry")

    async def resumption(self):
        async with self.client() as session:
            assert await self.ask(session, "/resumed") == b"."
        async with self.client(**{}) as session:
            session.curl_options[CurlOpt.FORBID_REUSE] = 1
            seen = [await self.ask(session, "/resumed") for _ in range(4)]
            assert b"r" in seen, f"never resumed: {seen}"

    async def amplificationlimit(self):
        seen = []
        await self.transfers("/small", port="long", network={"delay": 0.02, "first": seen})
        first = seen[0][0]
        before = [down for up, down in seen if up <= first]
        assert max(before) <= 3 * first, f"{max(before)} bytes for {first}"

    async def blackhole(self):
        async with self.client(network={"delay": 0.03, "hole": (5, 2)}) as session:
            begun = time.monotonic()
            while time.monotonic() - begun < 16:
                await self.fetch(session, "/large")

    async def handshakes(self, **network):
        given_up = 0
        for _ in range(50):
            self.seed += 1
            try:
                await self.transfers("/small", network={"delay": 0.015, **network})
            except curl_cffi.requests.exceptions.RequestException as error:
                # libcurl gives a handshake ten seconds: with waits that double, that is three or four losses in a row.
                if "HANDSHAKE_TIMEOUT" not in str(error):
                    raise
                given_up += 1
        assert given_up <= 5, f"{given_up} of 50 handshakes took longer than ten seconds"
        print(f"  {given_up} of 50 handshakes took longer than the client's ten seconds")

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
        async with self.client(network={"delay": 0.03, "rebind": (1.0, addresses)}) as session:
            begun = time.monotonic()
            while time.monotonic() - begun < 6:
                await self.fetch(session, "/large")
            assert session.relay.moves >= 4

    async def rebind_addr(self):
        await self.rebind_port(addresses=True)


NAMES = ("handshake transfer parallel multiplexing upload longrtt retry resumption amplificationlimit blackhole handshakeloss transferloss "
         "handshakecorruption transfercorruption ipv6 rebind_port rebind_addr").split()


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
        print(curl_cffi.Curl().version().decode())
        cases = Cases(site, args.seed)
        results = [asyncio.run(play(cases, name)) for name in args.cases or NAMES]
        print(f"{sum(results)} of {len(results)} cases")
    finally:
        site.close()
        shutil.rmtree(folder)
    sys.exit(0 if all(results) else 1)


main()
