"""TensorFlow's checkpoint bundles (`NAME.index` + `NAME.data-00000-of-0000N`), read without TensorFlow.

The index is a sorted table in LevelDB's format: blocks of prefix-compressed keys, each block closed by a
checksum. A value is a small message that says where in which data file a tensor's bytes lie. Everything the
index claims is checked against the files before it is used, and every byte against its checksum, because a
checkpoint is a file from a stranger.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertworks import protobuf
from bertworks.errors import WeightsError

Array = npt.NDArray[np.generic]
Words = npt.NDArray[np.uint32]

MAGIC = 0xDB4775248B80FB57
FOOTER = 48  # two block handles padded to 40 bytes, then the magic number
TRAILER = 5  # after each block: one byte of compression type, four of checksum
LARGEST_INDEX = 1 << 26
LONGEST_NAME = 4096
GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"  # TensorFlow 2 keeps its Python objects here; there is no tensor in it

# tensorflow/core/framework/types.proto. NumPy has no bfloat16, the upper half of a float32's bits.
DTYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 9: "int64", 10: "bool",
    14: "bfloat16", 19: "float16",
}  # fmt: skip
STORED_AS = {"bfloat16": "uint16"}


@dataclass(frozen=True)
class _Entry:
    """Where one tensor's bytes are, as the index claims."""

    dtype: int = 0
    shape: tuple[int, ...] = ()
    shard: int = 0
    offset: int = 0
    size: int = 0
    checksum: int = 0
    partitioned: bool = False

    @property
    def type_name(self) -> str:
        return DTYPES.get(self.dtype, f"type {self.dtype}")


@dataclass(frozen=True)
class _Bundle:
    """A checked index: every entry lies inside its data file and holds as many bytes as its shape says."""

    prefix: Path
    shards: int
    entries: Mapping[str, _Entry] = field(default_factory=dict)

    def data_file(self, shard: int) -> Path:
        return self.prefix.with_name(f"{self.prefix.name}.data-{shard:05d}-of-{self.shards:05d}")


def checkpoint_prefix(path: Path) -> Path:
    """The bundle's prefix, given the prefix itself, its `.index` file, or the folder that holds just one."""
    if path.is_dir():
        found = sorted(path.glob("*.index"))
        if len(found) != 1:
            names = ", ".join(each.name for each in found[:4]) or "none"
            raise WeightsError(
                f"{path}: expected one checkpoint index (*.index) in this folder, found {names}",
                "Name the one you want." if found else "A TensorFlow checkpoint is NAME.index with its data files.",
            )
        path = found[0]
    prefix = path.with_suffix("") if path.suffix == ".index" else path
    if not _index_file(prefix).is_file():
        way_out = "A checkpoint is NAME.index with NAME.data-00000-of-00001."
        if prefix.is_file() and ".data-" not in prefix.name:
            way_out = "One file without an index is TensorFlow's first format; save it again with Saver version 2."
        raise WeightsError(f"{_index_file(prefix)}: no such checkpoint index", way_out)
    return prefix


def list_tensors(prefix: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Each tensor's dtype (NumPy's spelling, or `bfloat16`) and shape, without reading the data."""
    bundle = _open(checkpoint_prefix(prefix))
    return {name: (entry.type_name, entry.shape) for name, entry in bundle.entries.items()}


def read_checkpoint(prefix: Path) -> dict[str, Array]:
    """Every tensor by its TensorFlow name, its checksum verified.

    The arrays are read-only views of the mapped data files, so nothing is copied; except bfloat16, which
    comes back as float32 (exactly: it is a float32 with the lower half cut off).
    """
    bundle = _open(checkpoint_prefix(prefix))
    mapped = {shard: _map(bundle.data_file(shard)) for shard in {e.shard for e in bundle.entries.values()}}
    return {name: _tensor(bundle, mapped[e.shard], name, e) for name, e in bundle.entries.items()}


def _tensor(bundle: _Bundle, data: npt.NDArray[np.uint8], name: str, entry: _Entry) -> Array:
    raw = data[entry.offset : entry.offset + entry.size]
    if masked_crc32c(raw) != entry.checksum:
        raise WeightsError(
            f"{bundle.data_file(entry.shard)}: tensor {name} does not match its checksum",
            "The file is damaged; fetch or copy it again.",
        )
    stored = np.dtype(STORED_AS.get(entry.type_name, entry.type_name)).newbyteorder("<")
    values = raw.view(stored).reshape(entry.shape)
    if entry.type_name == "bfloat16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(stored.newbyteorder("="), copy=False)


def _map(path: Path) -> npt.NDArray[np.uint8]:
    """The file's bytes, mapped read-only; an empty file cannot be mapped and needs no map."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return np.empty(0, np.uint8)
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


