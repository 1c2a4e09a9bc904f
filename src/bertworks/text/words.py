"""Where words begin among tokens: what whole-word and n-gram masking go by.

A token begins a word by the tokenizer's own marks (WordPiece's missing ##, byte-level BPE's leading space, Unigram's
▁). A sign of punctuation is a word of its own, and what follows one begins a word. Chinese has no such marks: there a
segmenter says where words begin, and the characters of one word belong together.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.errors import BertworksError
from bertworks.text.tokenizer import LONE_SURROGATE, Encoded, Tokenizer, longest_first

# Text -> its words in order; joined they are the text again.
Segmenter = Callable[[str], Iterable[str]]

# The characters that the library sets apart as Chinese ones: BERT's published ones but for U+2B820 to U+2B91F, which it
# leaves out. As escapes, since an editor may put a common character for a compatibility one.
HAN = (
    r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    r"\U00020000-\U0002a6df\U0002a700-\U0002b81f\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f"
)
TWO_HAN = re.compile(f"[{HAN}][{HAN}]")
ONE_HAN = re.compile(f"[{HAN}]")


@cache
def chinese_segmenter() -> Segmenter:
    """Jieba's words, by its Rust port."""
    try:
        import rjieba
    except ImportError:
        raise BertworksError(
            "words of Chinese text are found with rjieba, which is not installed",
            "pip install 'bertworks[zh]', or take every character for a word with --no-segment",
        ) from None
    return rjieba.cut


