"""The families: each a short file of parts, a configuration, a table of published sizes and a table of names."""

from __future__ import annotations

from bertworks.errors import ConfigError, nearest

from .albert import ALBERT
from .bert import BERT
from .config import EncoderConfig
from .modernbert import MODERNBERT
from .parts import Architecture
from .roberta import ROBERTA
from .roberta_prelayernorm import ROBERTA_PRELAYERNORM

ARCHITECTURES: dict[str, Architecture] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "roberta-prelayernorm": ROBERTA_PRELAYERNORM,
    "albert": ALBERT,
    "modernbert": MODERNBERT,
}


def architecture(name: str) -> Architecture:
    """The family called `name`, as config.json's model_type says it."""
    if name not in ARCHITECTURES:
        raise ConfigError(
            f"unknown architecture {name!r}",
            nearest(name, ARCHITECTURES) or f"this house has: {', '.join(ARCHITECTURES)}",
        )
    return ARCHITECTURES[name]


def preset(name: str) -> tuple[Architecture, EncoderConfig] | None:
    """A published size by its name, with or without its owner on the hub (google-bert/…); None if unknown."""
    bare = name.rpartition("/")[2].lower()
    for family in ARCHITECTURES.values():
        if bare in family.sizes:
            return family, family.sizes[bare]
    return None


def preset_names() -> list[str]:
    return [name for family in ARCHITECTURES.values() for name in family.sizes]