# --- the index ----------------------------------------------------------------------------------------------


def _index_file(prefix: Path) -> Path:
    return prefix.with_name(prefix.name + ".index")


def _open(prefix: Path) -> _Bundle:
    path = _index_file(prefix)
    if path.stat().st_size > LARGEST_INDEX:
        raise WeightsError(f"{path}: an index of {path.stat().st_size} bytes is not one of a checkpoint's")
    try:
        rows = dict(_table(path.read_bytes()))
        if "" not in rows:
            raise ValueError("it has no header")
        shards, little = _header(rows.pop(""))
        rows.pop(GRAPH, None)
        entries = {name: _entry(value) for name, value in rows.items()}
    except (ValueError, struct.error) as error:
        raise WeightsError(f"{path}: not a readable checkpoint index: {error}", "Fetch or copy it again.") from None
    if not little:
        raise WeightsError(f"{path}: the tensors are stored big-endian, which is not supported")
    bundle = _Bundle(prefix, shards, entries)
    _check(bundle)
    return bundle


def _check(bundle: _Bundle) -> None:
    """Refuse an index whose claims do not fit the data files, or that uses the same bytes twice."""
    sizes: dict[int, int] = {}
    ends: dict[int, int] = {}
    for name, entry in sorted(bundle.entries.items(), key=lambda item: (item[1].shard, item[1].offset)):
        if not 0 <= entry.shard < bundle.shards:
            _refuse(bundle, name, f"says it lies in data file {entry.shard} of {bundle.shards}")
        path = bundle.data_file(entry.shard)
        if entry.shard not in sizes:
            if not path.is_file():
                raise WeightsError(f"{path}: missing, and tensor {name} is in it", "Put all its files in one folder.")
            sizes[entry.shard] = path.stat().st_size
        _check_entry(bundle, name, entry)
        if entry.offset + entry.size > sizes[entry.shard]:
            claim = f"ends at byte {entry.offset + entry.size}"
            raise WeightsError(
                f"{path}: tensor {name} {claim} of a file of {sizes[entry.shard]}",
                "The file is cut short; fetch or copy it again.",
            )
        if entry.size and entry.offset < ends.get(entry.shard, 0):
            _refuse(bundle, name, "shares its bytes with another tensor")
        ends[entry.shard] = max(ends.get(entry.shard, 0), entry.offset + entry.size)


def _check_entry(bundle: _Bundle, name: str, entry: _Entry) -> None:
    if entry.partitioned:
        _refuse(bundle, name, "is partitioned over several slices, which is not supported")
    if entry.dtype not in DTYPES:
        _refuse(bundle, name, f"has TensorFlow's {entry.type_name}, which holds no numbers a model uses")
    if entry.offset < 0 or entry.size < 0 or any(not 0 <= n < 1 << 31 for n in entry.shape) or len(entry.shape) > 8:
        _refuse(bundle, name, f"claims offset {entry.offset}, size {entry.size}, shape {list(entry.shape)}")
    expected = math.prod(entry.shape) * np.dtype(STORED_AS.get(entry.type_name, entry.type_name)).itemsize
    if entry.size != expected:
        claim = f"has {entry.size} bytes where {entry.type_name} {list(entry.shape)} needs {expected}"
        _refuse(bundle, name, claim)


def _refuse(bundle: _Bundle, name: str, claim: str) -> None:
    raise WeightsError(f"{_index_file(bundle.prefix)}: tensor {name} {claim}")


def _header(message: bytes) -> tuple[int, bool]:
    """(number of data files, little-endian?) of a BundleHeaderProto."""
    values = {number: _integer(value) for number, value in protobuf.fields(message) if number in (1, 2)}
    shards = values.get(1, 0)
    if not 0 < shards <= 99_999:
        raise ValueError(f"its header says {shards} data files")
    return shards, values.get(2, 0) == 0


