from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertworks.errors import WeightsError
from bertworks.weights.tensorflow import crc32c as fast_crc32c
from bertworks.weights.tensorflow import list_tensors, read_checkpoint, snappy

from .tf_writer import crc32c, varint, write_bundle


@pytest.fixture
def tensors() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {
        f"bert/encoder/layer_{i}/output/dense/kernel": rng.standard_normal((3, 5)).astype(np.float32) for i in range(20)
    }
    return found | {
        "bert/a/half": rng.standard_normal(7).astype(np.float16),
        "bert/a/double": rng.standard_normal((2, 2, 2)),
        "counts/int": rng.integers(-9, 9, 5).astype(np.int32),
        "counts/long": rng.integers(-(1 << 62), 1 << 62, (3, 1)),
        "empty": np.zeros((0, 4), np.float32),
        "global_step": np.array(1_000_000, np.int64),
    }


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("compressed", [False, True])
def test_what_was_written_is_read(
    tmp_path: Path, tensors: dict[str, np.ndarray], shards: int, compressed: bool
) -> None:
    write_bundle(tmp_path / "model.ckpt-7", tensors, shards=shards, compressed=compressed)
    for path in (tmp_path, tmp_path / "model.ckpt-7", tmp_path / "model.ckpt-7.index"):
        found = read_checkpoint(path)
        assert found.keys() == tensors.keys()
        for name, array in tensors.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)
    listed = list_tensors(tmp_path)
    assert listed["bert/a/double"] == ("float64", (2, 2, 2))
    assert listed["global_step"] == ("int64", ())


def test_bfloat16_becomes_float32(tmp_path: Path) -> None:
    values = np.array([1.0, -2.5, 3e38], np.float32)
    stored = (values.view(np.uint32) >> 16).astype(np.uint16)
    write_bundle(tmp_path / "m", {"x": stored}, types={"x": "bfloat16"})
    assert list_tensors(tmp_path / "m")["x"] == ("bfloat16", (3,))
    found = read_checkpoint(tmp_path / "m")["x"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, (stored.astype(np.uint32) << 16).view(np.float32))


def test_the_object_graph_of_tensorflow_2_is_no_tensor(tmp_path: Path) -> None:
    graph = np.frombuffer(b"python objects", np.uint8)
    name = "_CHECKPOINTABLE_OBJECT_GRAPH"
    write_bundle(tmp_path / "m", {name: graph, "x": np.ones(2, np.float32)}, types={name: "string"})
    assert read_checkpoint(tmp_path / "m").keys() == {"x"}


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ({"offset": 1 << 40}, "ends at byte"),
        ({"offset": -8}, "claims offset -8"),
        ({"size": -60}, "size -60"),
        ({"size": 1 << 62}, "bytes where"),
        ({"size": 1 << 62, "shape": (1 << 30, 1 << 30)}, "ends at byte"),
        ({"shape": (3, 6)}, "60 bytes where float32 [3, 6] needs 72"),
        ({"shape": (-3, -5)}, "shape [-3, -5]"),
        ({"shape": (1 << 62, 0), "size": 0}, "shape"),
        ({"shard": 1}, "data file 1 of 1"),
        ({"shard": -1}, "data file -1"),
        ({"dtype": 7}, "type 7"),
        ({"slices": True}, "partitioned"),
        ({"offset": 0}, "shares its bytes"),
    ],
)
def test_an_index_that_lies_is_refused(
    tmp_path: Path, tensors: dict[str, np.ndarray], claim: dict[str, Any], message: str
) -> None:
    name = "bert/encoder/layer_3/output/dense/kernel"
    write_bundle(tmp_path / "m.ckpt", tensors, claims={name: claim})
    with pytest.raises(WeightsError) as caught:
        read_checkpoint(tmp_path / "m.ckpt")
    assert message in caught.value.message
    assert "m.ckpt" in caught.value.message
    if claim != {"offset": 0}:  # of two that overlap, either may be named
        assert name in caught.value.message


