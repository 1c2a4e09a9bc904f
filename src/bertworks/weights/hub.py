"""Where a MODEL is: a folder, a run folder, or an id on the Hugging Face hub, through its cache."""

from __future__ import annotations

import re
from pathlib import Path

from bertworks.errors import InputError

# What a model folder may hold that we read; no code and no pickles come down unless asked for.
WANTED = ["*.json", "*.txt", "*.model", "*.safetensors", "1_Pooling/*", "2_Normalize/*"]


def locate(model: str | Path, allow_pickle: bool = False) -> Path:
    """The folder of a MODEL. Only what is no folder here is looked for on the hub."""
    path = Path(model).expanduser()
    if path.is_dir():
        return _run_model(path)
    if path.exists():
        raise InputError(f"{model} is a file, not a model folder", "name the folder that holds it")
    if not _is_hub_id(str(model)):
        raise InputError(
            f"{model} is not here", "name a model folder, or a hub id such as google-bert/bert-base-uncased"
        )
    return _from_hub(str(model), allow_pickle)


def _run_model(path: Path) -> Path:
    """A run folder stands for its model."""
    if not (path / "config.json").exists() and (path / "model" / "config.json").exists():
        return path / "model"
    return path


def _is_hub_id(name: str) -> bool:
    """`name` or `owner/name`, of letters, digits and `.-_`, as the hub allows."""
    word = r"[A-Za-z0-9][\w.\-]{0,95}"
    return re.fullmatch(f"({word}/)?{word}", name, re.ASCII) is not None


def _from_hub(name: str, allow_pickle: bool) -> Path:
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

    wanted = [*WANTED, "pytorch_model.bin"] if allow_pickle else WANTED
    try:
        return Path(snapshot_download(name, allow_patterns=wanted))
    except RepositoryNotFoundError:
        raise InputError(
            f"{name} is neither a folder here nor a model on the hub",
            "check the spelling, or log in with `hf auth login`",
        ) from None
    except (LocalEntryNotFoundError, HfHubHTTPError, OSError) as error:
        if constants.HF_HUB_OFFLINE:
            reason, way_out = "HF_HUB_OFFLINE is set and it is not in the cache", "unset it, or name a folder"
        else:
            reason = f"the hub cannot be reached ({type(error).__name__})"
            way_out = "check the network, or name a folder"
        raise InputError(f"{name} is no folder here, and {reason}", way_out) from None
