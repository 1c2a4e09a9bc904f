"""The recipes that are shipped: what each says is in its first lines."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent


def names() -> list[str]:
    return sorted(path.stem for path in HERE.glob("*.toml"))


def path_of(name: str) -> Path:
    """A recipe's file: a path as it is given, or a shipped one by name."""
    from bertworks.errors import InputError, nearest

    if name.endswith(".toml") or "/" in name:
        return Path(name)
    if name not in names():
        raise InputError(
            f"no recipe {name!r}", nearest(name, names()) or f"shipped: {', '.join(names())}; or name a file"
        )
    return HERE / f"{name}.toml"


def about(name: str) -> str:
    """What the comment at a recipe's beginning says."""
    lines = (HERE / f"{name}.toml").read_text(encoding="utf8").splitlines()
    said = []
    for line in lines:
        if not line.startswith("#"):
            break
        said.append(line.removeprefix("#").strip())
    return " ".join(said)