def test_a_flipped_byte_of_data_names_its_tensor(tmp_path: Path, tensors: dict[str, np.ndarray]) -> None:
    write_bundle(tmp_path / "m", tensors)
    path = tmp_path / "m.data-00000-of-00001"
    data = bytearray(path.read_bytes())
    data[-9] ^= 1  # global_step, 8 bytes, is last; before it counts/long
    path.write_bytes(data)
    with pytest.raises(WeightsError, match=r"data-00000-of-00001: tensor counts/long does not match its checksum"):
        read_checkpoint(tmp_path / "m")


def test_every_flipped_byte_of_the_index_is_noticed(tmp_path: Path) -> None:
    write_bundle(tmp_path / "m", {f"x{i}": np.ones(2, np.float32) for i in range(9)})
    path = tmp_path / "m.index"
    whole = path.read_bytes()
    for at in range(len(whole)):
        if len(whole) - 44 <= at < len(whole) - 8:
            continue  # the footer's padding, and handles, which no checksum covers: tested below
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            found = read_checkpoint(tmp_path / "m")
        except WeightsError:
            continue
        # only the empty meta index is never read
        assert all((array == 1).all() for array in found.values())
        assert len(found) == 9


def test_no_broken_index_raises_anything_else(tmp_path: Path) -> None:
    write_bundle(tmp_path / "m", {f"x{i}": np.ones(2, np.float32) for i in range(9)})
    path = tmp_path / "m.index"
    whole = path.read_bytes()
    for at in range(len(whole) - 48, len(whole)):
        for flip in (1, 0x7F, 0xFF):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            try:
                read_checkpoint(tmp_path / "m")
            except WeightsError:
                continue
    for cut in range(0, len(whole), 5):
        path.write_bytes(whole[:cut])
        with pytest.raises(WeightsError, match=r"m\.index"):
            read_checkpoint(tmp_path / "m")


def test_truncated_and_missing_data(tmp_path: Path, tensors: dict[str, np.ndarray]) -> None:
    write_bundle(tmp_path / "m", tensors)
    path = tmp_path / "m.data-00000-of-00001"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(WeightsError, match=r"tensor global_step ends at byte .*\n.*cut short"):
        list_tensors(tmp_path / "m")
    path.unlink()
    with pytest.raises(WeightsError, match="missing"):
        list_tensors(tmp_path / "m")


def test_names_out_of_order(tmp_path: Path, tensors: dict[str, np.ndarray]) -> None:
    write_bundle(tmp_path / "m", tensors, swap=True)
    with pytest.raises(WeightsError, match="out of order"):
        list_tensors(tmp_path / "m")


def test_which_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="found none"):
        read_checkpoint(tmp_path)
    for name in ("a", "b"):
        write_bundle(tmp_path / name, {"x": np.ones(1, np.float32)})
    with pytest.raises(WeightsError, match=r"found a\.index, b\.index"):
        read_checkpoint(tmp_path)
    (tmp_path / "old.ckpt").write_bytes(b"first format")
    with pytest.raises(WeightsError, match="first format"):
        read_checkpoint(tmp_path / "old.ckpt")


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 63, 4096, 4 * 32768, 4 * 32768 + 4, 12 * 32768 + 7])
def test_checksum(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    assert fast_crc32c(data) == crc32c(data.tobytes())
    assert fast_crc32c(np.frombuffer(b"123456789", np.uint8)) == 0xE3069283


def test_checksum_is_fast() -> None:
    data = np.zeros(64 << 20, np.uint8)
    start = time.perf_counter()
    fast_crc32c(data)
    assert time.perf_counter() - start < 5  # about 0.1 s on the machine it was written on


def test_snappy() -> None:
    # "abcd", then 10 bytes from 4 back, then 5 from 1 back (a run), with a two-byte copy
    packed = varint(19) + bytes([3 << 2]) + b"abcd" + bytes([(10 - 4) << 2 | 1, 4]) + bytes([4 << 2 | 2, 1, 0])
    assert snappy(packed) == b"abcdabcdabcdab" + b"bbbbb"
    for bad in (
        varint(1 << 40) + b"\x00a",  # a length that cannot be
        varint(2) + b"\x00a",  # too short
        varint(1) + b"\x04ab",  # too long
        varint(8) + b"\x00a" + bytes([0 << 2 | 1, 2]),  # from before the start
        varint(30) + bytes([40 << 2]) + b"cut",
    ):
        with pytest.raises(ValueError):
            snappy(bad)
