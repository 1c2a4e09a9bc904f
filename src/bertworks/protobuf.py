"""The wire format of protocol buffers, read without their schema.

TensorFlow's checkpoint index and SentencePiece's model file are both small messages in this format;
a dozen lines read them, so neither library is needed.
"""

from __future__ import annotations

from collections.abc import Iterator


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The unsigned integer of 7-bit groups that starts at `at`, and where it ends."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number runs past the end of the message")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data: bytes | memoryview) -> Iterator[tuple[int, int | bytes]]:
    """Each field of a message as (number, value): integers for varints, raw bytes for everything else."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = varint(data, at)
            yield number, value
            continue
        if wire == 2:
            size, at = varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"unknown wire type {wire}")
        if at + size > len(data):
            raise ValueError("a field runs past the end of the message")
        yield number, bytes(data[at : at + size])
        at += size
