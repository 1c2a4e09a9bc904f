"""SentencePiece model files (`spiece.model`), as far as ALBERT's Unigram vocabulary needs them."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from bertworks.protobuf import fields

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # ModelProto.SentencePiece.Type
UNIGRAM = 1  # TrainerSpec.ModelType


@dataclass(frozen=True)
class SentencePieceModel:
    """What the file says: pieces in id order with score and type, and how text is normalised first."""

    pieces: list[tuple[str, float]]
    types: list[int]
    unk_id: int
    charsmap: bytes  # a compiled table of character replacements; empty for none


def read(data: bytes) -> SentencePieceModel:
    """Parse the bytes of a model file. A torn or foreign one is a ValueError that says where."""
    pieces: list[tuple[str, float]] = []
    types: list[int] = []
    unk_id, model_type, charsmap = 0, UNIGRAM, b""
    seen = set()
    for number, value in fields(data):
        seen.add(number)
        if number == 1:
            try:
                piece, score, kind = _piece(_message(value))
            except (ValueError, struct.error) as error:
                raise ValueError(f"piece {len(pieces)}: {error}") from None
            pieces.append((piece, score))
            types.append(kind)
        elif number == 2:
            for key, item in fields(_message(value)):
                if key == 3 and isinstance(item, int):
                    model_type = item
                elif key == 40 and isinstance(item, int):
                    unk_id = item
        elif number == 3:
            for key, item in fields(_message(value)):
                if key == 2:
                    charsmap = _message(item)
    if not {1, 2, 3} <= seen:  # every trainer writes all three, in this order
        raise ValueError("it ends before its pieces, trainer and normaliser have all been told")
    if model_type != UNIGRAM:
        raise ValueError("it holds a model that is not Unigram")
    if UNKNOWN in types and (unk_id >= len(types) or types[unk_id] != UNKNOWN):
        unk_id = types.index(UNKNOWN)  # old trainers leave the id out; the piece's own type is the same fact
    if unk_id >= len(pieces):
        raise ValueError(f"its unknown token has id {unk_id} but it holds {len(pieces)} pieces")
    return SentencePieceModel(pieces, types, unk_id, charsmap)


def _piece(message: bytes) -> tuple[str, float, int]:
    text, score, kind = "", 0.0, NORMAL
    for number, value in fields(message):
        if number == 1:
            text = _message(value).decode("utf-8")
        elif number == 2:
            score = struct.unpack("<f", _message(value))[0]
        elif number == 3 and isinstance(value, int):
            kind = value
    return text, score, kind


def _message(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes belong")
    return value
