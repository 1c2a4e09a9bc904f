"""Documents to token ids, sentence ends and word beginnings, fast.

Each sentence is encoded by itself, as BERT's published preparation does. Published pipelines cut at a single space
whatever stands around it, and BERT's around every Chinese character, so a sentence's ids are those of its chunks
joined; and since words repeat, most chunks are known already. That is several times as fast as encoding every sentence
anew, and gives the same ids: a sentence where it might not (what `_UNSAFE` says of its family, the text of an added
token) takes the plain way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bertworks.text.sentences import sentences
from bertworks.text.tokenizer import Tokenizer
from bertworks.text.words import HAN, ONE_HAN, Segmenter, WordFinder

KNOWN_CHUNKS = 400_000  # about 60 MB; when full it is begun anew
NOTHING = "(?!)"  # a pattern that nothing matches
LONGEST_KNOWN = 24  # longer chunks seldom come again
# Where a segmenter has cut what BERT does not: AB and T恤 of ABT恤.
LOOSE_EDGE = re.compile(f"[^ {HAN}]\0[^ {HAN}]")


@dataclass(frozen=True)
class EncodedDocuments:
    """Several documents as flat arrays: ids and word beginnings a token, token counts a sentence, sentence counts a
    document. A document without tokens has no sentences.
    """

    ids: NDArray[Any]
    begins: NDArray[np.bool_]
    sentences: NDArray[np.int64]
    documents: NDArray[np.int64]

    def only(self, kept: NDArray[np.bool_]) -> EncodedDocuments:
        """Some of the documents: kept [documents]."""
        if kept.all():
            return self
        sentences = np.repeat(kept, self.documents)
        tokens = np.repeat(sentences, self.sentences)
        return EncodedDocuments(self.ids[tokens], self.begins[tokens], self.sentences[sentences], self.documents[kept])


def id_type(tokenizer: Tokenizer) -> np.dtype[Any]:
    """The smallest type that holds the vocabulary's ids."""
    return np.dtype(np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32)


