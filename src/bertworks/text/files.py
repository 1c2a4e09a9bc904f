"""From what a person names to bytes: files, folders, patterns, standard input and addresses, packed or not."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import IO, Any, cast
from urllib.parse import urlsplit

from bertworks.errors import InputError, nearest

PACKED = {".gz": "gzip", ".zst": "zstd"}
TEXT = (".txt", ".text", ".md", ".rst")
TABLES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
STDIN = "-"
BLOCK = 1 << 20
NEEDS = {  # what fsspec wants for an address, by protocol
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "http": "aiohttp",
    "https": "aiohttp",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "oss": "ossfs",
    "hf": "huggingface_hub",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "webhdfs": "requests",
}


class Tally:
    """How often each thing happened on the way from files to documents, by stable names."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, what: str, n: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + n


@dataclass(frozen=True)
class SourceFile:
    """One file as it was addressed; size and change (a time or an ETag) tell later whether it is the same, where
    they can be known.
    """

    address: str
    size: int | None
    changed: str | None


# -- which files -----------------------------------------------------------------------------------------


def source_files(sources: Sequence[str], tally: Tally | None = None) -> list[SourceFile]:
    """The files of all sources: sources in the order given, sorted inside each, none twice.

    A source is a file, a folder (recursive; known suffixes only, nothing hidden), a pattern, `-`, or an address with
    `://` for fsspec. What a folder holds and is not taken is counted as "files_skipped"; a file that is met again,
    under another name or through a link, as "files_named_twice".
    """
    tally = tally or Tally()
    found: dict[str, SourceFile] = {}
    for source in sources:
        files = _remote(source, tally) if "://" in source else _local(source, tally)
        for file in files:
            itself = _itself(file.address)
            if itself in found:
                tally.add("files_named_twice")
            found.setdefault(itself, file)
    return list(found.values())


def _itself(address: str) -> str:
    """One name for all the names of a file."""
    if "://" in address and "::" not in address:
        system, path = _filesystem(address)
        address = str(system.unstrip_protocol(path)).removeprefix("file://")
    return address if address == STDIN or "://" in address else os.path.realpath(address)


def printable(address: str) -> str:
    """An address as text: a file's name may hold bytes that are no UTF-8, which nothing can store or print."""
    return os.fsencode(address).decode("utf8", "replace") if not address.isascii() else address


def kind_of(address: str) -> tuple[str, str | None]:
    """A name's suffix, lower case, without that of packing; and how it is packed."""
    name = next((part for part in address.split("::") if "://" in part), address)  # zip://a.txt::/tmp/all.zip
    if name.startswith(("http://", "https://")):
        name = urlsplit(name).path  # without `?` and what follows
    path = PurePath(name.lower())
    packed = PACKED.get(path.suffix)
    return (PurePath(path.stem).suffix, packed) if packed else (path.suffix, None)


def _local(source: str, tally: Tally) -> list[SourceFile]:
    if not source:
        raise InputError("a source without a name", "name a file, a folder or a pattern, or - for standard input")
    path = Path(source)
    try:
        if source == STDIN:
            return [SourceFile(STDIN, None, None)]
        if path.is_dir():
            return _folder(source, tally)
        if path.exists():
            return [_stated(source)]
        # Path.glob takes no absolute patterns.
        names = sorted(glob.glob(source, recursive=True)) if glob.has_magic(source) else []  # noqa: PTH207
        if "**" in source:  # it gives what is in folders by itself, unless the pattern is of folders only
            names = [name for name in names if not Path(name).is_dir()] or names
        lists = [_folder(name, tally) if Path(name).is_dir() else [_stated(name)] for name in names]
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)  # what a folder lists
        way_out = "it is a link to what is not there" if gone else "look at its name and permissions"
        raise InputError(f"{str(error.filename or source)[:500]} cannot be read: {error.strerror}", way_out) from None
    if files := [file for some in lists for file in some]:
        return files
    if glob.has_magic(source):
        raise InputError(f"no file matches {source}", "quote the pattern, or look at it with ls")
    if path.is_symlink():
        raise InputError(f"{source} is a link to {path.readlink()}, which is not there", "mend the link")
    beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
    hint = nearest(path.name, beside) or "name a file, a folder or a pattern, or - for standard input"
    raise InputError(f"{source} is not a file", hint)


def _stated(name: str) -> SourceFile:
    facts = Path(name).stat()
    if not Path(name).is_file():  # a pipe, such as <(zcat …)
        return SourceFile(name, None, None)
    return SourceFile(name, facts.st_size, str(facts.st_mtime_ns))


def _folder(top: str, tally: Tally) -> list[SourceFile]:
    """A folder's files, linked folders' too, each folder once."""

    def stop(error: OSError) -> None:
        raise error  # os.walk would leave out what it may not read

    names: list[str] = []
    seen = {os.path.realpath(top)}
    for folder, inner, files in os.walk(top, onerror=stop, followlinks=True):
        inner.sort()
        kept = []
        for name in inner:
            real = os.path.realpath(Path(folder) / name)
            if not name.startswith(".") and real not in seen:
                seen.add(real)
                kept.append(name)
        inner[:] = kept
        names += [str(Path(folder) / name) for name in files]
    known = [_stated(name) for name in _known(sorted(names), top, tally)]
    regular = [file for file in known if file.size is not None]  # nobody may be at the other end of a pipe
    if not regular:
        raise InputError(f"{top} holds no text but what comes through pipes", "name them one by one")
    if len(regular) < len(known):
        tally.add("files_skipped", len(known) - len(regular))
    return regular


