"""Tensor files of a model folder: safetensors, single or sharded, in and out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bertworks.errors import UnsafeFileError, WeightsError
from bertworks.folders import inside, read_json

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLED = "pytorch_model.bin"


class TensorFiles(Mapping[str, Tensor]):
    """The tensors of one or several safetensors files, each read when asked for.

    Their bytes are mapped, not copied: what is never asked for is never read.
    """

    def __init__(self, home: Mapping[str, Path]) -> None:
        """`home`: in which file each tensor lies."""
        self._home = dict(home)
        self._open = {path: _open(path) for path in dict.fromkeys(self._home.values())}
        held = {path: set(file.keys()) for path, file in self._open.items()}
        for name, path in self._home.items():
            if name not in held[path]:
                raise WeightsError(
                    f"{path.name} does not hold tensor {name!r}, which {INDEX} says it does",
                    "fetch the folder again",
                )

    def __getitem__(self, name: str) -> Tensor:
        try:
            return self._open[self._home[name]].get_tensor(name)  # type: ignore[no-any-return]
        except SafetensorError as error:
            raise WeightsError(
                f"{self._home[name]}: tensor {name!r} cannot be read: {error}", "fetch the file again"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._home)

    def __len__(self) -> int:
        return len(self._home)

    def shape(self, name: str) -> tuple[int, ...]:
        """From the file's header, without reading the tensor."""
        return tuple(self._open[self._home[name]].get_slice(name).get_shape())

    def dtype(self, name: str) -> str:
        return str(self._open[self._home[name]].get_slice(name).get_dtype())


def _open(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt", device="cpu")
    except (SafetensorError, OSError, ValueError) as error:
        size = path.stat().st_size
        raise WeightsError(
            f"{path} ({size:,} bytes) is not a whole safetensors file: {error}",
            "it was cut short or changed; fetch it again",
        ) from None


def names_in(path: Path) -> set[str]:
    """The names of the tensors in one file."""
    return set(_open(path).keys())


def find_tensors(folder: Path) -> TensorFiles | None:
    """The safetensors of a folder; None when there are none."""
    single = inside(folder, SINGLE)
    if single is not None:
        return TensorFiles(dict.fromkeys(names_in(single), single))
    index = inside(folder, INDEX)
    if index is None:
        return None
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise WeightsError(f"{index} has no weight_map", "fetch the folder again")
    home: dict[str, Path] = {}
    for tensor, name in places.items():
        if not isinstance(name, str) or "/" in name or "\\" in name:
            raise UnsafeFileError(
                f"{index} places {tensor!r} in {name!r}, outside the folder", "nothing of it was read"
            )
        shard = inside(folder, name)
        if shard is None:
            raise WeightsError(f"{index} names {name}, which is not there", "fetch the folder again")
        home[tensor] = shard
    return TensorFiles(home)


def open_tensors(folder: Path, allow_pickle: bool = False) -> Mapping[str, Tensor]:
    """The tensors of a model folder. A pickle is read only where allowed, and then weights only."""
    found = find_tensors(folder)
    if found is not None:
        return found
    pickled = inside(folder, PICKLED)
    if pickled is None:
        raise WeightsError(
            f"{folder} holds no weights ({SINGLE} or {INDEX})",
            "name a folder with weights, or `bertworks import` an older format",
        )
    if not allow_pickle:
        raise UnsafeFileError(
            f"{folder} holds its weights as a pickle ({PICKLED}), which can carry code",
            f"convert it once: bertworks import {folder} --out NEW --allow-pickle (reads weights only)",
        )
    from .pickled import read_pickled

    return read_pickled(pickled)


def write_tensors(folder: Path, tensors: Mapping[str, Tensor], shard_bytes: int = 5 * 10**9) -> None:
    """model.safetensors, or shards with an index where the tensors are larger than one shard.

    `folder` is the temporary one of `folders.new_folder`, which makes the whole write atomic.
    """
    shards: list[dict[str, Tensor]] = [{}]
    held = 0
    for name, tensor in tensors.items():
        if held and held + tensor.nbytes > shard_bytes:
            shards.append({})
            held = 0
        shards[-1][name] = tensor.detach().cpu().contiguous()
        held += tensor.nbytes
    if len(shards) == 1:
        save_file(_unshared(shards[0]), folder / SINGLE, metadata={"format": "pt"})
        return
    places: dict[str, str] = {}
    for i, shard in enumerate(shards, 1):
        name = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
        save_file(_unshared(shard), folder / name, metadata={"format": "pt"})
        places |= dict.fromkeys(shard, name)
    total = sum(tensor.nbytes for tensor in tensors.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True) + "\n", encoding="utf8")


def _unshared(shard: dict[str, Tensor]) -> dict[str, Tensor]:
    """Parts of one tensor (q, k, v of a fused one) share its memory; the file format wants them apart."""
    return {
        name: tensor.clone() if tensor.untyped_storage().nbytes() != tensor.nbytes else tensor
        for name, tensor in shard.items()
    }


def check_finite(name: str, tensor: Tensor, quick: bool = False) -> None:
    """Refuse NaN and infinity by the tensor's name. One sum finds them; only a suspect is looked at closely.

    `quick` looks at vectors whole but at the first and last row alone of matrices, so that a mapped file need not
    be read to be opened: a training that diverged has NaN everywhere. What slips through is found when it matters,
    by `runtime.predictor`, which looks at what comes out.
    """
    if not tensor.is_floating_point():
        return
    seen = tensor[:: max(1, len(tensor) - 1)] if quick and tensor.ndim > 1 else tensor
    if not torch.isfinite(seen.sum(dtype=torch.float32)):
        wrong = int((~torch.isfinite(tensor)).sum())
        if wrong:
            raise WeightsError(
                f"tensor {name!r} holds {wrong:,} values that are not finite (NaN or infinity)",
                "the training that wrote it had diverged; use an earlier checkpoint",
            )
