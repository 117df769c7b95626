#!/usr/bin/env python3
"""Records what ls-qpack (`pip install pylsqpack`) encodes, with acknowledgments by its own decoder: lsqpack.txt.

A line is one of: `capacity BYTES`, `encoder HEX`, `section STREAM HEX`; behind a section one line per field, `NAME_HEX=VALUE_HEX`.
"""

import pathlib
import random

import pylsqpack


def request(rng: random.Random) -> list[tuple[bytes, bytes]]:
    """A head as browsers send it, some of it new each time."""
    fields = [
        (b":method", rng.choice([b"GET", b"GET", b"POST", b"OPTIONS"])),
        (b":scheme", b"https"),
        (b":authority", rng.choice([b"www.example.com", b"static.example.com", b"example.net:8443"])),
        (b":path", b"/" + b"/".join(rng.choice([b"a", b"img", b"index.html", b"%d" % rng.randrange(99)]) for _ in range(rng.randrange(4)))),
        (b"user-agent", b"Mozilla/5.0 (X11; Linux x86_64) Browser/%d" % rng.choice([1, 1, 1, 2])),
        (b"accept", rng.choice([b"*/*", b"text/html,application/xhtml+xml;q=0.9", b"image/webp"])),
        (b"cookie", b"session=%016x" % rng.choice([7, 7, 8, rng.randrange(1 << 60)])),
    ]
    if rng.random() < 0.3:
        fields.append((b"x-request-id", b"%x" % rng.randrange(1 << 64)))
    if rng.random() < 0.2:
        fields.append((b"x-odd", bytes(rng.randrange(256) for _ in range(rng.randrange(40)))))
    return fields


def main() -> None:
    rng = random.Random(9204)
    lines = []
    for capacity, blocked in [(4096, 16), (300, 0), (0, 0), (1000, 100)]:
        encoder, decoder = pylsqpack.Encoder(), pylsqpack.Decoder(capacity, blocked)
        lines.append(f"capacity {capacity}")
        first = encoder.apply_settings(capacity, blocked)
        if first:
            lines.append(f"encoder {first.hex()}")
            decoder.feed_encoder(first)
        for stream in range(0, 4 * 35, 4):
            fields = request(rng)
            instructions, section = encoder.encode(stream, fields)
            if instructions:
                lines.append(f"encoder {instructions.hex()}")
                decoder.feed_encoder(instructions)
            lines.append(f"section {stream} {section.hex()}")
            lines.extend(f"{name.hex()}={value.hex()}" for name, value in fields)
            acknowledged, back = decoder.feed_header(stream, section)
            assert back == fields
            if acknowledged and rng.random() < 0.8:
                encoder.feed_decoder(acknowledged)
    pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")


main()
