"""What a name in a model folder may lead to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bertworks.errors import UnsafeFileError
from bertworks.folders import inside


def put(path: Path, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_is_found_and_a_missing_one_is_none(tmp_path: Path) -> None:
    put(tmp_path / "config.json")
    put(tmp_path / "1_Pooling" / "config.json")
    assert inside(tmp_path, "config.json") == tmp_path / "config.json"
    assert inside(tmp_path, "1_Pooling/config.json") == tmp_path / "1_Pooling" / "config.json"
    assert inside(tmp_path, "vocab.txt") is None
    assert inside(tmp_path / "nowhere", "vocab.txt") is None


@pytest.mark.parametrize(
    "name", ["../x", "a/../../x", "/etc/passwd", "", ".", "..", "a\0b", "..\\x", "c:\\x", "x" * 5000]
)
def test_a_name_that_leads_out_is_refused(name: str, tmp_path: Path) -> None:
    put(tmp_path / "x")
    with pytest.raises(UnsafeFileError):
        inside(tmp_path / "model", name)


def test_links(tmp_path: Path) -> None:
    model = tmp_path / "model"
    put(model / "real.txt")
    secret = put(tmp_path / "secret.txt")
    (model / "near.txt").symlink_to("real.txt")
    (model / "far.txt").symlink_to(secret)
    (model / "twice.txt").symlink_to("far.txt")
    (model / "gone.txt").symlink_to(tmp_path / "gone.txt")
    (model / "empty.txt").symlink_to("nothing.txt")
    (model / "loop.txt").symlink_to("loop.txt")
    (model / "up").symlink_to(tmp_path)
    assert inside(model, "near.txt") == model / "near.txt"
    assert inside(model, "empty.txt") is None
    for name in ("far.txt", "twice.txt", "gone.txt", "loop.txt", "up/secret.txt"):
        with pytest.raises(UnsafeFileError, match=name):
            inside(model, name)
    (tmp_path / "alias").symlink_to(model)  # the folder itself is the person's choice
    assert inside(tmp_path / "alias", "real.txt") == tmp_path / "alias" / "real.txt"


def test_only_regular_files(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    for name in ("vocab.txt", "pipe.json"):
        with pytest.raises(UnsafeFileError, match="not a regular file"):
            inside(tmp_path, name)


def test_a_snapshot_of_the_hub_cache(tmp_path: Path) -> None:
    repository = tmp_path / "hub" / "models--org--name"
    snapshot = repository / "snapshots" / "0123abc"
    put(repository / "blobs" / "feed")
    put(tmp_path / "hub" / "models--org--other" / "blobs" / "beef")
    (snapshot / "1_Pooling").mkdir(parents=True)
    (snapshot / "vocab.txt").symlink_to("../../blobs/feed")
    (snapshot / "1_Pooling" / "config.json").symlink_to("../../../blobs/feed")
    (snapshot / "stolen.txt").symlink_to("../../../models--org--other/blobs/beef")
    assert inside(snapshot, "vocab.txt") == snapshot / "vocab.txt"
    assert inside(snapshot / "1_Pooling", "config.json") is not None
    with pytest.raises(UnsafeFileError, match="stolen"):
        inside(snapshot, "stolen.txt")
    elsewhere = repository / "not-snapshots" / "0123abc"
    elsewhere.mkdir(parents=True)
    (elsewhere / "vocab.txt").symlink_to("../../blobs/feed")
    with pytest.raises(UnsafeFileError, match=r"vocab\.txt"):
        inside(elsewhere, "vocab.txt")
