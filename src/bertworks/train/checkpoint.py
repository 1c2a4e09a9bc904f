"""Checkpoints: written whole or not at all, counted only with their manifest, refused by name when torn."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bertworks.folders import new_folder

FOLDER, MANIFEST, TENSORS, STATE = "checkpoints", "manifest.json", "state.safetensors", "state.json"
FORMAT = 1
Saved = tuple[dict[str, Tensor], dict[str, Any]]


def name_of(step: int) -> str:
    return f"step-{step:08}"


def write(run: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any], keep: int) -> Path:
    """A checkpoint of a step; the oldest ones beyond `keep` are removed once it is safe."""
    folder = run / FOLDER / name_of(step)
    with new_folder(folder, replace=True) as draft:
        save_file(dict(tensors), draft / TENSORS)
        (draft / STATE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf8")
        files = {name: _facts(draft / name) for name in (TENSORS, STATE)}
        (draft / MANIFEST).write_text(json.dumps({"format": FORMAT, "files": files}, indent=1) + "\n", encoding="utf8")
    for old in list(_newest_first(run))[keep:]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def newest(run: Path, say: Callable[[str], None]) -> Saved | None:
    """The newest whole checkpoint; torn ones are named and passed over."""
    for folder in _newest_first(run):
        broken = _broken(folder)
        if broken is None:
            try:
                return load_file(folder / TENSORS), json.loads((folder / STATE).read_bytes())
            except (SafetensorError, ValueError, OSError) as error:
                broken = str(error)
        say(f"checkpoint {folder} is not whole ({broken}): the one before it is used")
    return None


def _newest_first(run: Path) -> Iterator[Path]:
    """By the step in the name; what was left half-written has another name."""
    return iter(sorted((run / FOLDER).glob("step-*"), key=lambda path: path.name, reverse=True))


def _broken(folder: Path) -> str | None:
    try:
        told = json.loads((folder / MANIFEST).read_bytes())
        for name in (TENSORS, STATE):
            if _facts(folder / name) != told["files"].get(name):
                return f"{name} was changed since it was written"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{MANIFEST} cannot be read: {error!r}"
    return None


def _facts(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
