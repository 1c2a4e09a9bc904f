from __future__ import annotations

import gzip
import io
import os
import pickle
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch

from bertworks.errors import UnsafeFileError, WeightsError
from bertworks.weights import archives
from bertworks.weights.archives import unpack
from bertworks.weights.pickled import read_pickled


def make_zip(path: Path, entries: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        for name, data in entries.items():
            package.writestr(name, data)
    return path


def make_tar(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix != ".tar" else "w") as package:
        for info, data in members:
            info.size = len(data) if info.isreg() else 0
            package.addfile(info, io.BytesIO(data))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


FILES = {"model/config.json": b"{}", "model/deep/vocab.txt": b"a\n\nb\n", "inner.zip": b"PK not unpacked"}


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz", "a.tgz", "a.tar"])
def test_files_come_out_as_they_went_in(tmp_path: Path, name: str) -> None:
    if name.endswith("zip"):
        archive = make_zip(tmp_path / name, FILES)
    else:
        folder = (member("model", tarfile.DIRTYPE), b"")
        archive = make_tar(tmp_path / name, folder, *((member(n), data) for n, data in FILES.items()))
    unpack(archive, tmp_path / "out")
    found = {p.relative_to(tmp_path / "out").as_posix(): p for p in (tmp_path / "out").rglob("*") if p.is_file()}
    assert {key: path.read_bytes() for key, path in found.items()} == FILES


BAD_NAMES = ["../evil", "a/../../evil", "/tmp/bertworks-evil", "a\\..\\evil", "C:evil"]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("kind", ["a.zip", "a.tar.gz"])
def test_names_that_reach_outside(tmp_path: Path, name: str, kind: str) -> None:
    if kind == "a.zip":
        archive = make_zip(tmp_path / kind, {name: b"x"})
    else:
        archive = make_tar(tmp_path / kind, (member(name), b"x"))
    with pytest.raises(UnsafeFileError, match="evil"):
        unpack(archive, tmp_path / "out" / "deep")
    assert not [p for p in tmp_path.rglob("*") if "evil" in p.name]
    assert not Path("/tmp/bertworks-evil").exists()


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (tarfile.SYMTYPE, "/etc/passwd"), (tarfile.SYMTYPE, "other"), (tarfile.LNKTYPE, "other"),
        (tarfile.CHRTYPE, ""), (tarfile.BLKTYPE, ""), (tarfile.FIFOTYPE, ""),
    ],
)  # fmt: skip
def test_links_and_devices_in_a_tar(tmp_path: Path, kind: bytes, target: str) -> None:
    archive = make_tar(tmp_path / "a.tgz", (member("other"), b"x"), (member("the_link", kind, target), b""))
    with pytest.raises(UnsafeFileError, match="the_link"):
        unpack(archive, tmp_path / "out")