class WordFinder:
    """Finds where words begin, for one tokenizer. Without a segmenter the tokenizer's marks alone count."""

    def __init__(self, tokenizer: Tokenizer, segmenter: Segmenter | None) -> None:
        self.segmenter = segmenter
        self._tokenizer = tokenizer
        texts = tokenizer.tokens
        marked, bare = _MARKS.get(tokenizer.kind, _plain)(texts)
        lone = np.array([bool(one) and all(map(_is_sign, one)) for one in bare], np.bool_)
        special = np.isin(np.arange(len(texts)), sorted(tokenizer.special_ids))
        self._begins: NDArray[np.bool_] = np.asarray(marked, np.bool_) | lone | special
        self._ends: NDArray[np.bool_] = lone | special

    def by_marks(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """ids [n] -> [n] whether a word begins there; the first one always does."""
        begins: NDArray[np.bool_] = self._begins[ids]
        begins[1:] |= self._ends[ids[:-1]]
        begins[:1] = True
        return begins

    def needs_segmenter(self, text: str) -> bool:
        """Whether the marks alone would leave Chinese characters apart, or all in one word."""
        return self.segmenter is not None and not text.isascii() and TWO_HAN.search(text) is not None

    def edges(self, text: str) -> list[str]:
        """A text in pieces at whose edges words begin: Chinese words, and what stands between them.

        Half a surrogate pair, which no segmenter takes, comes back as U+FFFD, as the tokenizer sees it.
        """
        if self.segmenter is None:
            return [text]
        text = LONE_SURROGATE.sub("\ufffd", text)
        pieces: list[str] = []
        between = ""
        for word in self.segmenter(text):
            if ONE_HAN.search(word):
                pieces += [between, word] if between else [word]
                between = ""
            else:
                between += word
        pieces += [between] if between else []
        if "".join(pieces) != text:
            raise BertworksError("the segmenter changed the text it was to cut", "use one that keeps every character")
        return pieces

    def by_text(self, text: str, ids: Sequence[int], offsets: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
        """ids and character offsets [n] of one text's tokens, without special ones -> [n] whether a word begins."""
        begins = self.by_marks(np.asarray(ids, np.int64))
        if not len(ids) or not self.needs_segmenter(text):
            return begins
        begin_at = np.zeros(len(text) + 1, np.int64)
        chinese = np.zeros(len(text) + 1, np.bool_)
        at = 0
        for piece in self.edges(text):
            edge = at
            while edge and text[edge - 1].isspace():  # a space mark that is a token of its own belongs to what follows
                edge -= 1
            begin_at[edge] = 1
            chinese[at : at + len(piece)] = ONE_HAN.search(piece) is not None
            at += len(piece)
        starts = np.array([_first(text, span) for span in offsets], np.int64)
        before = np.concatenate([starts[:1] * 0, np.maximum.accumulate([end for _, end in offsets])[:-1]])
        # A word begins at the first token behind an edge, so characters that gave no token do not hide one, and of
        # the bytes of one character only the first may begin.
        passed = np.concatenate([[0], np.cumsum(begin_at)])
        fresh = passed[starts + 1] > passed[np.minimum(before, starts + 1)]
        begins &= ~chinese[starts]
        begins |= fresh
        begins[:1] = True
        return begins

    def numbers(self, text: str, encoded: Encoded) -> list[int | None]:
        """The word that each token of an encoded text belongs to; None for what the template put there."""
        return self._numbered([text], encoded, [len(encoded.ids)])

    def pair_numbers(self, text: str, pair: str, encoded: Encoded) -> list[int | None]:
        """The same for two texts encoded as one input; numbers go on in the second, so each word has its own."""
        # Neither segments (RoBERTa's are all 0) nor offsets always tell where the second text begins; its length does.
        first, second = map(len, self._tokenizer.ids_of([text, pair]))
        return self._numbered([text, pair], encoded, longest_first(first, second, encoded.special.count(False)))

    def _numbered(self, texts: Sequence[str], encoded: Encoded, sizes: Sequence[int]) -> list[int | None]:
        """Word numbers over texts of which at most `sizes` tokens each are there, one text after another."""
        own = [at for at, special in enumerate(encoded.special) if not special]
        found: list[int | None] = [None] * len(encoded.ids)
        count = 0
        for text, size in zip(texts, sizes, strict=True):
            some, own = own[:size], own[size:]
            begins = self.by_text(text, [encoded.ids[at] for at in some], [encoded.offsets[at] for at in some])
            for at, number in zip(some, count + np.cumsum(begins) - 1, strict=True):
                found[at] = int(number)
            count += int(begins.sum())
        return found


def _first(text: str, span: tuple[int, int]) -> int:
    """Where a token's own text starts: byte-level BPE and Unigram may count the space before it."""
    start, end = span
    while start < end - 1 and text[start].isspace():
        start += 1
    return start


def _is_sign(char: str) -> bool:
    return unicodedata.category(char)[0] in "PS"


def _wordpiece(texts: list[str]) -> tuple[list[bool], list[str]]:
    # Its pre-splitting has set signs apart already; a ## on one (##♥) says that it belongs to the word before.
    return [not one.startswith("##") for one in texts], [""] * len(texts)


def _byte_bpe(texts: list[str]) -> tuple[list[bool], list[str]]:
    # Spaces are Ġ, line ends Ċ, tabs ĉ; a sign of two or three bytes that one token holds whole is known by them.
    marked = [one[:1] in ("Ġ", "Ċ", "ĉ") for one in texts]
    return marked, [from_bytes(one.lstrip("ĠĊĉ")) for one in texts]


def from_bytes(text: str) -> str:
    """The characters that a byte-level token spells, or nothing where it holds a part of one."""
    try:
        return bytes(_BYTES[char] for char in text).decode()
    except (KeyError, UnicodeDecodeError):
        return ""


def _byte_alphabet() -> dict[str, int]:
    """GPT-2's letters for bytes: printable Latin-1 stands for itself, the rest for U+0100 onward."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + at): byte for at, byte in enumerate(rest)}


_BYTES = _byte_alphabet()


def _unigram(texts: list[str]) -> tuple[list[bool], list[str]]:
    return [one.startswith("▁") for one in texts], [one.removeprefix("▁") for one in texts]


def _plain(texts: list[str]) -> tuple[list[bool], list[str]]:
    """Another pipeline, whose marks are not known: every token a word, as token masking has it."""
    return [True] * len(texts), texts


_MARKS = {"wordpiece": _wordpiece, "byte-bpe": _byte_bpe, "unigram": _unigram}
