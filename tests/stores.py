"""Stores made on the spot: of given ids, or of a random language with words of several tokens."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from bertworks.text.encoding import EncodedDocuments, id_type
from bertworks.text.growing import Growing, drop_notes, write_note
from bertworks.text.store import MANIFEST, TOKENIZER, Store, manifest
from bertworks.text.tokenizer import Tokenizer

SPECIALS = {
    "bert": ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    "roberta": ["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
}
Documents = list[list[list[int]]]


def plain_tokenizer(folder: Path, family: str = "bert", words: int = 200, pieces: int = 100) -> Tokenizer:
    """Words w0, w1, … and pieces that continue them; in RoBERTa's frame, tokens that begin with a space mark."""
    folder.mkdir(parents=True, exist_ok=True)
    if family == "bert":
        vocabulary = [*SPECIALS["bert"], *(f"w{n}" for n in range(words)), *(f"##p{n}" for n in range(pieces))]
        (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf8")
        return Tokenizer.load(folder)
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [(one, two) for one in "Ġbcdfghjklmnpqrstvwxyz" for two in "aeiou"]
    tokens = [*SPECIALS["roberta"][:4], *letters, *("".join(pair) for pair in pairs), "<mask>"]
    (folder / "vocab.json").write_text(json.dumps({one: at for at, one in enumerate(tokens)}), encoding="utf8")
    (folder / "merges.txt").write_text("".join(f"{one} {two}\n" for one, two in pairs), encoding="utf8")
    return Tokenizer.load(folder)


def store_of(folder: Path, tokenizer: Tokenizer, documents: Documents, shard_tokens: int = 1 << 20) -> Store:
    """A store of these ids; words begin where the tokenizer's marks say."""
    from bertworks.text.words import WordFinder

    (folder / "shards").mkdir(parents=True)
    tokenizer.save(folder / TOKENIZER)
    sentences = [sentence for document in documents for sentence in document]
    ids = np.array([one for sentence in sentences for one in sentence], id_type(tokenizer))
    finder = WordFinder(tokenizer, None)
    begins = np.concatenate([finder.by_marks(np.array(sentence)) for sentence in sentences])
    sizes = np.array([len(sentence) for sentence in sentences])
    encoded = EncodedDocuments(ids, begins, sizes, np.array([len(document) for document in documents]))
    growing = Growing(folder, shard_tokens, tokenizer.unk_id)
    growing.add([f"doc:{n}" for n in range(len(documents))], list(range(len(documents))), encoded)
    growing.end()
    drop_notes(folder)
    write_note(folder / MANIFEST, manifest(tokenizer, id_type(tokenizer).name, growing.shards, {}))
    return Store(folder)


def random_documents(
    tokenizer: Tokenizer, count: int, seed: int, *, sentences: float = 12, tokens: float = 18, pieces: float = 0.3
) -> Documents:
    """Documents of ordinary tokens; a share of `pieces` of them continues a word."""
    draw = np.random.default_rng(seed)
    texts = tokenizer.tokens
    special = tokenizer.special_ids
    starts = [at for at, one in enumerate(texts) if at not in special and not one.startswith("##")]
    inner = [at for at, one in enumerate(texts) if one.startswith("##")] or starts

    def sentence() -> list[int]:
        size = 1 + int(draw.geometric(1 / tokens))
        row = np.where(draw.random(size) < pieces, draw.choice(inner, size), draw.choice(starts, size))
        row[0] = draw.choice(starts)
        return [int(one) for one in row]

    return [[sentence() for _ in range(1 + int(draw.geometric(1 / sentences)))] for _ in range(count)]
