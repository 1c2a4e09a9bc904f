"""`pytorch_model.bin`: tensors in a pickle, the format from before safetensors.

A pickle is a program. torch's weights-only loader runs just the few instructions that build tensors; around
it stand checks that the file is no larger inside than outside, and that plain tensors come out.
"""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bertworks.errors import UnsafeFileError, WeightsError
from bertworks.weights.archives import DAMAGED

if TYPE_CHECKING:
    import torch

SAFER = "Ask for it as safetensors, or convert it on a machine you can lose."
WRAPPERS = ("state_dict", "model")
MOST_GROWTH = 4  # tied tensors come out once per name; more than this is a bomb
ALWAYS_ALLOWED = 64 << 20


def read_pickled(path: Path) -> dict[str, torch.Tensor]:
    """Every tensor of the file by name, on the CPU and contiguous, none sharing memory with another.

    Files of torch 1.6 and later are mapped, so what is not used is not read.
    """
    if not path.is_file():
        raise WeightsError(f"{path}: no such file")
    with path.open("rb") as file:
        packed = file.read(4) == b"PK\x03\x04"  # how torch itself tells its two formats apart
    if packed:
        _check_zip(path)
    found = _flat(path, _load(path, packed))
    size = sum(_bytes(path, name, tensor) for name, tensor in found.items())
    if size > max(ALWAYS_ALLOWED, MOST_GROWTH * path.stat().st_size):
        raise UnsafeFileError(f"{path}: its tensors come to {size} bytes, far more than the file holds", SAFER)
    return _separate(found)


def _check_zip(path: Path) -> None:
    """torch stores its entries as they are; one that is compressed or overlaps another was made to expand."""
    try:
        with zipfile.ZipFile(path) as package:
            entries = package.infolist()
    except DAMAGED as error:
        raise WeightsError(f"{path}: a damaged file ({error})", "Fetch or copy it again.") from None
    for entry in entries:
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size:
            raise UnsafeFileError(f"{path}: entry {entry.filename!r} is compressed, which torch never does", SAFER)
    if sum(entry.file_size for entry in entries) > path.stat().st_size:
        raise UnsafeFileError(f"{path}: its entries come to more bytes than the file has", SAFER)


def _load(path: Path, packed: bool) -> object:
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=packed)
    except pickle.UnpicklingError as error:
        named = re.search(r"(?:GLOBAL|global:?|function|type)\s+([\w.]+\.[\w.]+)", str(error))
        what = f"calls {named[1]}, which" if named else "holds more than tensors, and"
        raise UnsafeFileError(f"{path}: {what} would run code; it was not loaded", SAFER) from None
    except Exception as error:  # a damaged pickle can fail in any of its instructions
        first = str(error).partition("\n")[0][:200]
        raise WeightsError(f"{path}: not a readable torch file ({first})", "Fetch or copy it again.") from None


def _flat(path: Path, loaded: object) -> dict[str, torch.Tensor]:
    """The state dict itself, or the one that a training script wrapped in a larger dict."""
    import torch

    if isinstance(loaded, Mapping):
        for wrapper in WRAPPERS:
            if isinstance(loaded.get(wrapper), Mapping):
                loaded = loaded[wrapper]
                break
    if not isinstance(loaded, Mapping) or not loaded:
        raise WeightsError(f"{path}: holds {type(loaded).__name__}, not tensors by name", "Save model.state_dict().")
    for name, value in loaded.items():
        if not isinstance(name, str) or not isinstance(value, torch.Tensor):
            raise WeightsError(f"{path}: {name!r} is {type(value).__name__}, not a tensor", "Save model.state_dict().")
    return {str(name): tensor.detach() for name, tensor in loaded.items()}


def _bytes(path: Path, name: str, tensor: torch.Tensor) -> int:
    """The tensor's size once contiguous: a stride of zero makes any size from a few bytes."""
    import torch

    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
        raise WeightsError(f"{path}: tensor {name} is sparse, quantised or without data", "Save it dense.")
    return tensor.numel() * tensor.element_size()


def _separate(found: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Tied tensors share memory in the file; safetensors refuses that, so every name gets its own."""
    import torch

    seen: set[int] = set()
    result = {}
    for name, tensor in found.items():
        storage = tensor.untyped_storage().data_ptr()
        whole = tensor.is_contiguous() and storage not in seen
        result[name] = tensor if whole else tensor.clone(memory_format=torch.contiguous_format)
        seen.add(storage)
    return result
