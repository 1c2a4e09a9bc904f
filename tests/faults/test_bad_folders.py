"""Broken and hostile model folders: each ends in a named error and exit 1, and no code of a folder ever runs."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.shell import bertworks
from tests.tiny import tiny_folder


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("sound"), "bert")


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "model"))


def settings(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def rewrite(folder: Path) -> None:
        held = load_file(folder / "model.safetensors")
        change(held)
        save_file(held, folder / "model.safetensors", metadata={"format": "pt"})

    return rewrite


def cut(size: int) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / "model.safetensors", size)


def bytes_of(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def gone(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


WORD = "bert.embeddings.word_embeddings.weight"
BIAS = "bert.encoder.layer.0.attention.self.query.bias"


def rename(old: str, new: str) -> Callable[[dict[str, torch.Tensor]], object]:
    return lambda held: held.update({new: held.pop(old)})


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "truncated weights": (cut(5000), "model.safetensors (5,000 bytes) is not a whole safetensors file"),
    "header of 4 GB": (bytes_of("model.safetensors", struct.pack("<Q", 2**32) + b"{}"), "not a whole safetensors file"),
    "empty weights": (bytes_of("model.safetensors", b""), "not a whole safetensors file"),
    "no weights": (gone("model.safetensors"), "holds no weights"),
    "no config": (gone("config.json"), "has no config.json"),
    "config not JSON": (bytes_of("config.json", b"{"), "config.json is not JSON"),
    "config a list": (bytes_of("config.json", b"[]"), "holds a list, not an object"),
    "unknown architecture": (settings(model_type="brt"), "unknown architecture 'brt'"),
    "no architecture": (settings(model_type=None), "does not say its model_type"),
    "heads do not divide": (settings(num_attention_heads=5), "5 attention heads do not divide the width 24"),
    "width of nothing": (settings(hidden_size=0), "hidden_size must be a whole number"),
    "width of words": (settings(hidden_size="wide"), "hidden_size must be a whole number"),
    "unknown activation": (settings(hidden_act="gelo"), "unknown hidden_act 'gelo'"),
    "relative positions": (settings(position_embedding_type="relative_key"), "'relative_key' is not BERT as published"),
    "a decoder": (settings(is_decoder=True), "is_decoder makes this a decoder"),
    "padding past the vocabulary": (settings(pad_token_id=10**6), "padding id 1000000 is not in a vocabulary"),
    "too many positions": (settings(max_position_embeddings=64), "position_embeddings.weight' is (40, 24)"),
    "labels with a hole": (settings(id2label={"0": "a", "2": "b"}), "id2label is not a map"),
    "missing tensor": (tensors(lambda held: held.pop(BIAS)), f"tensor '{BIAS}' is missing"),
    "missing embeddings": (tensors(lambda held: held.pop(WORD)), f"tensor '{WORD}' is missing"),
    "extra tensor": (tensors(lambda held: held.update({"extra": torch.ones(1)})), "tensor 'extra' is not part"),
    "misspelled tensor": (tensors(rename(BIAS, BIAS.replace("query", "qeury"))), f"did you mean '{BIAS}'"),
    "misshapen tensor": (tensors(lambda held: held.update({BIAS: torch.ones(7)})), f"tensor '{BIAS}' is (7,)"),
    "a scalar": (tensors(lambda held: held.update({BIAS: torch.tensor(1.0)})), f"tensor '{BIAS}' is ()"),
    "NaN everywhere": (
        tensors(lambda held: held.update({name: tensor * float("nan") for name, tensor in held.items()})),
        "values that are not finite",
    ),
    "one NaN": (tensors(lambda held: held[WORD].index_fill_(0, torch.tensor(50), float("nan"))), "not finite"),
    "broken tokenizer": (bytes_of("tokenizer.json", b"{}"), "tokenizer.json"),
}


@pytest.mark.parametrize("case", list(BROKEN))
def test_broken_folder(folder: Path, case: str) -> None:
    spoil, says = BROKEN[case]
    spoil(folder)
    # 50 is a letter of the tiny vocabulary, so that the poisoned row is looked up
    done = bertworks(
        "fill", folder, "x p q r s t u v w [MASK] the cat sat a b c d e f g h i j k l m n o y z", "--dtype", "fp32"
    )
    assert done.code == 1, done.err
    assert says in done.err
    assert "Traceback" not in done.err
    assert len(done.err.strip().splitlines()) <= 2
    assert done.out == ""


def test_inspect_looks_at_every_number(folder: Path) -> None:
    tensors(lambda held: held[WORD].index_fill_(0, torch.tensor(50), float("inf")))(folder)
    done = bertworks("inspect", folder, "--verify")
    assert done.code == 1
    assert WORD in done.err
    assert "24 values that are not finite" in done.err


class Bomb:
    """Unpickling this would make a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.system, (f"touch {self.mark}",)


