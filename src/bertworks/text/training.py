"""Tokenizers trained from text: WordPiece and byte-level BPE by the library's trainer, Unigram by ours.

Words are counted here first, by the very pipeline the finished tokenizer will have, and trained on in a fixed order:
so the same text gives the same vocabulary, byte for byte, on any number of threads. (The library's own WordPiece and
Unigram trainers number their symbols and add their sums in the order of a hash table, which differs from run to run.)
"""

from __future__ import annotations

import json
import re
import string
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from bertworks.errors import ConfigError, InputError, tell
from bertworks.text import unigram
from bertworks.text.sources import Vocabulary
from bertworks.text.tokenizer import LONE_SURROGATE, Tokenizer, build

Progress = Callable[[str], None]  # is told each stage as it begins

FEWEST = 2  # what occurs once teaches nothing
LONGEST_WORD = 100  # WordPiece gives up on longer words; past it there is base64 and the like
STRETCH = 32  # characters: what is written without spaces is learnt from in stretches of this
HELD_CHARACTERS = 1 << 24  # chunks are counted whole until they take this much, then split into words
MOST_WORDS = 5_000_000  # about a gigabyte; past it words seen once are forgotten, half of them each time
MOST_LETTERS = 12_000_000  # of different words that are merged: the library takes about 130 bytes for each
FEED = 1 << 16  # characters handed to the library at a time

# The white space of the library's regular expressions, which is not quite Python's \s.
SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
# Where a text may be cut before its pipeline is asked, so that repeated chunks are split only once.
BETWEEN_SPACES = re.compile(r"[^ \t\n\r]+")
WITH_ITS_SPACE = re.compile(rf" ?[^{SPACE}]+|[{SPACE}]+(?![^{SPACE}])|[{SPACE}]+")

CHINESE = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
IS_CHINESE = re.compile(f"[{CHINESE}]")
# A Unigram piece is of one script, as in SentencePiece: Chinese and kana, digits, signs, or anything else.
_EAST = rf"{CHINESE}\u3005-\u3007\u3040-\u30ff"
_SIGNS = (
    rf"{re.escape(string.punctuation)}\u00a1-\u00bf\u2010-\u206f\u3000-\u3004\u3008-\u303f\uff01-\uff0f\uff1a-\uff20"
)
SAME_SCRIPT = re.compile(rf"▁?(?:[{_EAST}]+|\d+|[{_SIGNS}]+|[^{_EAST}\d{_SIGNS}▁]+)|▁")


@dataclass(frozen=True)
class Kind:
    """A way of making a vocabulary: the family whose pipeline it is for, and that family's special tokens by name."""

    family: str
    specials: tuple[str, ...]  # ids from 0 in this order
    named: Mapping[str, str]
    chunks: re.Pattern[str]
    last: tuple[str, ...] = ()  # special tokens whose ids come after all others


