"""How a sentence encoder makes one vector of a text, as sentence-transformers writes it beside a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertworks.errors import ConfigError
from bertworks.folders import inside, read_json
from bertworks.heads.pool import POOLINGS

# Both spellings of 1_Pooling/config.json: one flag per way (old), the way's name (new).
FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
}


@dataclass(frozen=True)
class SentenceOptions:
    """how: cls, mean or max; normalise: to length 1; max_length in tokens; prompt: put before every text."""

    how: str = "mean"
    normalise: bool = False
    max_length: int | None = None
    lowercase: bool = False
    prompt: str = ""


def read_options(folder: Path) -> SentenceOptions | None:
    """From modules.json and what it names; None where the folder is no sentence encoder."""
    path = inside(folder, "modules.json")
    if path is None:
        return None
    try:
        modules = json.loads(path.read_bytes())
        steps = [(str(step["type"]).rpartition(".")[2], str(step["path"])) for step in modules]
    except (ValueError, TypeError, KeyError):
        raise ConfigError(f"{path} is not a list of modules with type and path", "fetch it again") from None
    how, normalise = "mean", False
    for kind, place in steps:
        if kind == "Pooling":
            how = _pooling(folder, place)
        elif kind == "Normalize":
            normalise = True
        elif kind != "Transformer":
            raise ConfigError(
                f"{path}: this house has no sentence module {kind!r}",
                "Transformer, Pooling and Normalize are read",
            )
    more = inside(folder, "sentence_bert_config.json")
    settings: dict[str, Any] = {} if more is None else read_json(more)
    length = settings.get("max_seq_length")
    return SentenceOptions(
        how,
        normalise,
        length if isinstance(length, int) and length > 2 else None,
        bool(settings.get("do_lower_case")),
        _prompt(folder),
    )


def _pooling(folder: Path, place: str) -> str:
    path = inside(folder, f"{place}/config.json" if place else "config.json")
    if path is None:
        raise ConfigError(f"{folder}: modules.json names {place}/config.json, which is not there", "fetch it again")
    settings = read_json(path)
    mode = settings.get("pooling_mode")
    modes = [mode] if isinstance(mode, str) else mode
    if modes is None:
        modes = [FLAGS.get(key, key) for key, on in settings.items() if key.startswith("pooling_mode_") and on]
    if len(modes) != 1 or modes[0] not in POOLINGS:
        raise ConfigError(
            f"{path}: pooling {' + '.join(map(str, modes)) or 'of nothing'} is not one of this house's",
            f"known, one at a time: {', '.join(POOLINGS)}",
        )
    return str(modes[0])


def _prompt(folder: Path) -> str:
    """The prompt that sentence-transformers would put before every text by default."""
    path = inside(folder, "config_sentence_transformers.json")
    settings = {} if path is None else read_json(path)
    name = settings.get("default_prompt_name")
    prompts = settings.get("prompts")
    return str(prompts.get(name, "")) if name and isinstance(prompts, dict) else ""


def write_options(folder: Path, options: SentenceOptions, width: int) -> None:
    """modules.json and what it names, so that sentence-transformers gives the same vectors."""
    home = "sentence_transformers.models"
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")] + [("2_Normalize", "Normalize")] * options.normalise
    listed = [
        {"idx": i, "name": str(i), "path": place, "type": f"{home}.{kind}"} for i, (place, kind) in enumerate(modules)
    ]
    for place, _ in modules:
        (folder / place).mkdir(exist_ok=True)
    flags = {flag: way == options.how for flag, way in FLAGS.items()}
    _write(folder / "modules.json", listed)
    _write(folder / "1_Pooling/config.json", {"word_embedding_dimension": width, **flags})
    _write(
        folder / "sentence_bert_config.json",
        {"max_seq_length": options.max_length, "do_lower_case": options.lowercase},
    )
    if options.prompt:
        _write(
            folder / "config_sentence_transformers.json",
            {"prompts": {"default": options.prompt}, "default_prompt_name": "default"},
        )


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf8")