def _entry(message: bytes) -> _Entry:
    """A BundleEntryProto; fields it does not name have the value zero."""
    numbers = {1: 0, 3: 0, 4: 0, 5: 0}
    shape: tuple[int, ...] = ()
    checksum, partitioned = 0, False
    for number, value in protobuf.fields(message):
        if number in numbers:
            numbers[number] = _integer(value)
        elif number == 2 and isinstance(value, bytes):
            shape = _shape(value)
        elif number == 6 and isinstance(value, bytes):
            checksum = int(struct.unpack("<I", value)[0])
        elif number == 7:
            partitioned = True
    return _Entry(numbers[1], shape, numbers[3], numbers[4], numbers[5], checksum, partitioned)


def _shape(message: bytes) -> tuple[int, ...]:
    """A TensorShapeProto: its field 2 is one dimension each, whose field 1 is the size."""
    dimensions = []
    for number, value in protobuf.fields(message):
        if number == 2 and isinstance(value, bytes):
            sizes = [_integer(size) for key, size in protobuf.fields(value) if key == 1]
            dimensions.append(sizes[-1] if sizes else 0)
        elif number == 3 and value:
            raise ValueError("a tensor of unknown rank")
    return tuple(dimensions)


def _integer(value: int | bytes) -> int:
    """A varint as the signed 64-bit number it stands for."""
    if isinstance(value, bytes):
        raise ValueError("text where a number belongs")
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


# --- the sorted table ---------------------------------------------------------------------------------------


def _table(data: bytes) -> Iterator[tuple[str, bytes]]:
    """(key, value) of every row, in order; keys must rise strictly, across blocks too."""
    if len(data) < FOOTER or struct.unpack_from("<Q", data, len(data) - 8)[0] != MAGIC:
        raise ValueError("its last bytes are not a table's (cut short, or another format)")
    footer = data[-FOOTER:-8]
    at = 0
    for _ in range(2):  # the first handle is of the meta index, which a checkpoint leaves empty
        _, at = protobuf.varint(footer, at)
    index = _block(data, footer[at:])
    last: bytes | None = None
    for _, handle in _rows(index):
        for key, value in _rows(_block(data, handle)):
            if last is not None and key <= last:
                raise ValueError("its names are out of order")
            last = key
            yield key.decode("utf-8"), value


def _block(data: bytes, handle: bytes) -> bytes:
    """One block's contents; `handle` says (offset, size)."""
    offset, at = protobuf.varint(handle, 0)
    size, _ = protobuf.varint(handle, at)
    end = offset + size
    if end + TRAILER > len(data) - FOOTER:
        raise ValueError("a block reaches past the end of the file")
    if masked_crc32c(np.frombuffer(data, np.uint8, size + 1, offset)) != struct.unpack_from("<I", data, end + 1)[0]:
        raise ValueError("a block does not match its checksum (the file is damaged)")
    contents, kind = data[offset:end], data[end]
    if kind not in (0, 1):
        raise ValueError(f"a block is compressed in unknown way {kind}")
    return snappy(contents) if kind == 1 else contents


