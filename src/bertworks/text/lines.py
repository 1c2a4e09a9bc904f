"""From bytes to lines of text, about a megabyte at a time: decoded, with what is bad in them mended and counted."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator

from bertworks.errors import InputError
from bertworks.text.files import Tally

MANY_LOST = 100  # characters at the beginning of a file that are no UTF-8, before it is taken for another encoding
COMMON_CHINESE = re.compile(
    "[的一是不了在人有我他这个们中来上大为和国地到以说时要就出会也你对生能而子那得于着下自之年过发后作里]"
)
SPACE_WITHIN = 1 << 16  # how far back from the limit a white space is looked for, to cut a line that is too long
SURROGATES = re.compile("[\ud800-\udfff]")
Chunks = Iterator[tuple[list[str], bool]]
NO_TEXT = {  # how files begin that hold something else, whatever their names say
    codecs.BOM_UTF32_LE: ("is in UTF-32", "make it UTF-8: iconv -f UTF-32 -t UTF-8"),
    codecs.BOM_UTF32_BE: ("is in UTF-32", "make it UTF-8: iconv -f UTF-32 -t UTF-8"),
    b"\x1f\x8b\x08": ("is packed by gzip", "give it a name that ends in .gz, or unpack it: gzip -dc"),
    b"\x28\xb5\x2f\xfd": ("is packed by zstd", "give it a name that ends in .zst, or unpack it: zstd -dc"),
    b"\xfd7zXZ\0": ("is packed by xz", "unpack it: xz -dc"),
    b"PK\x03\x04": ("is a zip archive or an office document", "take the text out of it first"),
    b"PAR1\x15": ("is a Parquet file", "give it a name that ends in .parquet"),
    b"%PDF-": ("is a PDF", "take the text out of it first"),
    b"\x89PNG": ("is a picture", "text is wanted"),
    b"\xff\xd8\xff": ("is a picture", "text is wanted"),
}


def lines(stream: Iterator[bytes], tally: Tally, longest: int, where: str) -> Chunks:
    """Lines without their ends, many at a time; True where the last one goes on in the next list.

    Lines end at LF, CRLF or CR, and nowhere else. A line that has no end within `longest` bytes (and the block after
    them) comes in pieces: cut behind a white space where one is near, always between characters. Bad UTF-8 becomes
    U+FFFD and its lines are counted; NULs are removed and counted; a byte order mark is removed, and UTF-16
    understood, where the file begins with one. What is no text at all is refused; `where` names it.
    """
    held: list[bytes] = []  # what has no end yet, but for a CR at its very end: that may be half of a CRLF
    size = 0
    for block in _utf8(stream, tally, where):
        if b"\0" in block:
            tally.add("nul_characters", block.count(b"\0"))
            block = block.replace(b"\0", b"")
        if not block:
            continue
        if held and held[-1].endswith(b"\r") and not block.startswith(b"\n"):
            yield _decoded(b"".join(held), tally), False
            held, size = [], 0
        end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, -1)) + 1
        if end:
            yield _decoded(b"".join([*held, block[:end]]), tally), False
            block = block[end:]
            held, size = [], 0
        if block:
            held.append(block)
            size += len(block)
        while size > longest:
            data = b"".join(held)
            cut = _cut(data, longest)
            yield _decoded(data[:cut], tally), True
            held, size = [data[cut:]], len(data) - cut
    if size:
        yield _decoded(b"".join(held), tally), False


def _cut(data: bytes, longest: int) -> int:
    space = max(data.rfind(mark, max(longest - SPACE_WITHIN, 1), longest) for mark in (b" ", b"\t"))
    if space > 0:
        return space + 1
    for cut in range(longest, max(longest - 4, 0), -1):
        if data[cut] & 0xC0 != 0x80:  # where a character begins
            return cut
    return longest


def _decoded(data: bytes, tally: Tally) -> list[str]:
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    data = data.removesuffix(b"\n")
    try:
        return data.decode().split("\n")
    except UnicodeDecodeError:
        return [replaced(line, tally) for line in data.split(b"\n")]


def replaced(line: bytes, tally: Tally) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        tally.add("bad_utf8_lines")
        return line.decode(errors="replace")


def _utf8(stream: Iterator[bytes], tally: Tally, where: str) -> Iterator[bytes]:
    """The same text as UTF-8 without a byte order mark."""
    start = b""
    for block in stream:
        start += block
        if len(start) >= 8 or b"\n" in start:
            break
    for mark, (what, way_out) in NO_TEXT.items():
        if start.startswith(mark):
            raise InputError(f"{where} {what}", way_out)
    if not start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        _refuse_other_encodings(start, where)
        if start := start.removeprefix(codecs.BOM_UTF8):
            yield start
        yield from stream
        return
    decoder = codecs.getincrementaldecoder("utf-16")("surrogatepass")
    yield scrubbed(decoder.decode(start), tally).encode()
    for block in stream:
        yield scrubbed(decoder.decode(block), tally).encode()
    try:
        yield scrubbed(decoder.decode(b"", True), tally).encode()
    except UnicodeDecodeError:
        yield b"\xff"  # half a character at the end, to be replaced and counted as any bad byte is


def _refuse_other_encodings(start: bytes, where: str) -> None:
    """Of text in another encoding every character would be lost. A bad byte here and there is not that."""
    try:
        start.decode()
        return
    except UnicodeDecodeError:
        text = start.decode(errors="replace")
    lost = text.count("\ufffd")
    if lost < MANY_LOST or lost * 20 < len(text) or lost * 2 < len(text) - len(text.encode("ascii", "ignore")):
        return
    chinese = len(COMMON_CHINESE.findall(start.decode("gb18030", "ignore")))
    if chinese * 20 > lost:
        raise InputError(f"{where} is not UTF-8: it reads as GB18030", "make it UTF-8: iconv -f GB18030 -t UTF-8")
    raise InputError(f"{where} is not UTF-8", "find out its encoding and make it UTF-8: iconv -f ENCODING -t UTF-8")


def scrubbed(text: str, tally: Tally) -> str:
    """Text without NULs, U+FFFD for half surrogates, both counted."""
    if "\0" in text:
        tally.add("nul_characters", text.count("\0"))
        text = text.replace("\0", "")
    if not text.isascii():
        try:
            text.encode()  # faster than a search
        except UnicodeEncodeError:
            text, count = SURROGATES.subn("\ufffd", text)
            tally.add("lone_surrogates", count)
    return text


def whole_lines(
    stream: Iterator[bytes],
    tally: Tally,
    longest: int,
    where: str,
    too_long: Callable[[InputError], None] | None = None,
) -> Iterator[str]:
    """Lines one by one. One of more than `longest` bytes is an error, or an empty line once `too_long` was told it."""
    number, within = 0, False  # within a line that is too long
    for some, goes_on in lines(stream, tally, longest, where):
        if within:
            del some[0]
            if not some and goes_on:
                continue
        if within := goes_on:
            error = InputError(
                f"{where}, line {number + len(some)}: longer than {longest >> 20:,} MB", "is it one line a text?"
            )
            if too_long is None:
                raise error
            too_long(error)
            some[-1] = ""
        yield from some
        number += len(some)
