"""Documents out of files: what a person has, as a stream of (id, text). What is bad is counted, never lost in silence.

A document's id is its file's address and the number of the line (text, JSON lines) or row (other tables) where it
begins, from 1; `how="file"` gives the address alone. A piece of what was too long has `+2`, `+3`, … behind that.

What is counted: files_read, files_empty, files_skipped, files_named_twice; documents_read, and what was no document:
empty_documents (nothing but blanks), rows_without_text (null, or without the column), bad_rows (not to be read);
what was mended: bad_utf8_lines, nul_characters, lone_surrogates; what was cut: long_lines_cut, long_documents_cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from bertworks.errors import InputError, nearest
from bertworks.text.files import STDIN, SourceFile, Tally, blocks, kind_of, printable, source_files
from bertworks.text.lines import Chunks, lines
from bertworks.text.rows import KINDS, READERS, Column, json_lines, parquet

__all__ = ["HOWS", "Document", "SourceFile", "Tally", "documents", "source_files"]

HOWS = ("auto", "line", "blank", "file")
LONGEST = 1 << 24  # bytes of a line, characters of a document: longer ones are cut
SNIFF = 1 << 20  # characters that `auto` decides by
JSON_START = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"')


@dataclass(frozen=True)
class Document:
    """One text and where it comes from."""

    id: str
    text: str


def documents(sources: Sequence[str], how: str, column: str, tally: Tally) -> Iterator[Document]:
    """Every document of the sources, in their order, none without text.

    Tables (.jsonl, .ndjson, .json, .csv, .tsv, .parquet; standard input that begins with a JSON object) give one for
    each row's `column`. Text files give one a `line`, one between `blank` lines, or one a `file`; `auto` is blank
    where the file (of a pipe or an address: its first megabyte) has a blank line between lines of text, and line
    otherwise. What is wrong with
    `how` or the sources is said at once, not at the first document.
    """
    if how not in HOWS:
        raise InputError(f"no way {how!r} to tell documents apart", nearest(how, HOWS) or f"one of {', '.join(HOWS)}")
    files = source_files(sources, tally)
    return chain.from_iterable(_of_file(file.address, how, column, tally) for file in files)


def _of_file(address: str, how: str, column: str, tally: Tally) -> Iterator[Document]:
    """A file's documents, counted."""
    tally.add("files_read")
    kind = kind_of(address)[0]
    name = printable(address)
    where = "standard input" if address == STDIN else name
    wanted = Column(column, where, tally)
    if kind == ".parquet":
        return _of_rows(parquet(address, wanted), name, tally)
    stream = blocks(address)
    first = next(stream, b"")
    if not first:
        tally.add("files_empty")
    stream = chain((first,), stream)
    if kind in KINDS:
        return _of_rows(READERS[kind](stream, wanted), name, tally)
    if address == STDIN and JSON_START.match(first):
        return _of_rows(json_lines(stream, wanted), name, tally)
    chunks = lines(stream, tally, LONGEST, where)
    if how == "auto":
        how, chunks = _decided(chunks, address)
    return _of_lines(chunks, name, tally) if how == "line" else _of_groups(chunks, name, tally, how == "blank")


def _of_rows(rows: Iterator[tuple[int, str | None]], address: str, tally: Tally) -> Iterator[Document]:
    for number, text in rows:
        if text is None:
            continue  # counted by its column
        if len(text) > LONGEST:
            tally.add("long_documents_cut")
            yield from _pieces(f"{address}:{number}", text, tally)
        elif _counted(text, tally):
            yield Document(f"{address}:{number}", text)


def _pieces(name: str, text: str, tally: Tally) -> Iterator[Document]:
    for piece, start in enumerate(range(0, len(text), LONGEST), 1):
        some = text[start : start + LONGEST]
        if _counted(some, tally):
            yield Document(_name(name, piece), some)


def _decided(chunks: Chunks, address: str) -> tuple[str, Chunks]:
    """How `auto` is meant for these lines, and the same lines."""
    seen: list[tuple[list[str], bool]] = []
    size = 0
    text_before = blank_before = False
    for some, goes_on in chunks:
        seen.append((some, goes_on))
        for line in some:
            if not line or line.isspace():
                blank_before = text_before
            elif blank_before:
                return "blank", chain(seen, chunks)
            else:
                text_before = True
        size += sum(map(len, some)) + len(some)
        if size >= SNIFF:
            if "://" not in address and Path(address).is_file() and _has_blank_line(address):
                return "blank", chain(seen, chunks)
            break
    return "line", chain(seen, chunks)


def _has_blank_line(address: str) -> bool:
    """Whether text stands on both sides of a blank line anywhere in a file: read for that alone, which is quick."""
    text_before = blank_before = False
    for some, _ in lines(blocks(address), Tally(), LONGEST, address):
        for line in some:
            if not line or line.isspace():
                blank_before = text_before
            elif blank_before:
                return True
            else:
                text_before = True
    return False


def _numbered(chunks: Chunks, tally: Tally) -> Iterator[tuple[int, int, str]]:
    """Each line's number and text; one that was cut comes as pieces 1, 2, … (in the middle) of one number."""
    number, piece = 0, 1
    for some, goes_on in chunks:
        start = 0
        if piece > 1:
            yield number, piece, some[0]
            start = 1
        for line in some[start:] if start else some:
            number += 1
            yield number, 1, line
        if goes_on:
            going_on = piece > 1 and len(some) == 1
            tally.add("long_lines_cut", 0 if going_on else 1)
            piece = piece + 1 if going_on else 2
        else:
            piece = 1


def _of_lines(chunks: Chunks, address: str, tally: Tally) -> Iterator[Document]:
    for number, piece, line in _numbered(chunks, tally):
        if _counted(line, tally):
            yield Document(f"{address}:{number}" if piece == 1 else f"{address}:{number}+{piece}", line)


def _of_groups(chunks: Chunks, address: str, tally: Tally, parted: bool) -> Iterator[Document]:
    """Lines that stand together: between blank lines where `parted`, else the whole file.

    One that becomes too long is cut between lines, or where a line is.
    """
    held: list[str] = []
    size, name, part = 0, address, 1
    for number, piece, line in _numbered(chunks, tally):
        if parted and piece == 1 and (not line or line.isspace()):
            if held:
                yield from _joined(held, _name(name, part), tally)
            held, size, part = [], 0, 1
            continue
        if held and (piece > 1 or size >= LONGEST):
            tally.add("long_documents_cut", 1 if part == 1 else 0)
            yield from _joined(held, _name(name, part), tally)
            held, size, part = [], 0, part + 1
        if parted and not held and part == 1:
            name = f"{address}:{number}"
        held.append(line)
        size += len(line) + 1
    if held:
        yield from _joined(held, _name(name, part), tally)


def _joined(held: list[str], name: str, tally: Tally) -> Iterator[Document]:
    text = "\n".join(held)
    if _counted(text, tally):
        yield Document(name, text)


def _counted(text: str, tally: Tally) -> bool:
    """Whether this is a document, counted as one or as empty."""
    here = bool(text) and not text.isspace()
    tally.add("documents_read" if here else "empty_documents")
    return here


def _name(name: str, piece: int) -> str:
    return name if piece == 1 else f"{name}+{piece}"