class DocumentEncoder:
    """Encodes documents with one tokenizer; not to be shared between threads."""

    def __init__(self, tokenizer: Tokenizer, segmenter: Segmenter | None) -> None:
        self.tokenizer = tokenizer
        self.words = WordFinder(tokenizer, segmenter)
        self.dtype = id_type(tokenizer)
        self._led = tokenizer.kind == "byte-bpe"  # there a space is part of the word after it
        verbatim = not any(added.normalized for added in tokenizer.added)  # so their text is known before normalising
        self._cut = _CUTS.get(tokenizer.family or "") if verbatim else None
        self._cut_chinese = tokenizer.family == "bert" and tokenizer.splits_chinese
        unsafe = _UNSAFE.get(tokenizer.family or "", NOTHING)
        self._unsafe = re.compile("|".join([unsafe, *(re.escape(added.content) for added in tokenizer.added)]))
        self._told_by_added = unsafe == NOTHING  # then a sentence's neighbours make no difference to it
        self._known: dict[str, bytes] = {}

    def encode(self, texts: Sequence[str]) -> EncodedDocuments:
        """Documents' texts -> their tokens, without special ones; sentences that give no token are left out."""
        pieces = [sentences(text, led=self._led) for text in texts]
        found, words = self._sentences(list(chain.from_iterable(pieces)))
        sizes = np.fromiter(map(len, found), np.int64, len(found)) // self.dtype.itemsize
        ids = np.frombuffer(b"".join(found), self.dtype)
        begins = self.words.by_marks(ids)
        edges = np.cumsum(sizes) - sizes
        begins[edges[sizes > 0]] = True
        for at, marked in words.items():
            begins[edges[at] : edges[at] + sizes[at]] = marked
        owner = np.repeat(np.arange(len(texts)), [len(one) for one in pieces])
        counts = np.bincount(owner[sizes > 0], minlength=len(texts))
        return EncodedDocuments(ids, begins, sizes[sizes > 0], counts)

    def _sentences(self, texts: list[str]) -> tuple[list[bytes], dict[int, NDArray[np.bool_]]]:
        """Each sentence's ids as bytes, and word beginnings of those whose ids alone do not tell them."""
        plain: list[int] = []
        chunked: list[int] = []
        spanned: list[int] = []
        rows: list[list[str]] = []
        words: dict[int, NDArray[np.bool_]] = {}
        segmented: list[tuple[int, list[str]]] = []
        # Asked of all sentences at once, in the fastest way there is, this is most often answered for each of them.
        together = "\n".join(texts) if self._told_by_added else ""
        doubtful = not self._told_by_added or any(one.content in together for one in self.tokenizer.added)
        for at, text in enumerate(texts):
            safe = self._cut is not None and not (doubtful and self._unsafe.search(text))
            if self.words.needs_segmenter(text):
                pieces = self.words.edges(text) if safe and self._cut_chinese else []
                if pieces and not LOOSE_EDGE.search("\0".join(pieces)):
                    segmented.append((at, pieces))
                else:
                    spanned.append(at)
            elif safe and self._cut is not None:
                chunked.append(at)
                rows.append(self._cut(text))
            else:
                plain.append(at)
        cut = [[part for piece in pieces for part in _parts(piece)] for _, pieces in segmented]
        done: list[bytes] = [b""] * len(texts)
        joined, sizes = self._by_chunks(rows, cut)
        for at, ids in zip([*chunked, *(at for at, _ in segmented)], joined, strict=True):
            done[at] = ids
        for (at, _), row, counts in zip(segmented, cut, sizes, strict=True):
            words[at] = self._of_chunks(np.frombuffer(done[at], self.dtype), row, counts)
        for at, ids in zip(plain, self._plainly([texts[at] for at in plain]), strict=True):
            done[at] = ids
        encoded = self.tokenizer.encode_batch([texts[at] for at in spanned], specials=False) if spanned else []
        for at, one in zip(spanned, encoded, strict=True):
            done[at] = self._bytes(one.ids)
            words[at] = self.words.by_text(texts[at], one.ids, one.offsets)
        return done, words

    def _of_chunks(self, ids: NDArray[Any], row: list[str], sizes: list[int]) -> NDArray[np.bool_]:
        """Word beginnings where each chunk begins one, and those in Chinese have no other."""
        begins = self.words.by_marks(ids)
        chinese = [ONE_HAN.search(chunk) is not None for chunk in row]
        begins[np.repeat(np.array(chinese, np.bool_), sizes)] = False
        filled = np.array(sizes) > 0
        begins[(np.cumsum(sizes) - sizes)[filled]] = True
        return begins

    def _by_chunks(self, rows: list[list[str]], measured: list[list[str]]) -> tuple[list[bytes], list[list[int]]]:
        """Ids of each row of chunks, joined, of both lists; and how many each chunk gave, of the second alone."""
        rows = rows + measured
        known = self._known
        wanted = set(chain.from_iterable(rows))
        missing = list(wanted.difference(known))
        fresh = dict(zip(missing, self._plainly(missing), strict=True))
        if len(known) + len(fresh) > KNOWN_CHUNKS:
            fresh |= {chunk: known[chunk] for chunk in wanted.intersection(known)}
            self._known = known = {}
        known |= fresh
        done = [b"".join(map(known.__getitem__, row)) for row in rows]
        size = self.dtype.itemsize
        counts = [[len(known[chunk]) // size for chunk in row] for row in measured]
        for chunk in fresh:
            if len(chunk) > LONGEST_KNOWN:
                del known[chunk]
        return done, counts

    def _plainly(self, texts: list[str]) -> Iterable[bytes]:
        found = self.tokenizer.ids_of(texts)
        flat = np.fromiter(chain.from_iterable(found), self.dtype).tobytes()
        edges = [0, *accumulate(len(ids) * self.dtype.itemsize for ids in found)]
        return [flat[first:last] for first, last in pairwise(edges)]

    def _bytes(self, ids: Sequence[int]) -> bytes:
        return np.array(ids, self.dtype).tobytes()


def _parts(piece: str) -> Iterable[str]:
    """A Chinese word as it is; what stands between them cut at its spaces."""
    return (piece,) if ONE_HAN.search(piece) else filter(None, piece.split(" "))


def _bare(text: str) -> list[str]:
    return text.split(" ")


def _spaced(text: str) -> list[str]:
    """Each chunk with the space before it, which is part of it in byte-level BPE."""
    return text.replace(" ", "\0 ").split("\0")


# Characters that SentencePiece's normaliser, which looks at a grapheme at a time, never sees as one with a space beside
# them, and that never vanish so that another would stand there: ASCII, Latin, Greek, Cyrillic, common signs, kana,
# Chinese, Hangul.
_APART = (
    r" -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0482\u048a-\u052f\u1e00-\u1fff\u2010-\u2027\u2030-\u205e\u20a0-\u20bf"
    r"\u2100-\u23ff\u2460-\u27bf\u3001-\u3029\u3030-\u303f\u3041-\u3096\u309d-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uac00-\ud7a3\uf900-\ufaff\uff01-\uff9d\U00020000-\U000323af"
)
# Where cutting at spaces might give other ids. In BERT nowhere: it changes text a character at a time and then cuts at
# every space. Byte-level BPE takes runs of white space together; and \0 is a mark here.
_UNSAFE = {"bert": NOTHING, "roberta": r"[^\S ]|\0|  ", "albert": f" (?![{_APART}])|[^{_APART}] "}
_CUTS: dict[str, Callable[[str], list[str]]] = {"bert": _bare, "albert": _bare, "roberta": _spaced}