def _rows(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(key, value) of one block. Each key gives only what differs from the one before it."""
    if len(block) < 4:
        raise ValueError("a block is too short")
    end = len(block) - 4 * (1 + struct.unpack_from("<I", block, len(block) - 4)[0])
    if end < 0:
        raise ValueError("a block has more restart points than bytes")
    at, key = 0, b""
    while at < end:
        shared, at = protobuf.varint(block, at)
        fresh, at = protobuf.varint(block, at)
        length, at = protobuf.varint(block, at)
        if shared > len(key) or at + fresh + length > end:
            raise ValueError("a row reaches past its block")
        if shared + fresh > LONGEST_NAME:  # repeated prefixes would otherwise grow without end
            raise ValueError(f"a name of {shared + fresh} bytes")
        key = key[:shared] + block[at : at + fresh]
        yield key, block[at + fresh : at + fresh + length]
        at += fresh + length


def snappy(data: bytes) -> bytes:
    """Snappy's raw format: runs of literal bytes, and copies from what was already written.

    No copy makes more than 64 bytes of two, so a declared length beyond 32 times the input is a lie.
    """
    length, at = protobuf.varint(data, 0)
    if length > 32 * len(data):
        raise ValueError("a compressed block declares an impossible length")
    out = bytearray()
    while at < len(data):
        tag, kind = data[at], data[at] & 3
        at += 1
        if kind == 0:
            size = (tag >> 2) + 1
            if size > 60:
                width = size - 60
                size, at = int.from_bytes(data[at : at + width], "little") + 1, at + width
            out += data[at : at + size]
            at += size
        else:
            width = (1, 2, 4)[kind - 1]
            size = (tag >> 2 & 7) + 4 if kind == 1 else (tag >> 2) + 1
            back = int.from_bytes(data[at : at + width], "little") | ((tag >> 5) << 8 if kind == 1 else 0)
            at += width
            if not 0 < back <= len(out):
                raise ValueError("a compressed block copies from before its start")
            piece = bytes(out[-back:][:size])
            out += (piece * (size // back + 1))[:size]
        if len(out) > length or at > len(data):
            raise ValueError("a compressed block runs over its length")
    if len(out) != length:
        raise ValueError("a compressed block is cut short")
    return bytes(out)


# --- the checksum -------------------------------------------------------------------------------------------
#
# CRC-32C byte by byte would take minutes in Python. But the remainder is linear over GF(2): a text's is the
# exclusive-or of each word's, moved on by the bytes that follow it. So a text is laid out in rows of LANES
# words, the rows are folded onto one another ("move on by one row, add the next"), and the last row is folded
# in halves. Every step is a handful of NumPy operations on whole rows: about 1 GB a second.

LANES = 1 << 15
POLYNOMIAL = 0x82F63B78


def masked_crc32c(data: npt.NDArray[np.uint8]) -> int:
    """LevelDB's checksum of `data` [bytes]: CRC-32C, turned and shifted, so a text may hold its own."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c(data: npt.NDArray[np.uint8]) -> int:
    """CRC-32C (Castagnoli) of `data` [bytes]."""
    whole = len(data) // 4
    state = 0xFFFFFFFF
    if whole:
        state = _fold(data[: 4 * whole].view("<u4"))
    step = _tables(1)[0]
    for byte in data[4 * whole :].tolist():
        state = state >> 8 ^ int(step[(state ^ byte) & 0xFF])
    return state ^ 0xFFFFFFFF


def _fold(words: Words) -> int:
    """The running remainder after `words` [n], started from all ones."""
    head = len(words) % LANES
    row = np.zeros(LANES if len(words) >= LANES else 1 << (head - 1).bit_length(), np.uint32)
    if head:  # zeros in front change nothing, so the first row is padded there
        row[-head:] = words[:head]
        row[-head] ^= 0xFFFFFFFF
    else:
        row[:] = words[:LANES]
        row[0] ^= 0xFFFFFFFF
    for start in range(head or LANES, len(words), LANES):
        row = _move(row, 4 * LANES)
        row ^= words[start : start + LANES]
    while len(row) > 1:
        half = len(row) // 2
        row = _move(row[:half], 4 * half) ^ row[half:]
    return int(_move(row, 4)[0])


def _move(row: Words, distance: int) -> Words:
    """Each remainder of `row` [n] after `distance` more zero bytes."""
    low, high = _tables(distance)
    halves = row.view(np.uint16).reshape(-1, 2)
    moved: Words = low[halves[:, 0]]
    moved ^= high[halves[:, 1]]
    return moved


@lru_cache(maxsize=64)
def _tables(distance: int) -> tuple[Words, Words]:
    """What each lower and each upper half of a remainder becomes after `distance` zero bytes: 2 × [65536]."""
    columns = _operator(distance)
    return _span(columns[:16]), _span(columns[16:])


def _span(columns: Words) -> Words:
    """The exclusive-or of every subset of `columns`, in the order of the subset's bits."""
    table = np.zeros(1, np.uint32)
    for column in columns:
        table = np.concatenate([table, table ^ column])
    return table


def _operator(distance: int) -> Words:
    """The 32 columns of "move on by `distance` zero bytes" (a power of two), by squaring from one byte's."""
    columns = np.array([_one_byte(1 << bit) for bit in range(32)], np.uint32)
    for _ in range(distance.bit_length() - 1):
        bits = columns[:, None] >> np.arange(32, dtype=np.uint32) & 1
        columns = np.bitwise_xor.reduce(np.where(bits, columns[None, :], np.uint32(0)), axis=1)
    return columns


def _one_byte(state: int) -> int:
    for _ in range(8):
        state = state >> 1 ^ (POLYNOMIAL if state & 1 else 0)
    return state
