"""Tokenizers that share nothing with our engine, and strings to compare on: what the parity tests go by.

WordPiece is transformers' pure-Python class, byte-level BPE a plain reading of GPT-2's, Unigram the sentencepiece
library behind ALBERT's published preparation of text. None is fast; each is short enough to be believed.
"""

from __future__ import annotations

import itertools
import random
import struct
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import regex
import sentencepiece
from transformers.models.bert.tokenization_bert_legacy import BasicTokenizer, BertTokenizerLegacy, whitespace_tokenize

# -- WordPiece -------------------------------------------------------------------------------------------


class WithoutNfc(BasicTokenizer):
    """The class as Google published it: transformers' own composes characters first (NFC), the fast one does not."""

    def tokenize(self, text: str, never_split: Sequence[str] | None = None) -> list[str]:
        kept = self.never_split | set(never_split or ())
        words: list[str] = []
        for word in whitespace_tokenize(self._tokenize_chinese_chars(self._clean_text(text))):
            if self.do_lower_case and word not in kept:
                word = self._run_strip_accents(word.lower())
            words += self._run_split_on_punc(word, kept)
        return whitespace_tokenize(" ".join(words))


class BertOracle:
    """BERT's tokenizer in Python. `composed` counts texts that NFC changes: there its step is left out."""

    def __init__(self, vocab: Path, lower: bool) -> None:
        self.legacy = BertTokenizerLegacy(str(vocab), do_lower_case=lower)
        self.basic = self.legacy.basic_tokenizer
        self.published = WithoutNfc(do_lower_case=lower)
        self.composed = 0

    def ids(self, text: str) -> list[int]:
        clean = self.basic._clean_text(text)
        composes = not self.basic.do_lower_case and not unicodedata.is_normalized("NFC", clean)
        self.composed += composes
        self.legacy.basic_tokenizer = self.published if composes else self.basic
        found: list[int] = self.legacy.convert_tokens_to_ids(self.legacy.tokenize(text))
        return found


# -- byte-level BPE --------------------------------------------------------------------------------------

GPT2 = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")
ROBERTA_SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def letters_of_bytes() -> list[str]:
    """GPT-2's 256 letters: printable Latin-1 stands for itself, the rest for U+0100 onward."""
    own = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = itertools.count(0x100)
    return [chr(byte) if byte in own else chr(next(others)) for byte in range(256)]


class ByteBpeOracle:
    """GPT-2's: cut by its pattern, then merge the pair of lowest rank until none is left."""

    def __init__(self, ids: dict[str, int], merges: Sequence[tuple[str, str]]) -> None:
        self.vocabulary = ids
        self.rank = {pair: at for at, pair in enumerate(merges)}
        self.letters = letters_of_bytes()
        self.word = lru_cache(1 << 16)(self._word)

    def ids(self, text: str) -> list[int]:
        found: list[int] = []
        for part, special in parted(text, ROBERTA_SPECIALS, "<mask>"):
            if special:
                found.append(self.vocabulary[part])
                continue
            for word in GPT2.findall(part):
                found += self.word(word)
        return found

    def _word(self, word: str) -> list[int]:
        symbols = [self.letters[byte] for byte in word.encode()]
        while len(symbols) > 1:
            pairs = list(itertools.pairwise(symbols))
            best = min(pairs, key=lambda pair: self.rank.get(pair, len(self.rank)))
            if best not in self.rank:
                break
            merged: list[str] = []
            at = 0
            while at < len(symbols):
                if tuple(symbols[at : at + 2]) == best:
                    merged.append(symbols[at] + symbols[at + 1])
                    at += 2
                else:
                    merged.append(symbols[at])
                    at += 1
            symbols = merged
        return [self.vocabulary[symbol] for symbol in symbols]


# -- Unigram ---------------------------------------------------------------------------------------------

ALBERT_SPECIALS = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")


class AlbertOracle:
    """google-research/albert's preprocess_text and encode_pieces over the sentencepiece library."""

    def __init__(self, model: Path | bytes, lower: bool = True) -> None:
        own = {"model_proto": model} if isinstance(model, bytes) else {"model_file": str(model)}
        self.library = sentencepiece.SentencePieceProcessor(**own)
        self.lower = lower

    def prepared(self, text: str) -> str:
        text = " ".join(text.strip().split()).replace("``", '"').replace("''", '"')
        if self.lower:
            text = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
            text = text.lower()
        return text

    def ids(self, text: str) -> list[int]:
        found: list[int] = []
        for part, special in parted(text, ALBERT_SPECIALS, "[MASK]"):
            found += [self.library.piece_to_id(part)] if special else self._of_text(self.prepared(part))
        return found

    def _of_text(self, text: str) -> list[int]:
        pieces: list[str] = []
        for piece in self.library.encode(text, out_type=str):
            if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():  # "2010," is a number and a comma
                number = self.library.encode(piece[:-1].replace("▁", ""), out_type=str)
                if piece[0] != "▁" and number[0][0] == "▁":
                    number = number[1:] if len(number[0]) == 1 else [number[0][1:], *number[1:]]
                pieces += [*number, ","]
            else:
                pieces.append(piece)
        found: list[int] = self.library.piece_to_id(pieces)
        return found


def spiece_model(pieces: Sequence[tuple[str, float]], specials: int, unk_id: int) -> bytes:
    """A SentencePiece model file that holds these pieces, the first `specials` of them control tokens."""

    def number(value: int) -> bytes:
        return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)

    def message(key: int, content: bytes) -> bytes:
        return number(key << 3 | 2) + number(len(content)) + content

    def flag(key: int, value: int) -> bytes:
        return number(key << 3) + number(value)

    made = b""
    for at, (piece, score) in enumerate(pieces):
        kind = 2 if at == unk_id else 3 if at < specials else 1
        made += message(1, message(1, piece.encode()) + b"\x15" + struct.pack("<f", score) + flag(3, kind))
    trainer = flag(3, 1) + flag(40, unk_id) + b"".join(flag(key, 2**64 - 1) for key in (41, 42, 43))
    return made + message(2, trainer) + message(3, message(1, b"identity") + flag(3, 1) + flag(4, 1) + flag(5, 1))


