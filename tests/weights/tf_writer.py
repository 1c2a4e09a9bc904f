"""Writes TensorFlow checkpoint bundles for the tests, sharing no code with the reader."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

MAGIC = 0xDB4775248B80FB57
TYPES = {
    "float32": 1, "float64": 2, "int32": 3, "string": 7, "int64": 9, "bfloat16": 14, "float16": 19
}  # fmt: skip


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = _crc_table()


def crc32c(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state = state >> 8 ^ TABLE[(state ^ byte) & 0xFF]
    return state ^ 0xFFFFFFFF


def masked(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value) if value else b""


def text(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def entry_message(claim: Mapping[str, Any]) -> bytes:
    shape = b"".join(text(2, number(1, size)) for size in claim["shape"])
    head = number(1, claim["dtype"]) + text(2, shape) + number(3, claim["shard"]) + number(4, claim["offset"])
    slices = text(7, b"") if claim.get("slices") else b""
    return head + number(5, claim["size"]) + varint(6 << 3 | 5) + struct.pack("<I", claim["crc"]) + slices


def block(rows: list[tuple[bytes, bytes]], every: int = 4) -> bytes:
    """Keys compressed against the one before, whole again at every `every`-th."""
    out, restarts, last = bytearray(), [], b""
    for at, (key, value) in enumerate(rows):
        shared = 0
        if at % every == 0:
            restarts.append(len(out))
        else:
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    restarts = restarts or [0]
    return bytes(out) + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def snappy_literal(data: bytes) -> bytes:
    """Snappy's format without using a single copy."""
    chunks = [data[at : at + 60] for at in range(0, len(data), 60)]
    return varint(len(data)) + b"".join(bytes([len(chunk) - 1 << 2]) + chunk for chunk in chunks)


def table(rows: list[tuple[bytes, bytes]], rows_per_block: int = 7, *, compressed: bool = False) -> bytes:
    out = bytearray()

    def add(contents: bytes) -> bytes:
        contents = snappy_literal(contents) if compressed else contents
        handle = varint(len(out)) + varint(len(contents))
        body = contents + bytes([compressed])
        out.extend(body + struct.pack("<I", masked(body)))
        return handle

    index = []
    for at in range(0, len(rows), rows_per_block):
        part = rows[at : at + rows_per_block]
        index.append((part[-1][0], add(block(part))))
    footer = add(block([])) + add(block(index, every=1))
    return bytes(out) + footer.ljust(40, b"\0") + struct.pack("<Q", MAGIC)


def write_bundle(
    prefix: Path,
    tensors: Mapping[str, np.ndarray],
    *,
    shards: int = 1,
    claims: Mapping[str, Mapping[str, Any]] | None = None,
    types: Mapping[str, str] | None = None,
    swap: bool = False,
    compressed: bool = False,
) -> None:
    """`claims` overrides what the index says of a tensor; `swap` puts the rows out of order."""
    data = [bytearray() for _ in range(shards)]
    rows = [(b"", number(1, shards) + text(3, number(1, 1)))]
    for at, name in enumerate(sorted(tensors)):
        array = tensors[name]
        raw = array.tobytes()
        shard = at % shards
        claim = {
            "dtype": TYPES[(types or {}).get(name, array.dtype.name)], "shape": array.shape, "shard": shard,
            "offset": len(data[shard]), "size": len(raw), "crc": masked(raw),
        }  # fmt: skip
        data[shard] += raw
        rows.append((name.encode(), entry_message({**claim, **(claims or {}).get(name, {})})))
    if swap:
        rows[-1], rows[-2] = rows[-2], rows[-1]
    prefix.parent.mkdir(parents=True, exist_ok=True)
    prefix.with_name(prefix.name + ".index").write_bytes(table(rows, compressed=compressed))
    for shard, content in enumerate(data):
        prefix.with_name(f"{prefix.name}.data-{shard:05d}-of-{shards:05d}").write_bytes(content)