def _known(names: list[str], folder: str, tally: Tally) -> list[str]:
    """Those that hold text by their names; a folder without any is an error."""
    kept = [name for name in names if not PurePath(name).name.startswith(".") and kind_of(name)[0] in TEXT + TABLES]
    if len(kept) < len(names):
        tally.add("files_skipped", len(names) - len(kept))
    if not kept:
        others = f" ({len(names)} files of other kinds)" if names else ""
        raise InputError(
            f"{folder} holds no text{others}",
            f"{' '.join(TEXT + TABLES)}, also .gz and .zst, are looked for; name others by a pattern: {folder}/*",
        )
    return kept


def _remote(source: str, tally: Tally) -> list[SourceFile]:
    with _reached(source):
        system, path = _filesystem(source)
        one = source.startswith(("http://", "https://"))  # neither patterns nor folders: `?` is part of an address
        if not one and glob.has_magic(path) and not system.exists(path):
            hidden = PurePath(path).name.startswith(".")
            names = [name for name in sorted(system.glob(path)) if hidden or not PurePath(name).name.startswith(".")]
            names = [name for name in names if system.isfile(name)]
            if not names:
                raise InputError(f"no file matches {source}", "look at the pattern")
        elif not one and system.isdir(path):
            within = [name for name in sorted(system.find(path)) if not _hidden(name, path)]
            names = _known(within, source, tally)
        else:
            return [_described(source, system.info(path))]
        return [_described(system.unstrip_protocol(name), system.info(name)) for name in names]


def _hidden(name: str, top: str) -> bool:
    """Whether it lies in a hidden folder of `top`."""
    return any(part.startswith(".") for part in PurePath(name.removeprefix(top)).parts[:-1])


def _described(address: str, info: dict[str, Any]) -> SourceFile:
    marks = ("ETag", "etag", "md5Hash", "checksum", "mtime", "LastModified", "last_modified", "updated", "created")
    changed = next((str(info[mark]) for mark in marks if info.get(mark)), None)
    return SourceFile(address, info.get("size"), changed)


def _filesystem(address: str) -> tuple[Any, str]:
    protocol = address.split("://")[0].split("::")[0]
    try:
        from fsspec.core import url_to_fs  # type: ignore[import-untyped]
    except ImportError:
        raise InputError(f"{address}: fsspec is not installed", "pip install fsspec") from None
    try:
        system, path = url_to_fs(address)
    except ImportError as error:
        package = NEEDS.get(protocol)
        raise InputError(
            f"{address}: {error}", f"pip install {package}" if package else "install it with pip"
        ) from None
    except ValueError as error:
        raise InputError(f"{address}: {error}", nearest(protocol, NEEDS) or "look at its beginning") from None
    return system, str(path)


@contextmanager
def _reached(address: str) -> Iterator[None]:
    """Whatever a remote file system raises, told in a line: each has errors of its own."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{address} is not there", "look at its spelling") from None
    except Exception as error:
        said = str(error).split("\n")[0] or type(error).__name__
        raise InputError(f"{address} cannot be read: {said}", "look at the address and your access to it") from None


# -- their bytes -----------------------------------------------------------------------------------------


@contextmanager
def opened(address: str) -> Iterator[IO[bytes]]:
    """The bytes of one file as they are stored; seekable but for pipes."""
    if address == STDIN:
        yield sys.stdin.buffer
    elif "://" in address:
        with _reached(address):
            system, path = _filesystem(address)
            with system.open(path, "rb") as stream:
                yield stream
    else:
        try:
            with Path(address).open("rb") as stream:
                yield stream
        except FileNotFoundError:
            raise InputError(f"{address} is not a file", "name a file of texts, or - for standard input") from None
        except PermissionError as error:
            raise InputError(f"{address} cannot be read: {error.strerror}", "look at its permissions") from None


def blocks(address: str) -> Iterator[bytes]:
    """The bytes of one file, unpacked, in blocks of about a megabyte."""
    packed = kind_of(address)[1]
    done = 0
    try:
        with opened(address) as stream:
            if packed:
                import pyarrow

                stream = cast("IO[bytes]", pyarrow.input_stream(stream, compression=packed))
            # From a pipe take what is there, so that whoever types sees an answer.
            read = getattr(stream, "read1", stream.read) if address == STDIN else stream.read
            while block := read(BLOCK):
                done += len(block)
                yield block
    except (OSError, InputError) as error:
        if isinstance(error, InputError) and not done:
            raise
        said = error.message if isinstance(error, InputError) else error.strerror or str(error)
        far = f" past {done:,} bytes of text" if packed else ""
        wide = "unpack it first: zstd -d --long=31" if "too much memory" in said else ""
        raise InputError(f"{address} cannot be read{far}: {said}", wide or "check that it is whole") from None