def parted(text: str, specials: Sequence[str], strips: str) -> Iterator[tuple[str, bool]]:
    """Text in parts and special tokens; `strips` takes the white space before it."""
    pattern = "|".join((rf"\s*{regex.escape(one)}" if one == strips else regex.escape(one)) for one in specials)
    at = 0
    for match in regex.finditer(pattern, text):
        yield text[at : match.start()], False
        yield match[0].lstrip(), True
        at = match.end()
    yield text[at:], False


# -- strings ---------------------------------------------------------------------------------------------

ONSETS = [*"bcdfgklmnprstvw", "st", "tr", "ch", "sh"]
SYLLABLES = [onset + rest for onset in ONSETS for rest in [*"aeiou", "an", "en", "ing"]]
SPECIALS = (*ROBERTA_SPECIALS, *ALBERT_SPECIALS[2:], "[PAD]", "[UNK]", "[mask]", "<MASK>", "[ MASK ]", "[[MASK]]")
RANGES = {
    "latin": (0xC0, 0x24F),
    "marks": (0x300, 0x36F),
    "greek": (0x370, 0x3FF),
    "cyrillic": (0x400, 0x4FF),
    "hebrew": (0x590, 0x5FF),
    "arabic": (0x600, 0x6FF),
    "devanagari": (0x900, 0x97F),
    "thai": (0xE00, 0xE7F),
    "jamo": (0x1100, 0x11FF),
    "greek again": (0x1F00, 0x1FFF),
    "punctuation": (0x2000, 0x206F),
    "symbols": (0x20A0, 0x2BFF),
    "kana": (0x3000, 0x30FF),
    "chinese": (0x4E00, 0x9FFF),
    "hangul": (0xAC00, 0xD7A3),
    "compatibility": (0xF900, 0xFFFF),
    "mathematical": (0x1D400, 0x1D7FF),
    "emoji": (0x1F300, 0x1FAFF),
    "rare chinese": (0x20000, 0x323AF),
    "controls": (0x00, 0x20),
    "ascii": (0x20, 0x7F),
    "ascii again": (0x20, 0x7F),
    "more controls": (0x7F, 0xA0),
}
# Every character that has a meaning, private ones aside.
ASSIGNED = "".join(filter(lambda char: unicodedata.category(char) not in ("Cn", "Co", "Cs"), map(chr, range(0x110000))))
SPACES = " \t\n\r\u00a0\u1680\u2003\u2028\u2029\u202f\u205f\u3000\u200b\u200d\ufeff\u0085\x0b\x0c\x1c"


def nasty(seed: int) -> Iterator[str]:
    """Strings without end: scripts, marks, controls, joiners, special tokens and plain words, mixed."""
    draw = random.Random(seed)
    ranges = list(RANGES.values())

    def from_range() -> str:
        low, high = draw.choice(ranges)
        return "".join(chr(draw.randint(low, high)) for _ in range(draw.choice((1, 1, 2, 3, 6))))

    makers = (
        from_range,
        from_range,
        lambda: word(draw),
        lambda: word(draw).capitalize() + draw.choice(("'s", "'ll", ".", ",", "-", "!?", "''", "``", "'T", "")),
        lambda: word(draw) + chr(draw.randint(0x300, 0x345)),
        lambda: draw.choice(SPACES) * draw.choice((1, 1, 2, 5)),
        lambda: draw.choice(SPECIALS),
        lambda: draw.choice(("1,000", "2010,", "3.14", "5-6", "U.S.", "①", "½", "٣", "20,", "a\u0301\u0323", "ﬁ", "Å")),
        lambda: draw.choice(("👩\u200d👩\u200d👧", "👍🏽", "🇨🇳", "e\u20e3", "☃\ufe0f", "İ", "ß", "ǅ", "ſ", "字\u3099")),
        lambda: draw.choice(ASSIGNED),
    )
    while True:
        glue = draw.choice(("", "", " ", " "))
        yield glue.join(draw.choice(makers)() for _ in range(draw.choice((1, 2, 3, 4, 6, 10))))


def word(draw: random.Random) -> str:
    """A word of a made-up language, short ones and early syllables more often."""
    return "".join(SYLLABLES[int(len(SYLLABLES) * draw.random() ** 2)] for _ in range(draw.choice((1, 1, 2, 2, 3, 4))))


def made_text(seed: int, lines: int) -> list[str]:
    """Lines of a made-up English and a made-up Chinese, with frequent words, capitals, numbers and punctuation."""
    draw = random.Random(seed)
    english = [word(draw) for _ in range(3000)]
    chinese = [
        "".join(chr(0x4E00 + int(1500 * draw.random() ** 2)) for _ in range(draw.choice((1, 2, 2, 3))))
        for _ in range(2000)
    ]
    found = []
    for at in range(lines):
        words = chinese if at % 3 == 2 else english
        some = [words[int(len(words) * draw.random() ** 3)] for _ in range(draw.randint(4, 24))]
        if at % 7 == 0:
            some.insert(2, str(draw.randint(0, 2025)))
        if words is chinese:
            some.insert(len(some) // 2, "，")
            found.append("".join(some) + draw.choice("。！？"))
        else:
            some[len(some) // 2] += draw.choice((",", ";", " (a)", "'s"))
            found.append(" ".join(some).capitalize() + draw.choice(".!?"))
    return found
