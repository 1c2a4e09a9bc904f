"""Unpacking .zip and .tar(.gz) archives from strangers.

An archive can name files outside the folder, plant a link and write through it, claim one size and unpack to
another, or be a few kilobytes that unpack to petabytes. So only plain files and folders are written, under
names that stay inside, and bytes are counted as they come out: what headers say is not believed.
"""

from __future__ import annotations

import errno
import gzip
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, NoReturn, cast

from bertworks.errors import UnsafeFileError, WeightsError

SUFFIXES = (".zip", ".tar.gz", ".tgz", ".tar")
MOST_ENTRIES = 10_000
ALWAYS_ALLOWED = 64 << 20
MOST_GROWTH = 200  # weights barely compress; text a few times
CHUNK = 1 << 20

# what zipfile and tarfile raise on archives that are not as they should be
DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, struct.error, ValueError,
    RuntimeError, OverflowError,
)  # fmt: skip
# what a file system says to a name in the place of another, too long, or not to be written at all
BAD_NAME = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL)


def is_archive(path: Path) -> bool:
    """Whether the name is one of an archive that `unpack` reads."""
    return path.name.lower().endswith(SUFFIXES)


def unpack(archive: Path, into: Path) -> None:
    """Write the archive's files into the folder `into`, which is made when it is not there.

    Archives inside it stay packed. On an error `into` may hold some of the files: unpack into a folder of
    your own making and drop it then.
    """
    into.mkdir(parents=True, exist_ok=True)
    allowed = max(ALWAYS_ALLOWED, MOST_GROWTH * archive.stat().st_size)
    allowed = min(allowed, shutil.disk_usage(into).free)
    writer = _Writer(archive, into, allowed)
    try:
        if archive.name.lower().endswith(".zip"):
            _unpack_zip(archive, writer)
        elif is_archive(archive):
            _unpack_tar(archive, writer)
        else:
            raise WeightsError(f"{archive}: not an archive this can unpack", f"Known are {', '.join(SUFFIXES)}.")
    except DAMAGED as error:
        raise WeightsError(f"{archive}: a damaged archive ({error})", "Fetch or copy it again.") from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # zipfile seeks wherever a header says, before the file too
            raise
        raise WeightsError(f"{archive}: a damaged archive (an offset before its start)") from None


class _Writer:
    """Writes entries below one folder and keeps the account: how many, which, how many bytes."""

    def __init__(self, archive: Path, into: Path, allowed: int) -> None:
        self.archive, self.into, self.allowed = archive, into, allowed
        self.seen: set[PurePosixPath] = set()
        self.entries = self.written = 0

    def refuse(self, entry: str, why: str) -> NoReturn:
        raise UnsafeFileError(f"{self.archive}: entry {entry!r} {why}", "Nothing of it was used.")

    def admit(self, entry: str) -> PurePosixPath:
        """The entry's place below the folder, if its name is relative, plain and new."""
        self.entries += 1
        if self.entries > MOST_ENTRIES:
            self.refuse(entry, f"is one of more than {MOST_ENTRIES}")
        name = PurePosixPath(entry)
        if name.is_absolute() or ".." in name.parts or any(bad in entry for bad in "\\:\0"):
            self.refuse(entry, "would be written outside the folder")
        if name in self.seen and name.parts:
            self.refuse(entry, "is there twice")
        self.seen.add(name)
        return name

    def folder(self, entry: str) -> None:
        with self.placing(entry):
            (self.into / self.admit(entry)).mkdir(parents=True, exist_ok=True)

    def file(self, entry: str, source: IO[bytes]) -> None:
        with self.placing(entry):
            target = self.into / self.admit(entry)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as out:
                while chunk := source.read(CHUNK):
                    self.written += len(chunk)
                    if self.written > self.allowed:
                        self.refuse(entry, f"unpacks past {self.allowed} bytes (a bomb, or a full disk)")
                    out.write(chunk)

    @contextmanager
    def placing(self, entry: str) -> Iterator[None]:
        """A name that the file system refuses is the archive's fault; a disk that fails is not."""
        try:
            yield
        except OSError as error:
            if error.errno not in BAD_NAME:
                raise
            self.refuse(entry, f"cannot be written ({error.strerror})")


def _unpack_zip(archive: Path, writer: _Writer) -> None:
    with zipfile.ZipFile(archive) as package:
        for info in package.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if info.orig_filename.endswith("/"):
                writer.folder(info.orig_filename)
                continue
            if kind not in (0, stat.S_IFREG):
                writer.refuse(info.orig_filename, "is a link or device, not a plain file")
            if info.flag_bits & 1:
                writer.refuse(info.orig_filename, "is encrypted")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # the other methods' decoders give no bound on what one read returns
                writer.refuse(info.orig_filename, f"is compressed in an unusual way ({info.compress_type})")
            with package.open(info) as source:
                writer.file(info.orig_filename, source)


def _unpack_tar(archive: Path, writer: _Writer) -> None:
    with archive.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        plain: IO[bytes] = cast(IO[bytes], gzip.GzipFile(fileobj=raw)) if packed else raw
        stream = _Counted(plain, writer)
        with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as package:
            for member in package:
                if member.isdir():
                    writer.folder(member.name)
                    continue
                source = package.extractfile(member) if member.isreg() and not member.issparse() else None
                if source is None:
                    writer.refuse(member.name, "is a link, a device or a file with holes, not a plain file")
                writer.file(member.name, source)


class _Counted:
    """A stream that stops at the limit, for what tarfile reads itself: a header can be of any size."""

    def __init__(self, source: IO[bytes], writer: _Writer) -> None:
        self.source, self.writer = source, writer
        self.left = writer.allowed + MOST_ENTRIES * 4096

    def read(self, size: int) -> bytes:
        chunk = self.source.read(min(size, CHUNK))
        self.left -= len(chunk)
        if self.left < 0:
            self.writer.refuse("(headers)", f"unpack past {self.writer.allowed} bytes")
        return chunk
