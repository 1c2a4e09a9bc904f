"""Which files are meant: files, folders, patterns, links, standard input and addresses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bertworks.errors import InputError
from bertworks.text.files import SourceFile, Tally, blocks, kind_of, source_files

TREE = (
    "b.txt",
    "a.jsonl",
    "deep/er/c.csv.gz",
    "deep/d.MD",
    ".hidden.txt",
    ".git/config.txt",
    "picture.png",
    "deep/README",
)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in TREE:
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "tree"


def names(*sources: str, tally: Tally | None = None) -> list[str]:
    return [file.address for file in source_files(sources, tally)]


WHOLE = ["tree/a.jsonl", "tree/b.txt", "tree/deep/d.MD", "tree/deep/er/c.csv.gz"]


@pytest.mark.parametrize(
    ("sources", "wanted", "counts"),
    [
        (["tree"], WHOLE, {"files_skipped": 3}),
        (["tree/"], WHOLE, {"files_skipped": 3}),
        (["./tree"], WHOLE, {"files_skipped": 3}),
        (["tree/b.txt", "tree"], ["tree/b.txt", WHOLE[0], *WHOLE[2:]], {"files_skipped": 3, "files_named_twice": 1}),
        (["tree/picture.png"], ["tree/picture.png"], {}),  # what is named is taken
        (["tree/.hidden.txt"], ["tree/.hidden.txt"], {}),
        (["tree/.git"], ["tree/.git/config.txt"], {}),
        (["tree/*.txt"], ["tree/b.txt"], {}),
        (["tree/[ab].*"], ["tree/a.jsonl", "tree/b.txt"], {}),
        (["tree/dee*"], ["tree/deep/d.MD", "tree/deep/er/c.csv.gz"], {"files_skipped": 1}),
        (["tree/**/*.txt"], ["tree/b.txt"], {}),
        (["tree/**/*.gz", "tree/*.txt"], ["tree/deep/er/c.csv.gz", "tree/b.txt"], {}),
        (["tree/deep/**"], ["tree/deep/README", "tree/deep/d.MD", "tree/deep/er/c.csv.gz"], {}),
        (["**/er"], ["tree/deep/er/c.csv.gz"], {}),  # a pattern of folders
        (["tree/b.txt", "./tree/b.txt", "{tmp}/tree/b.txt"], ["tree/b.txt"], {"files_named_twice": 2}),
        (["tree/b.txt", "file://{tmp}/tree/b.txt"], ["tree/b.txt"], {"files_named_twice": 1}),
        (["-", "tree/b.txt", "-"], ["-", "tree/b.txt"], {"files_named_twice": 1}),
    ],
)
def test_what_is_named(tree: Path, sources: list[str], wanted: list[str], counts: dict[str, int]) -> None:
    tally = Tally()
    assert names(*(source.replace("{tmp}", str(tree.parent)) for source in sources), tally=tally) == wanted
    assert tally.counts == counts


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("tree/b.tx", r"tree/b.tx is not a file\ndid you mean 'b.txt'\?"),
        ("nowhere/at/all", "nowhere/at/all is not a file\nname a file, a folder or a pattern"),
        ("tree/*.parquet", r"no file matches tree/\*.parquet"),
        ("empty", r"empty holds no text\n.*\.parquet.* are looked for; name others by a pattern: empty/\*"),
        ("pictures", r"pictures holds no text \(1 files of other kinds\)"),
        ("", "a source without a name"),
        ("x" * 5000, "cannot be read: File name too long"),
        ("file:///nowhere.txt", "file:///nowhere.txt is not there\nlook at its spelling"),
        ("memory://nowhere", "memory://nowhere is not there"),
        ("memory://nowhere/*.txt", r"no file matches memory://nowhere/\*.txt"),
        ("s9://bucket/a.txt", r"s9://bucket/a.txt: Protocol not known: s9\ndid you mean 's3'\?"),
    ],
)
def test_what_is_not_there(tree: Path, source: str, says: str) -> None:
    (tree.parent / "empty").mkdir()
    (tree.parent / "pictures").mkdir()
    (tree.parent / "pictures" / "a.png").touch()
    with pytest.raises(InputError, match=says):
        source_files([source])


@pytest.mark.parametrize(
    ("address", "package"), [("s3://b/a.txt", "s3fs"), ("gs://b/a.txt", "gcsfs"), ("sftp://h/a.txt", "paramiko")]
)
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, address: str, package: str) -> None:
    import fsspec.core

    def url_to_fs(address: str) -> Any:
        raise ImportError(f"Install {package} to access it")

    monkeypatch.setattr(fsspec.core, "url_to_fs", url_to_fs)
    with pytest.raises(InputError, match=rf"{address}: Install {package} .*\npip install {package}"):
        source_files([address])
    with pytest.raises(InputError, match=f"pip install {package}"):
        next(blocks(address))


def test_fsspec_missing_altogether(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(InputError, match="fsspec is not installed\npip install fsspec"):
        source_files(["s3://b/a.txt"])


def test_a_name_with_signs_of_a_pattern(tree: Path) -> None:
    (tree / "a[1]*.txt").write_text("x")
    (tree / "[deep]").mkdir()
    (tree / "[deep]" / "b.txt").write_text("x")
    assert names("tree/a[1]*.txt", "tree/[deep]") == ["tree/a[1]*.txt", "tree/[deep]/b.txt"]


# -- links and pipes -------------------------------------------------------------------------------------


def test_links_are_followed_and_nothing_is_read_twice(tree: Path) -> None:
    (tree / "again.txt").symlink_to(tree / "b.txt")
    (tree / "deep" / "up").symlink_to(tree)  # around in a ring
    other = tree.parent / "other"
    other.mkdir()
    (other / "e.txt").touch()
    (tree / "link").symlink_to(other)
    (tree / "link2").symlink_to(other)
    tally = Tally()
    got = names("tree", tally=tally)
    assert got == ["tree/a.jsonl", "tree/again.txt", *WHOLE[2:], "tree/link/e.txt"]
    assert tally.counts["files_named_twice"] == 1


def test_a_broken_link(tree: Path) -> None:
    (tree / "b2.txt").symlink_to(tree / "gone.txt")
    with pytest.raises(InputError, match=r"b2.txt is a link to .*gone.txt, which is not there"):
        source_files(["tree/b2.txt"])
    for source in ("tree", "tree/*.txt"):
        with pytest.raises(
            InputError, match=r"tree/b2.txt cannot be read: No such file.*\nit is a link to what is not"
        ):
            source_files([source])
    (tree / "b2.txt").rename(tree / ".#lock.txt")  # such as an editor leaves
    assert names("tree") == WHOLE


def test_a_pipe_that_lies_in_a_folder_is_not_waited_for(tree: Path) -> None:
    os.mkfifo(tree / "pipe.txt")
    tally = Tally()
    assert names("tree", tally=tally) == WHOLE
    assert tally.counts["files_skipped"] == 4
    assert source_files(["tree/pipe.txt"]) == [SourceFile("tree/pipe.txt", None, None)]
    for path in tree.rglob("*"):
        if path.suffix in (".txt", ".jsonl", ".gz", ".MD") and path.is_file():
            path.unlink()
    with pytest.raises(InputError, match="holds no text but what comes through pipes"):
        source_files(["tree"])


# -- addresses -------------------------------------------------------------------------------------------


@pytest.fixture
def memory() -> Iterator[Any]:
    import fsspec

    system = fsspec.filesystem("memory")
    for name in TREE:
        system.pipe(f"/tree/{name}", name.encode())
    system.pipe("/top.jsonl", b"{}")
    yield system
    system.rm("/tree", recursive=True)
    system.rm("/top.jsonl")


@pytest.mark.parametrize(
    ("sources", "wanted"),
    [
        (["memory://tree"], ["a.jsonl", "b.txt", "deep/d.MD", "deep/er/c.csv.gz"]),
        (["memory://tree/*.txt"], ["b.txt"]),
        (["memory://tree/.h*.txt"], [".hidden.txt"]),
        (["memory://tree/.git"], [".git/config.txt"]),
        (["memory://tree/**/*.gz"], ["deep/er/c.csv.gz"]),
        (
            ["memory://tree/b.txt", "memory:///tree/b.txt", "memory://tree"],
            ["b.txt", "a.jsonl", "deep/d.MD", "deep/er/c.csv.gz"],
        ),
    ],
)
def test_addresses_name_folders_and_patterns_too(memory: Any, sources: list[str], wanted: list[str]) -> None:
    assert [name.split("/tree/" if "/tree/" in name else "//tree/")[1] for name in names(*sources)] == wanted


def test_an_address_keeps_its_size_and_change(memory: Any, tree: Path) -> None:
    far, near = source_files(["memory://tree/b.txt", "tree/b.txt"])
    assert (far.size, near.size) == (5, 5)
    assert far.changed
    assert near.changed == str((tree / "b.txt").stat().st_mtime_ns)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("a.txt", (".txt", None)),
        ("A.JSONL.GZ", (".jsonl", "gzip")),
        ("b.tar/a", ("", None)),
        ("a.gz", ("", "gzip")),
        (".txt", ("", None)),
        ("-", ("", None)),
        ("v1.2/a.b.csv.zst", (".csv", "zstd")),
        ("memory://top.jsonl", (".jsonl", None)),
        ("s3://bucket/what?.jsonl", (".jsonl", None)),
        ("https://host/a.jsonl.gz?download=1&x=.txt#part", (".jsonl", "gzip")),
        ("zip://in/a.csv::/tmp/all.zip", (".csv", None)),
        ("simplecache::s3://bucket/a.parquet", (".parquet", None)),
    ],
)
def test_kinds(address: str, kind: tuple[str, str | None]) -> None:
    assert kind_of(address) == kind


def test_an_archive_member_by_its_address(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("a.txt", "in the archive\n")
        archive.writestr("b.txt", "also\n")
    addresses = [f"zip://{name}.txt::{tmp_path}/all.zip" for name in "ab"]
    assert names(*addresses) == addresses
    assert b"".join(blocks(addresses[0])) == b"in the archive\n"