def test_a_link_in_a_zip(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("the_link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as package:
        package.writestr(info, "/etc/passwd")
    with pytest.raises(UnsafeFileError, match="the_link"):
        unpack(tmp_path / "a.zip", tmp_path / "out")


def test_bombs_are_stopped_while_they_unpack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "ALWAYS_ALLOWED", 1 << 20)
    zeros = bytes(8 << 20)
    bombs = [
        make_zip(tmp_path / "a.zip", {"bomb": zeros}),
        make_tar(tmp_path / "a.tgz", (member("bomb"), zeros)),
    ]
    for archive in bombs:
        with pytest.raises(UnsafeFileError, match="bomb"):
            unpack(archive, tmp_path / archive.suffix)
        assert (tmp_path / archive.suffix / "bomb").stat().st_size <= 3 << 20


def test_a_bomb_in_a_tars_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long name is a header as large as it likes, which tarfile reads before anyone can look at it."""
    monkeypatch.setattr(archives, "ALWAYS_ALLOWED", 1 << 20)
    monkeypatch.setattr(archives, "MOST_ENTRIES", 10)
    header = member("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    header.size = 1 << 33
    with gzip.open(tmp_path / "a.tgz", "wb") as out:
        out.write(header.tobuf(tarfile.GNU_FORMAT) + bytes(32 << 20))
    with pytest.raises(UnsafeFileError, match="headers"):
        unpack(tmp_path / "a.tgz", tmp_path / "out")


def test_too_many_and_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_ENTRIES", 20)
    with pytest.raises(UnsafeFileError, match="more than 20"):
        unpack(make_zip(tmp_path / "a.zip", {str(i): b"" for i in range(21)}), tmp_path / "many")
    for names in (("x", "x"), ("x", "./x"), ("x", "x/y")):
        twice = make_tar(tmp_path / "b.tgz", *((member(name), b"x") for name in names))
        with pytest.raises(UnsafeFileError, match="entry"):
            unpack(twice, tmp_path / f"out{names[1].replace('/', '_')}")


def test_damaged(tmp_path: Path) -> None:
    whole = make_tar(tmp_path / "a.tgz", (member("x"), os.urandom(9000))).read_bytes()
    package = make_zip(tmp_path / "a.zip", {"x": os.urandom(9000)}).read_bytes()
    (tmp_path / "a.tgz").write_bytes(whole[:5000])
    (tmp_path / "a.zip").write_bytes(package[:5000])
    (tmp_path / "b.zip").write_bytes(package[:3000] + b"!!" + package[3002:])
    (tmp_path / "b.tar").write_bytes(b"not a tar")
    for name in ("a.tgz", "a.zip", "b.zip", "b.tar"):
        with pytest.raises(WeightsError, match="damaged"):
            unpack(tmp_path / name, tmp_path / "out" / name)


# --- pickles ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("wrapper", [None, "state_dict", "model"])
def test_tensors_come_out(tmp_path: Path, zipped: bool, wrapper: str | None) -> None:
    tied = torch.randn(4, 3)
    state = {"a": tied, "b": tied, "turned": torch.randn(5, 2).T, "bias": torch.nn.Parameter(torch.ones(2))}
    path = tmp_path / "pytorch_model.bin"
    torch.save({wrapper: state, "epoch": 3} if wrapper else state, path, _use_new_zipfile_serialization=zipped)
    found = read_pickled(path)
    assert found.keys() == state.keys()
    for name, tensor in state.items():
        assert torch.equal(found[name], tensor)
        assert found[name].is_contiguous()
        assert not found[name].requires_grad
    assert found["a"].data_ptr() != found["b"].data_ptr()


class Evil:
    def __init__(self, path: Path) -> None:
        self.command = f"touch {path}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (self.command,)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_that_runs_code_does_not(tmp_path: Path, zipped: bool) -> None:
    path, trace = tmp_path / "pytorch_model.bin", tmp_path / "ran"
    torch.save({"x": torch.ones(1), "y": Evil(trace)}, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(UnsafeFileError, match=r"calls \w+\.system, which would run code"):
        read_pickled(path)
    path.write_bytes(pickle.dumps(Evil(trace), protocol=2))
    with pytest.raises(UnsafeFileError, match="run code"):
        read_pickled(path)
    assert not trace.exists()


def test_a_compressed_torch_file_is_a_bomb(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"x": torch.zeros(1 << 16)}, path)
    with zipfile.ZipFile(path) as package:
        entries = {name: package.read(name) for name in package.namelist()}
    make_zip(path, entries)
    with pytest.raises(UnsafeFileError, match="compressed"):
        read_pickled(path)


def test_a_small_tensor_stretched_without_end(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"x": torch.zeros(1).expand(1 << 40)}, path)
    with pytest.raises(UnsafeFileError, match="far more than the file holds"):
        read_pickled(path)


def test_what_is_not_tensors_by_name(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    for thing in (
        [torch.ones(1)],
        {},
        {"x": 3},
        {"x": {"y": torch.ones(1)}},
        {"x": torch.eye(2).to_sparse()},
    ):
        torch.save(thing, path)
        with pytest.raises(WeightsError, match=r"pytorch_model\.bin"):
            read_pickled(path)
    torch.save({"x": torch.ones(100)}, path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises((WeightsError, UnsafeFileError), match=r"pytorch_model\.bin"):
        read_pickled(path)
    path.write_bytes(b"junk")
    with pytest.raises((WeightsError, UnsafeFileError), match=r"pytorch_model\.bin"):
        read_pickled(path)
