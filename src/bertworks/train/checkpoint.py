"""Checkpoints: written whole or not at all, counted only with their manifest, refused by name when torn.

Tensors go by the names of the weights they belong to. One process writes one file; where each rank holds shares of the
weights, each writes its own through PyTorch's distributed checkpointing, in safetensors too, and any number of ranks,
or one process alone, can read them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertworks.errors import CannotWriteError, InputError
from bertworks.folders import new_folder

from .ranks import Ranks

FOLDER, MANIFEST, TENSORS, STATE, DRAFT = "checkpoints", "manifest.json", "state.safetensors", "state.json", ".draft"
BEST = "best"
FORMAT = 2
Tensors = dict[str, Tensor]


def name_of(step: int) -> str:
    return f"step-{step:08}"


def write(run: Path, name: str, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> Path:
    """A checkpoint of that name, in place of one of the same name once it is safe."""
    folder = run / FOLDER / name
    with new_folder(folder, replace=True) as draft:
        save_file(dict(tensors), draft / TENSORS)
        _sign(draft, state)
    return folder


def write_shared(run: Path, name: str, tensors: Tensors, state: Mapping[str, Any], ranks: Ranks) -> Path:
    """The same where `tensors` are a rank's shares; all ranks call it and wait for each other."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    folder, draft = run / FOLDER / name, run / FOLDER / DRAFT
    if ranks.leads:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
    ranks.wait()
    try:
        save(tensors, storage_writer=HuggingFaceStorageWriter(str(draft), save_distributed=True))
    except CheckpointException as error:
        raise CannotWriteError(f"{folder} cannot be written: {error}", "free space") from None
    if ranks.leads:
        with new_folder(folder, replace=True) as whole:
            for file in sorted(draft.glob("*.safetensors")):
                file.rename(whole / file.name)
            _sign(whole, state)
        shutil.rmtree(draft, ignore_errors=True)
    ranks.wait()
    return folder


def prune(run: Path, keep: int) -> None:
    """Remove the oldest steps' checkpoints beyond `keep`."""
    for old in list(_newest_first(run))[keep:]:
        shutil.rmtree(old, ignore_errors=True)


def newest(run: Path, say: Callable[[str], None]) -> Path | None:
    """The newest whole checkpoint; torn ones are named and passed over."""
    for folder in _newest_first(run):
        broken = broken_in(folder)
        if broken is None:
            return folder
        say(f"checkpoint {folder} is not whole ({broken}): the one before it is used")
    return None


def state_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / STATE).read_bytes())
    if found.get("format") != FORMAT:
        raise InputError(f"{folder} was written by another version of bertworks", "begin a new run")
    return found


def tensors_of(folder: Path, like: Callable[[], Tensors], shared: bool) -> Tensors:
    """What a checkpoint holds, whoever wrote it; like: tensors of the same names and shapes, in this rank's shares."""
    if (folder / TENSORS).exists() and not shared:
        return load_file(folder / TENSORS)
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    found = like()
    logging.getLogger("torch.distributed.checkpoint").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that one process reads alone
        load(found, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=not shared)
    return found


def _newest_first(run: Path) -> Iterator[Path]:
    """By the step in the name; what was left half-written has another name."""
    return iter(sorted((run / FOLDER).glob("step-*"), key=lambda path: path.name, reverse=True))


def _sign(folder: Path, state: Mapping[str, Any]) -> None:
    (folder / STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf8")
    files = {path.name: _facts(path) for path in sorted(folder.iterdir())}
    (folder / MANIFEST).write_text(json.dumps({"format": FORMAT, "files": files}, indent=1) + "\n", encoding="utf8")


def broken_in(folder: Path) -> str | None:
    """What is wrong with a checkpoint, if anything is."""
    try:
        files = json.loads((folder / MANIFEST).read_bytes())["files"]
        if STATE not in files or not any(name.endswith(".safetensors") for name in files):
            return f"{MANIFEST} does not name its files"
        for name, facts in files.items():
            if _facts(folder / Path(name).name) != facts:
                return f"{name} was changed since it was written"
        json.loads((folder / STATE).read_bytes())
        for name in files:
            if name.endswith(".safetensors"):
                _readable(folder / name)
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        return f"{MANIFEST} cannot be read: {error!r}"
    return None


def _readable(path: Path) -> None:
    from safetensors import safe_open

    with safe_open(path, "pt"):
        pass


def _facts(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