def test_a_pickle_is_refused_and_its_code_never_runs(folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    gone("model.safetensors")(folder)
    torch.save({"weight": Bomb(mark)}, folder / "pytorch_model.bin")
    refused = bertworks("fill", folder, "a [MASK]")
    assert refused.code == 1
    assert "pickle" in refused.err
    assert "--allow-pickle" in refused.err
    allowed = bertworks("fill", folder, "a [MASK]", "--allow-pickle")
    assert allowed.code == 1
    assert "Traceback" not in allowed.err
    imported = bertworks("import", folder, "--out", tmp_path / "new", "--allow-pickle")
    assert imported.code == 1
    assert not (tmp_path / "new").exists()
    assert not mark.exists()


def test_a_sound_pickle_loads_where_allowed(folder: Path, tmp_path: Path) -> None:
    before = bertworks("fill", folder, "a [MASK]", "--json").json()
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    gone("model.safetensors")(folder)
    assert bertworks("fill", folder, "a [MASK]", "--json", "--allow-pickle").json() == before
    assert bertworks("import", folder, "--out", tmp_path / "new", "--allow-pickle").code == 0
    assert bertworks("fill", tmp_path / "new", "a [MASK]", "--json").json() == before


def test_code_named_by_a_folder_is_ignored(folder: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (folder / "modeling.py").write_text(f"open({str(mark)!r}, 'w')")
    settings(auto_map={"AutoModel": "modeling.Model"})(folder)
    tokenizer = folder / "tokenizer_config.json"
    tokenizer.write_text(
        json.dumps(json.loads(tokenizer.read_text()) | {"auto_map": {"AutoTokenizer": ["modeling.T", None]}})
    )
    done = bertworks("fill", folder, "a [MASK]")
    assert done.code == 0
    assert "auto_map" in done.err
    assert not mark.exists()


@pytest.mark.parametrize("place", ["../secret.safetensors", "/etc/passwd", "..\\secret.safetensors", "a/../../b"])
def test_an_index_that_leads_out_is_refused(folder: Path, place: str) -> None:
    shutil.copy(folder / "model.safetensors", folder.parent / "secret.safetensors")
    gone("model.safetensors")(folder)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {WORD: place}}))
    done = bertworks("fill", folder, "a [MASK]")
    assert done.code == 1
    assert "outside the folder" in done.err


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_link_that_leads_out_is_refused(folder: Path, name: str) -> None:
    outside = folder.parent / "outside"
    shutil.move(folder / name, outside)
    (folder / name).symlink_to(outside)
    done = bertworks("fill", folder, "a [MASK]")
    assert done.code == 1
    assert name in done.err
    assert "outside its folder" in done.err


def test_links_within_the_hub_cache_are_followed(sound: Path, tmp_path: Path) -> None:
    home = tmp_path / "hub" / "models--someone--tiny"
    snapshot = home / "snapshots" / ("0" * 40)
    (home / "blobs").mkdir(parents=True)
    (home / "refs").mkdir()
    (home / "refs" / "main").write_text("0" * 40)
    snapshot.mkdir(parents=True)
    for number, path in enumerate(sorted(sound.iterdir())):
        shutil.copy(path, home / "blobs" / str(number))
        (snapshot / path.name).symlink_to(Path("../../blobs") / str(number))
    done = bertworks(
        "fill", "someone/tiny", "a [MASK]", "--json", HF_HUB_CACHE=str(tmp_path / "hub"), HF_HUB_OFFLINE="1"
    )
    assert done.code == 0, done.err
    assert done.json() == bertworks("fill", sound, "a [MASK]", "--json").json()


def test_an_archive_without_end_is_refused(tmp_path: Path) -> None:
    with (
        zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.index", "w") as entry,
    ):
        for _ in range(300):
            entry.write(b"\0" * 2**20)
    done = bertworks("import", tmp_path / "bomb.zip", "--out", tmp_path / "out")
    assert done.code == 1
    assert "x.index" in done.err
    assert not (tmp_path / "out").exists()


def test_hub_ids_offline_say_so_at_once() -> None:
    done = bertworks("embed", "nobody/nothing", "-", HF_HUB_OFFLINE="1")
    assert done.code == 1
    assert "HF_HUB_OFFLINE" in done.err


def test_local_files_need_no_network(folder: Path) -> None:
    """With every connection refused, nothing changes: sockets are not even asked for."""
    watch = "import socket\ndef no(*a, **k): raise SystemExit('a connection was tried')\n"
    watch += "socket.socket.connect = socket.getaddrinfo = no\n"
    code = watch + "from bertworks.cli import main\nimport sys\nmain(sys.argv[1:])"
    from tests.shell import python

    for arguments in (("fill", folder, "a [MASK]"), ("inspect", folder), ("embed", folder, "-"), ("doctor",)):
        done = python("-c", code, *arguments, HF_HUB_OFFLINE="")
        assert done.code == 0, done.err
        assert "connection" not in done.err