_BRACKETS = {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
_ANGLES = {"unk_token": "<unk>", "pad_token": "<pad>"}
KINDS = {
    "wordpiece": Kind(
        "bert",
        ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        {"unk_token": "[UNK]", "pad_token": "[PAD]", **_BRACKETS},
        BETWEEN_SPACES,
    ),
    "byte-bpe": Kind(
        "roberta",
        ("<s>", "<pad>", "</s>", "<unk>"),
        {"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>", **_ANGLES},
        WITH_ITS_SPACE,
        last=("<mask>",),
    ),
    "unigram": Kind(
        "albert",
        ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
        {**_ANGLES, **_BRACKETS},
        BETWEEN_SPACES,
    ),
}


def train(
    texts: Iterable[str], kind: str, vocab_size: int, *, cased: bool = False, progress: Progress | None = None
) -> Tokenizer:
    """A tokenizer of at most `vocab_size` tokens, the pipeline of BERT, RoBERTa or ALBERT as published.

    kind   wordpiece, byte-bpe or unigram
    cased  keep case and accents; byte-bpe always does

    Texts are read once and not kept. A vocabulary that comes out smaller than asked, and words too long to learn
    from, are told. Ctrl-C stops it at once, also inside the library.
    """
    if kind not in KINDS:
        raise InputError(f"there is no kind {kind!r}", f"the kinds are: {', '.join(KINDS)}")
    say = progress or (lambda _: None)
    of = KINDS[kind]
    options = _options(of.family, cased)
    blank = build(
        of.family, _vocabulary(of, {one: at for at, one in enumerate(of.specials + of.last)}), of.named, [], options
    )
    _check_size(kind, vocab_size, cased)
    words = _Words(blank, of.chunks, stretches=kind != "wordpiece", scripts=kind == "unigram")
    for text in texts:
        words.add(text)
    counts = words.counts()
    if not counts:
        raise InputError("there is no text to learn from", "give files with text in them")
    say(f"training on {len(counts):,} different words")
    vocabulary = _TRAINERS[kind](of, counts, vocab_size, cased)
    made = Tokenizer(build(of.family, vocabulary, of.named, [], options), of.named)
    if words.skipped:
        tell(f"left out, since they have more than {LONGEST_WORD} characters: {words.skipped:,} words")
    if words.forgotten:
        tell(f"more than {MOST_WORDS:,} different words: {words.forgotten:,} seen once were forgotten on the way")
    if made.vocab_size < vocab_size:
        tell(f"the text is enough for {made.vocab_size:,} tokens, not {vocab_size:,}: the vocabulary is smaller")
    return made


def _options(family: str, cased: bool) -> dict[str, Any]:
    """What `build` is told; the published settings, but for case."""
    if family == "bert":
        return {"do_lower_case": not cased, "tokenize_chinese_chars": True, "strip_accents": None}
    if family == "roberta":
        return {"add_prefix_space": False, "trim_offsets": True}
    return {"do_lower_case": not cased, "keep_accents": cased, "add_prefix_space": True}


def _check_size(kind: str, vocab_size: int, cased: bool) -> None:
    """Refuse a vocabulary that cannot hold the special tokens and the least alphabet, before anything is read."""
    of = KINDS[kind]
    alphabet = 256 if kind == "byte-bpe" else len(_least(cased)) + (len(_spelt(cased)) if kind == "wordpiece" else 1)
    least = len(of.specials) + len(of.last) + alphabet
    if vocab_size < least:
        raise ConfigError(
            f"a {kind} vocabulary of {vocab_size:,} has no room for its special tokens and ASCII: these are {least}",
            f"ask for at least {least}; 8,000 to 50,000 is usual",
        )


def _spelt(cased: bool) -> str:
    """The letters and digits that words are spelt with."""
    return string.digits + (string.ascii_letters if cased else string.ascii_lowercase)


def _least(cased: bool) -> str:
    """Characters that every vocabulary holds, so that plain ASCII is never unknown."""
    return _spelt(cased) + string.punctuation


# -- counting words --------------------------------------------------------------------------------------


@dataclass
class _Words:
    """Counts the words that a pipeline makes of texts."""

    pipeline: tokenizers.Tokenizer
    chunks: re.Pattern[str]
    stretches: bool  # long words that are not ASCII are learnt from in stretches: Chinese has no spaces
    scripts: bool  # words are cut where the script changes
    skipped: int = 0
    forgotten: int = 0
    _chunks: Counter[str] = field(default_factory=Counter)
    _words: Counter[str] = field(default_factory=Counter)
    _held: int = 0
    _folded: int = 0  # how often words were forgotten

    def add(self, text: str) -> None:
        self._held += len(text)
        self._chunks.update(self.chunks.findall(LONE_SURROGATE.sub("\ufffd", text)))
        if self._held > HELD_CHARACTERS:
            self._fold()

    def counts(self) -> list[tuple[str, int]]:
        """Every word and how often it came, the most frequent first: an order that depends on the text alone."""
        self._fold()
        return sorted(self._words.items(), key=lambda item: (-item[1], item[0]))

    def _fold(self) -> None:
        words = self._words
        for chunk, count in self._chunks.items():
            for word in self._split(chunk, count):
                words[word] += count
        # Whatever is held, a chunk that is short and frequent would be split again and again; it is cheap enough.
        self._chunks.clear()
        self._held = 0
        if len(words) > MOST_WORDS:
            # By a digest, so that what is left is a sample of all the text and not its end: where nothing has spaces
            # nearly every stretch is seen once.
            self._folded += 1
            share = 1 << self._folded
            kept = Counter(
                {word: count for word, count in words.items() if count > 1 or not zlib.crc32(word.encode()) % share}
            )
            self.forgotten += len(words) - len(kept)
            self._words = kept

    def _split(self, chunk: str, count: int) -> Iterator[str]:
        normalizer, splitter = self.pipeline.normalizer, self.pipeline.pre_tokenizer
        plain = normalizer.normalize_str(chunk) if normalizer else chunk
        for word, (start, end) in splitter.pre_tokenize_str(plain):
            for piece in SAME_SCRIPT.findall(word) if self.scripts else (word,):
                if len(piece) <= (STRETCH if self.scripts else LONGEST_WORD):
                    yield piece
                elif not self.stretches or (len(piece) > LONGEST_WORD and plain[start:end].isascii()):
                    self.skipped += count
                elif self.scripts:
                    yield from (piece[at : at + STRETCH] for at in range(0, len(piece), STRETCH))
                else:
                    yield from self._stretched(plain[start:end])

    def _stretched(self, text: str) -> Iterator[str]:
        for at in range(0, len(text), STRETCH):
            yield from (word for word, _ in self.pipeline.pre_tokenizer.pre_tokenize_str(text[at : at + STRETCH]))


# -- vocabularies from counts ----------------------------------------------------------------------------

Counts = list[tuple[str, int]]


def _vocabulary(of: Kind, ids: dict[str, int], merges: list[tuple[str, str]] | None = None) -> Vocabulary:
    # The names of the families' older files: from these a mask takes the space before it, as published.
    if of.family == "bert":
        return Vocabulary("WordPiece", Path("vocab.txt"), ids)
    if of.family == "roberta":
        return Vocabulary("BPE", Path("vocab.json"), ids, merges=merges or [])
    scores = [(one, 0.0) for one in ids]
    return Vocabulary("Unigram", Path("spiece.model"), ids, scores=scores, unk_id=ids["<unk>"])


def _wordpiece(of: Kind, counts: Counts, size: int, cased: bool) -> Vocabulary:
    """The library's BPE with ## before what continues a word, which is what its WordPiece trainer is.

    All symbols are given to it in order, since it would number those with ## as its hash table has them.
    """
    room = size - len(of.specials)
    inside = Counter[str]()
    for word, count in counts:
        for char in word[1:]:
            inside[char] += count
    continuing = set(_spelt(cased))
    kept = _alphabet(
        counts, _least(cased), room - len(continuing), cost=lambda char: 1 + (char in inside and char not in continuing)
    )
    continuing |= inside.keys() & kept
    symbols = [*sorted(kept), *(f"##{char}" for char in sorted(continuing))]
    ids, _ = _merged(counts, kept, [*of.specials, *symbols], size, prefix="##")
    return _vocabulary(of, ids)


def _byte_bpe(of: Kind, counts: Counts, size: int, cased: bool) -> Vocabulary:  # noqa: ARG001
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    ids, merges = _merged(counts, set(alphabet), [*of.specials, *alphabet], size - len(of.last), prefix="")
    return _vocabulary(of, ids | {one: len(ids) + at for at, one in enumerate(of.last)}, merges)


def _unigram(of: Kind, counts: Counts, size: int, cased: bool) -> Vocabulary:
    room = size - len(of.specials)
    kept = _alphabet(counts, _least(cased) + "▁", room)
    pieces = unigram.train([(word, count) for word, count in counts if kept.issuperset(word)], sorted(kept), room)
    scores = [(one, 0.0) for one in of.specials] + pieces
    ids = {piece: at for at, (piece, _) in enumerate(scores)}
    return Vocabulary("Unigram", Path("spiece.model"), ids, scores=scores, unk_id=ids["<unk>"])


_TRAINERS = {"wordpiece": _wordpiece, "byte-bpe": _byte_bpe, "unigram": _unigram}


def _alphabet(counts: Counts, least: str, room: int, cost: Callable[[str], int] = lambda _: 1) -> set[str]:
    """The characters a vocabulary holds: `least`, then the most frequent while they take up to half the room.

    Chinese characters may go on to nine tenths of it: each is a word of its own, which no merging would make up. What
    is left out is unknown to the tokenizer.
    """
    seen = Counter[str]()
    for word, count in counts:
        for char in word:
            seen[char] += count
    kept, taken = set(least), sum(map(cost, least))
    for char, count in sorted(seen.items(), key=lambda item: (-item[1], item[0])):
        share = 0.9 if IS_CHINESE.match(char) and count >= FEWEST else 0.5
        if char not in kept and taken + cost(char) <= room * share:
            kept.add(char)
            taken += cost(char)
    lost = sum(count for char, count in seen.items() if char not in kept)
    if lost * 1000 > sum(seen.values()):
        tell(
            f"{len(seen.keys() - kept):,} of {len(seen):,} different characters have no room and will be unknown "
            f"({lost / sum(seen.values()):.2%} of the text): a larger --vocab-size holds more"
        )
    return kept


def _merged(
    counts: Counts, alphabet: set[str], first: list[str], size: int, prefix: str
) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The library's merges over words of the alphabet: ids with `first` in front, and the merges by rank.

    A word with a character outside the alphabet is unknown as a whole, so nothing is learnt from it.
    """
    library = tokenizers.Tokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.CharDelimiterSplit("\n")
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=FEWEST,
        special_tokens=first,
        continuing_subword_prefix=prefix,
        show_progress=False,
    )
    words = unigram.sampled([(word, count) for word, count in counts if alphabet.issuperset(word)], MOST_LETTERS)
    _aside(lambda: library.train_from_iterator(_repeated(words), trainer))
    model = json.loads(library.to_str())["model"]
    merges = [(one, two) for one, two in model["merges"]]
    return dict(sorted(model["vocab"].items(), key=lambda item: item[1])), merges


def _repeated(words: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Each word as often as it came, a line each, in texts of a bounded size: all the trainer can be told."""
    held: list[str] = []
    size = 0
    for word, count in words:
        line = word + "\n"
        while count:
            some = min(count, max(1, (FEED - size) // len(line)))
            held.append(line * some)
            size, count = size + some * len(line), count - some
            if size >= FEED - len(line):
                yield "".join(held)
                held, size = [], 0
    yield "".join(held)


def _aside(work: Callable[[], object]) -> None:
    """Run it in a thread and wait: inside the library no signal is seen, in a waiting main thread it is."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    worker = threading.Thread(target=run, name="bertworks-train", daemon=True)  # it does not hold up leaving
    worker.start()
    while worker.is_alive():
        worker.join(0.2)
    if failed:
        raise failed[0]
