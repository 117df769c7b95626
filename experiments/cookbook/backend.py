"""An application that waits: backend.py PORT MILLISECONDS [AT_A_TIME]. A page of 48 KB; the path's last part is its query."""

import asyncio
import sys

LINE = "<p>The quick brown fox jumps over the lazy dog, again and again, until the page is long enough.</p>\n"
BODY = ("<!doctype html><title>A page</title>\n" + LINE * 500)[: 48 * 1024].encode()
HEAD = (
    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: max-age=60\r\n"
    f"Content-Length: {len(BODY)}\r\nConnection: %s\r\n\r\n"
)


async def serve(reader, writer, places, seconds):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            keep = head.split(b"\r\n")[0].endswith(b"/1.1") and b"connection: close" not in head.lower()
            async with places:
                if seconds:
                    await asyncio.sleep(seconds)
            writer.write((HEAD % ("keep-alive" if keep else "close")).encode() + BODY)
            await writer.drain()
            if not keep:
                break
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    port, milliseconds, at_a_time = int(sys.argv[1]), int(sys.argv[2]), int((*sys.argv, 1000)[3])
    places = asyncio.Semaphore(at_a_time)
    server = await asyncio.start_server(
        lambda reader, writer: serve(reader, writer, places, milliseconds / 1000), "127.0.0.1", port, backlog=1024
    )
    await server.serve_forever()


asyncio.run(main())
