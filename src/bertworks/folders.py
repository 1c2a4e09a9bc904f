"""Files of a model folder, read only from inside it.

A model folder comes from anywhere, and its files may name other files or be links to them. What is read
is always a name the program chose, inside the folder the person chose; nothing leads out of it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any

from .errors import CannotWriteError, ConfigError, InputError, UnsafeFileError


def inside(folder: Path, name: str) -> Path | None:
    """The path of the file `name` in `folder`, or None when there is none.

    `name` may go down ("1_Pooling/config.json") but never up or out. A link must end in the folder itself;
    a snapshot of the Hugging Face cache keeps its bytes in the blobs beside it, so there it may end anywhere
    under the same `models--…` folder.
    """
    path = folder / name
    if _leaves(name):
        raise UnsafeFileError(f"{folder} names {name!r}, which is outside the folder", "nothing of it was read")
    try:
        root, target = folder.resolve(), path.resolve()
        if not any(target.is_relative_to(place) for place in (root, *_cache_of(root))):
            raise UnsafeFileError(
                f"{path} is a link to {target}, outside its folder",
                "put the file itself there if you trust it",
            )
        if not target.exists():
            return None
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a name too long, a NUL in it
        raise UnsafeFileError(f"{path} cannot be followed: {error}", "put the file itself there") from None
    if not target.is_file():
        raise UnsafeFileError(f"{path} is not a regular file", "put the file itself there")
    return path


def _leaves(name: str) -> bool:
    pure = PurePosixPath(name.replace("\\", "/"))
    return pure.is_absolute() or ".." in pure.parts or name in ("", ".") or "\0" in name or ":" in pure.parts[0]


def _cache_of(root: Path) -> list[Path]:
    """The `models--…` folder that `root` is a snapshot of (or a folder in one), if it is."""
    return [
        models
        for models in root.parents
        if models.name.startswith("models--") and root.relative_to(models).parts[0] == "snapshots"
        if len(root.relative_to(models).parts) >= 2
    ]


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; anything else is an error that names the file and the place."""
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}", "fetch it again, or mend it") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path} holds a {type(value).__name__}, not an object", "fetch it again, or mend it")
    return value


@contextmanager
def new_folder(out: Path, replace: bool = False) -> Iterator[Path]:
    """A temporary sibling to fill; when the block ends well it is flushed and renamed to `out`.

    So `out` is there whole or not at all. A non-empty `out` is replaced only if asked, and only at the end.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is a file", "name a folder to write")
    if out.is_dir() and any(out.iterdir()) and not replace:
        raise InputError(f"{out} is there already and not empty", "name another folder, or remove it first")
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())  # mkdtemp's folders are private; a model folder is an ordinary one
        for path in temporary.rglob("*"):
            flush(path)
        flush(temporary)
        if replace and out.is_dir():
            old = Path(tempfile.mkdtemp(prefix=f".{out.name}.old.", dir=out.parent))
            out.rename(old / out.name)
            temporary.rename(out)
            shutil.rmtree(old)
        else:
            temporary.rename(out)  # over an empty folder at most: what another process put there meanwhile stays
        flush(out.parent)
    except OSError as error:
        raise CannotWriteError(
            f"{out} cannot be written: {error.strerror or error}", "free space, or name another folder"
        ) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, which gets its name when the block ends well and it is on the disk: whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(draft).chmod(0o666 & ~_umask())
        Path(draft).replace(path)
        flush(path.parent)
    finally:
        Path(draft).unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Have the disk hold what was written."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
