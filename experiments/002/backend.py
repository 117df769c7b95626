"""The slow application of article 002: backend.py PORT. A page of 48 KB takes 50 ms, and ten are made at a time.

However many ask, it gives 200 pages a second at most; what waits, waits.
"""

import asyncio
import sys

SECONDS_PER_PAGE = 0.05
PAGES_AT_A_TIME = 10
LINE = "<p>The quick brown fox jumps over the lazy dog, again and again, until the page is long enough.</p>\n"
BODY = ("<!doctype html><title>A slow page</title>\n" + LINE * 500)[: 48 * 1024].encode()
HEAD = (
    "HTTP/1.1 200 OK\r\nServer: slow\r\nContent-Type: text/html\r\n"
    f"Content-Length: {len(BODY)}\r\nConnection: %s\r\n\r\n"
)


async def serve(reader, writer, places):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            keep = head.split(b"\r\n")[0].endswith(b"/1.1") and b"connection: close" not in head.lower()
            async with places:
                await asyncio.sleep(SECONDS_PER_PAGE)
            writer.write((HEAD % ("keep-alive" if keep else "close")).encode() + BODY)
            await writer.drain()
            if not keep:
                break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    places = asyncio.Semaphore(PAGES_AT_A_TIME)
    server = await asyncio.start_server(
        lambda reader, writer: serve(reader, writer, places), "127.0.0.1", int(sys.argv[1]), backlog=1024
    )
    await server.serve_forever()


asyncio.run(main())
