"""A tokenizer read from a model folder, over the `tokenizers` library.

The three published pipelines (BERT's WordPiece, RoBERTa's byte-level BPE, ALBERT's Unigram) are rebuilt
from the vocabulary and the settings, as `transformers` rebuilds them: there a tokenizer.json gives the
vocabulary and the added tokens, and tokenizer_config.json the rest. Any other tokenizer.json is used
as it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from bertworks.errors import BertworksError, ConfigError, InputError, tell
from bertworks.text.sources import (
    FAMILY_OF_KIND,
    Settings,
    Vocabulary,
    added_tokens,
    named_tokens,
    parts,
    read_object,
    read_settings,
    read_vocabulary,
    token,
    vocabulary_of,
)

# What each special token is called where no file says, best known name first.
USUAL = {
    "unk_token": ("[UNK]", "<unk>"),
    "sep_token": ("[SEP]", "</s>", "<sep>"),
    "pad_token": ("[PAD]", "<pad>"),
    "cls_token": ("[CLS]", "<s>", "<cls>"),
    "mask_token": ("[MASK]", "<mask>"),
}
CLASS_OF_FAMILY = {"bert": "BertTokenizer", "roberta": "RobertaTokenizer", "albert": "AlbertTokenizer"}
LONE_SURROGATE = re.compile("[\ud800-\udfff]")

Pipeline = Callable[[Vocabulary, Mapping[str, str], Mapping[str, Any]], tokenizers.Tokenizer]


@dataclass(frozen=True)
class Encoded:
    """One text, or one pair, as tokens: every list has one entry per token."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]  # in characters, each in its own text; (0, 0) for specials
    words: list[int | None]  # which word of its text, as the pre-tokeniser splits; None for specials
    segments: list[int]  # 0 for the first text, 1 for the second, where the template says so
    special: list[bool]  # put there by the template; a "[MASK]" that stands in the text is not
    cut: int  # how many tokens truncation dropped; 0 = nothing was lost


class Tokenizer:
    """Text to ids and back. Nothing in it changes after loading, so threads may share one."""

    def __init__(self, library: tokenizers.Tokenizer, named: Mapping[str, str], max_length: int | None = None) -> None:
        """Wrap a pipeline of the library, from then on this object's own; `named` is mask_token → [MASK]."""
        library.no_truncation()
        library.no_padding()
        self._library = library
        self._named = {key: text for key, text in named.items() if library.token_to_id(text) is not None}
        self.max_length = max_length
        self.mask_token, self.mask_id = self._special("mask_token")
        self.pad_token, self.pad_id = self._special("pad_token")
        self.cls_token, self.cls_id = self._special("cls_token")
        self.sep_token, self.sep_id = self._special("sep_token")
        self.unk_token, self.unk_id = self._special("unk_token")
        added = library.get_added_tokens_decoder()
        self._added = {at: one.content for at, one in added.items()}
        marked = {at for at, one in added.items() if one.special}
        named_ids = (library.token_to_id(text) for text in self._named.values())
        self.special_ids = frozenset(marked.union(at for at in named_ids if at is not None))

    def _special(self, name: str) -> tuple[str | None, int | None]:
        text = self._named.get(name)
        return (text, self._library.token_to_id(text)) if text is not None else (None, None)

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """The tokenizer of a model folder: tokenizer.json, else the family's own vocabulary files."""
        folder = Path(folder)
        if not folder.is_dir():
            raise ConfigError(f"{folder} is not a folder", "give the folder that holds the tokenizer's files")
        try:
            library, named, max_length = _read(folder)
        except BaseException as error:  # the library panics, outside Exception, on some broken files
            if isinstance(error, BertworksError | Warning | MemoryError) or not (
                isinstance(error, Exception) or type(error).__name__ == "PanicException"
            ):
                raise
            raise ConfigError(
                f"{folder} holds no working tokenizer: {error}", "copy its files again from their source"
            ) from error
        return cls(library, named, max_length)

    # -- using it ------------------------------------------------------------------------------------------

    def encode(
        self, text: str, pair: str | None = None, *, max_length: int | None = None, specials: bool = True
    ) -> Encoded:
        """One text, or a pair. `max_length` counts specials; the longer text is cut first, at its end."""
        item = text if pair is None else (text, pair)
        return self.encode_batch([item], max_length=max_length, specials=specials)[0]

    def encode_batch(
        self,
        texts: Sequence[str | tuple[str, str]],
        *,
        max_length: int | None = None,
        specials: bool = True,
    ) -> list[Encoded]:
        """Many texts or pairs at once: on all cores, without the interpreter's lock."""
        clean = [_clean(text, at) for at, text in enumerate(texts)]
        encodings = self._library.encode_batch(clean, add_special_tokens=specials)
        return [_encoded(encoding, max_length, self._added) for encoding in encodings]

    def ids_of(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids alone, without special tokens: what `encode_batch` gives, faster, since no offsets are kept."""
        clean = [_clean(text, at) for at, text in enumerate(texts)]
        return [encoding.ids for encoding in self._library.encode_batch_fast(clean, add_special_tokens=False)]

    def decode(self, ids: Sequence[int], *, skip_specials: bool = True) -> str:
        try:
            return self._library.decode([int(at) for at in ids], skip_special_tokens=skip_specials)
        except (OverflowError, TypeError, ValueError) as error:
            raise InputError(f"these are not token ids: {error}") from None

    def id(self, token: str) -> int | None:
        return self._library.token_to_id(LONE_SURROGATE.sub("\ufffd", token))

    def token(self, id: int) -> str:
        found = self._library.id_to_token(id) if 0 <= id < self.vocab_size else None
        if found is None:
            raise InputError(f"no token has id {id}", f"ids go from 0 to {self.vocab_size - 1}")
        return found

    @property
    def library(self) -> tokenizers.Tokenizer:
        """The pipeline itself, to look at its parts and never to change them."""
        return self._library

    @cached_property
    def kind(self) -> str:
        """`wordpiece`, `byte-bpe`, `unigram`, or what the library calls another model, in lower case."""
        model = str(self._state["model"]["type"])
        steps = [part["type"] for key in ("pre_tokenizer", "decoder") for part in parts(self._state, key)]
        return "byte-bpe" if model == "BPE" and "ByteLevel" in steps else model.lower()

    @cached_property
    def lowercase(self) -> bool:
        """Whether text is lower-cased before anything else."""
        steps = parts(self._state, "normalizer")
        return any(step.get("lowercase") is True or step["type"] == "Lowercase" for step in steps)

    @cached_property
    def splits_chinese(self) -> bool:
        """Whether every Chinese character is set apart before anything else, as BERT does."""
        return any(step.get("handle_chinese_chars") is True for step in parts(self._state, "normalizer"))

    @cached_property
    def added(self) -> list[AddedToken]:
        """The tokens that are looked for before the text is cut: [MASK] and its like."""
        return list(self._library.get_added_tokens_decoder().values())

    @cached_property
    def _state(self) -> dict[str, Any]:
        """The pipeline as tokenizer.json has it. Costly to make, and not needed to encode."""
        state: dict[str, Any] = json.loads(self._library.to_str())
        return state

    @cached_property
    def vocab_size(self) -> int:
        """The highest id + 1: the rows an embedding table needs."""
        return max(self._library.get_vocab(with_added_tokens=True).values()) + 1

    @cached_property
    def tokens(self) -> list[str]:
        """Every token, by id; an id that nothing has gives an empty string."""
        found = [""] * self.vocab_size
        for text, at in self._library.get_vocab(with_added_tokens=True).items():
            found[at] = text
        return found

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the whole pipeline, so a store can be matched to the model that reads it."""
        return hashlib.sha256(_canonical(self._state).encode()).hexdigest()

    # -- writing it ----------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write the Hugging Face files, each one whole or not at all, tokenizer.json last.

        The class named is the family's where transformers would rebuild exactly this pipeline from it, and
        otherwise PreTrainedTokenizerFast, which takes tokenizer.json as it is.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        special = dict(sorted(self._named.items()))
        config = {**self._class_and_options(), **special, "model_max_length": self.max_length}
        if self.max_length is None:
            del config["model_max_length"]
        for name, text in self._vocabulary_files().items():
            _write(folder / name, text)
        _write(folder / "special_tokens_map.json", _pretty(special))
        _write(folder / "tokenizer_config.json", _pretty(config))
        _write(folder / "tokenizer.json", _pretty(self._state))

    @cached_property
    def family(self) -> str | None:
        """bert, roberta or albert where this is exactly that published pipeline; None for any other."""
        family = FAMILY_OF_KIND.get(self._state["model"]["type"])
        if family is None:
            return None
        options = _options_in(family, self._state)
        added = [token(row, set()) for row in self._state["added_tokens"]]
        try:
            twin = build(family, vocabulary_of(Path("tokenizer.json"), self._state), self._named, added, options)
        except ConfigError:
            return None  # it lacks what the family's template needs, so it is not of that family
        return family if _canonical(json.loads(twin.to_str())) == _canonical(self._state) else None

    def _class_and_options(self) -> dict[str, Any]:
        if self.family is None:
            return {"tokenizer_class": "PreTrainedTokenizerFast"}
        return {"tokenizer_class": CLASS_OF_FAMILY[self.family], **_options_in(self.family, self._state)}

    def _vocabulary_files(self) -> dict[str, str]:
        """The family's older files, where they can say what the vocabulary is."""
        ids = self._library.get_vocab(with_added_tokens=True)
        tokens = sorted(ids, key=ids.__getitem__)
        if self.kind == "wordpiece" and len(ids) == self.vocab_size and not any("\n" in one for one in tokens):
            return {"vocab.txt": "".join(one + "\n" for one in tokens)}
        if self.kind == "byte-bpe":
            merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in self._state["model"]["merges"]]
            return {
                "vocab.json": json.dumps({one: ids[one] for one in tokens}, ensure_ascii=False) + "\n",
                "merges.txt": "".join(line + "\n" for line in ["#version: 0.2", *merges]),
            }
        return {}


# -- reading it ------------------------------------------------------------------------------------------


def _read(folder: Path) -> tuple[tokenizers.Tokenizer, dict[str, str], int | None]:
    """A folder's pipeline, what its special tokens are called, and the longest input it is for."""
    settings = read_settings(folder)
    state = read_object(folder, "tokenizer.json", once=True)
    if state is not None:
        vocabulary = vocabulary_of(folder / "tokenizer.json", state)
        family = settings.family
    else:
        vocabulary = read_vocabulary(folder)
        family = FAMILY_OF_KIND[vocabulary.kind]
    if family is not None and FAMILY_OF_KIND.get(vocabulary.kind) != family:
        tell(f"{vocabulary.source} is {vocabulary.kind}, not what {family} uses: taken as it stands")
        family = None
    named = named_tokens(settings)
    added = added_tokens(settings, state, vocabulary.mask_strips)
    known = vocabulary.ids.keys() | {one.content for one in added}
    for name, usual in USUAL.items():
        found = next((text for text in usual if text in known), None)
        if found is not None:
            named.setdefault(name, found)
    if family is None:
        library = tokenizers.Tokenizer.from_str(json.dumps(state))
        library.add_tokens(added)
    else:
        library = build(family, vocabulary, named, added, _options(family, settings, vocabulary, state))
    library.encode("a ☃ ሴ")  # one that cannot take an unknown character is refused here, not later
    return library, named, _max_length(settings.options.get("model_max_length"))


# -- pipelines -------------------------------------------------------------------------------------------


def build(
    family: str,
    vocabulary: Vocabulary,
    named: Mapping[str, str],
    added: Sequence[AddedToken],
    options: Mapping[str, Any],
) -> tokenizers.Tokenizer:
    """The pipeline of a family as published; `options` are the names tokenizer_config.json uses for them."""
    library = _PIPELINES[family](vocabulary, named, options)
    flagged = {one.content for one in added}
    strips = named.get("mask_token") if vocabulary.mask_strips else None
    fresh = [AddedToken(text, special=True, lstrip=text == strips) for text in named.values() if text not in flagged]
    fresh += [one for one in vocabulary.symbols if one.content not in {*flagged, *named.values()}]
    library.add_tokens([*added, *fresh])
    ends = []
    for name in ("cls_token", "sep_token"):
        text = named.get(name)
        at = None if text is None else library.token_to_id(text)
        if text is None or at is None:
            raise ConfigError(
                f"{vocabulary.source} has no {name} ({' or '.join(USUAL[name])}); every input needs it",
                f"add it to the vocabulary, or name it: {name} in special_tokens_map.json",
            )
        ends.append((text, at))
    (cls, cls_id), (sep, sep_id) = ends
    if family == "roberta":
        library.post_processor = processors.RobertaProcessing(
            (sep, sep_id), (cls, cls_id), options["trim_offsets"], options["add_prefix_space"]
        )
    else:
        library.post_processor = processors.TemplateProcessing(
            single=[f"{cls}:0", "$A:0", f"{sep}:0"],
            pair=[f"{cls}:0", "$A:0", f"{sep}:0", "$B:1", f"{sep}:1"],
            special_tokens=[(cls, cls_id), (sep, sep_id)],
        )
    return library


def _bert(vocabulary: Vocabulary, named: Mapping[str, str], options: Mapping[str, Any]) -> tokenizers.Tokenizer:
    unknown = named.get("unk_token")
    if unknown not in vocabulary.ids:
        raise ConfigError(
            f"{vocabulary.source} has no {unknown or '[UNK]'}, the token for what it does not know",
            "add it to the vocabulary, or name it: unk_token in special_tokens_map.json",
        )
    library = tokenizers.Tokenizer(models.WordPiece(vocabulary.ids, unk_token=unknown))
    library.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=options["tokenize_chinese_chars"],
        strip_accents=options["strip_accents"],
        lowercase=options["do_lower_case"],
    )
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece(prefix="##")
    return library


def _roberta(vocabulary: Vocabulary, _: Mapping[str, str], options: Mapping[str, Any]) -> tokenizers.Tokenizer:
    library = tokenizers.Tokenizer(
        models.BPE(vocabulary.ids, vocabulary.merges, continuing_subword_prefix="", end_of_word_suffix="")
    )
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=options["add_prefix_space"])
    library.decoder = decoders.ByteLevel()
    return library


def _albert(vocabulary: Vocabulary, _: Mapping[str, str], options: Mapping[str, Any]) -> tokenizers.Tokenizer:
    library = tokenizers.Tokenizer(models.Unigram(vocabulary.scores, vocabulary.unk_id, byte_fallback=False))
    steps: list[Any] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not options["keep_accents"]:
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if options["do_lower_case"]:
        steps.append(normalizers.Lowercase())
    if vocabulary.charsmap:
        steps.append(normalizers.Precompiled(vocabulary.charsmap))
    library.normalizer = normalizers.Sequence(steps)
    scheme = "always" if options["add_prefix_space"] else "never"
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme)]
    )
    library.decoder = decoders.Metaspace(replacement="▁", prepend_scheme=scheme)
    return library


_PIPELINES: dict[str, Pipeline] = {"bert": _bert, "roberta": _roberta, "albert": _albert}


def _options(
    family: str, settings: Settings, vocabulary: Vocabulary, state: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The family's settings as tokenizer_config.json gives them, else the defaults of transformers."""

    def flag(key: str, default: bool | None) -> bool | None:
        value = settings.options.get(key)
        if value is not None and not isinstance(value, bool):
            raise ConfigError(f"tokenizer_config.json: {key} is {value!r}", "it is true or false")
        return default if value is None else value

    if family == "roberta":
        return {
            "add_prefix_space": flag("add_prefix_space", False),
            "trim_offsets": flag("trim_offsets", True),
        }
    lower = flag("do_lower_case", None)
    if family == "albert":
        return {
            "do_lower_case": lower is not False,
            "keep_accents": flag("keep_accents", False),
            "add_prefix_space": flag("add_prefix_space", True),
        }
    if state is not None:
        inside_it = [part.get("lowercase") for part in parts(state, "normalizer") if "lowercase" in part]
        if (lower is not False) not in (inside_it or [lower is not False]):
            does = "lower-cases" if lower is not False else "keeps case"
            tell(
                f"tokenizer.json says otherwise, but do_lower_case is {json.dumps(lower is not False)} in "
                f"tokenizer_config.json or by default: the tokenizer {does}, as in transformers"
            )
    elif lower is None and _is_cased(vocabulary):
        tell(f"{vocabulary.source} holds upper-case words and nothing says do_lower_case: case is kept")
        lower = False
    return {
        "do_lower_case": lower is not False,
        "tokenize_chinese_chars": flag("tokenize_chinese_chars", True),
        "strip_accents": flag("strip_accents", None),
    }


def _is_cased(vocabulary: Vocabulary) -> bool:
    """Whether upper-case tokens are part of the vocabulary and not a few odd ones in an uncased one."""
    bracketed = [(one[:1], one[-1:]) in (("[", "]"), ("<", ">")) for one in vocabulary.ids]
    upper = sum(one != one.lower() for one, special in zip(vocabulary.ids, bracketed, strict=True) if not special)
    return upper * 500 > len(vocabulary.ids)


def _options_in(family: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a built pipeline was made with: `build`'s options, read back."""
    steps = {part["type"]: part for part in parts(state, "normalizer")}
    splits = {part["type"]: part for part in parts(state, "pre_tokenizer")}
    if family == "roberta":
        post = state["post_processor"] or {}
        return {
            "add_prefix_space": bool(splits.get("ByteLevel", {}).get("add_prefix_space")),
            "trim_offsets": bool(post.get("trim_offsets")),
        }
    if family == "albert":
        return {
            "do_lower_case": "Lowercase" in steps,
            "keep_accents": "NFKD" not in steps,
            "add_prefix_space": splits.get("Metaspace", {}).get("prepend_scheme") == "always",
        }
    own = steps.get("BertNormalizer", {})
    return {
        "do_lower_case": bool(own.get("lowercase")),
        "tokenize_chinese_chars": bool(own.get("handle_chinese_chars")),
        "strip_accents": own.get("strip_accents"),
    }


# -- small steps -----------------------------------------------------------------------------------------


def _clean(text: object, at: int) -> str | tuple[str, str]:
    """A text as the library takes it: half a surrogate pair, which UTF-8 cannot hold, becomes U+FFFD."""
    if isinstance(text, str):
        return text if text.isascii() else LONE_SURROGATE.sub("\ufffd", text)
    if isinstance(text, tuple | list) and len(text) == 2 and all(isinstance(one, str) for one in text):
        return LONE_SURROGATE.sub("\ufffd", text[0]), LONE_SURROGATE.sub("\ufffd", text[1])
    given = f"({', '.join(type(one).__name__ for one in text)})" if isinstance(text, tuple) else type(text).__name__
    raise InputError(f"text {at} is {given}, not a str or a pair of them", "read or decode it first")


def _encoded(encoding: tokenizers.Encoding, max_length: int | None, added: Mapping[int, str]) -> Encoded:
    full = len(encoding)
    ids, tokens, offsets = encoding.ids, encoding.tokens, encoding.offsets
    words, segments, special = encoding.word_ids, encoding.type_ids, encoding.special_tokens_mask
    if max_length is not None and full > max_length:
        kept = _kept(encoding.sequence_ids, max_length)
        ids, tokens, offsets = ([row[at] for at in kept] for row in (ids, tokens, offsets))  # type: ignore[assignment]
        words, segments, special = ([row[at] for at in kept] for row in (words, segments, special))  # type: ignore[assignment]
    # The library shows such a token as it stood in the text: a mask with the space that it took, the unknown by itself.
    tokens = [added.get(at, text) for at, text in zip(ids, tokens, strict=True)]
    return Encoded(ids, tokens, offsets, words, segments, list(map(bool, special)), full - len(ids))


def _kept(sequences: Sequence[int | None], max_length: int) -> list[int]:
    """The positions that stay: every special, and the start of each text."""
    first, second = sequences.count(0), sequences.count(1)
    room = max_length - (len(sequences) - first - second)
    if room < 0:
        raise InputError(
            f"max_length is {max_length}, fewer than the {max_length - room} special tokens alone",
            "give a larger max_length",
        )
    left = dict(zip((0, 1), longest_first(first, second, room), strict=True))
    kept = []
    for at, sequence in enumerate(sequences):
        if sequence is not None:
            if left[sequence] == 0:
                continue
            left[sequence] -= 1
        kept.append(at)
    return kept


def longest_first(first: int, second: int, room: int) -> tuple[int, int]:
    """How much of two texts fits in `room`: the longer gives way until both are equal, then both do.

    An odd token goes to the longer one (the second, when they are equal), as in the library.
    """
    if first + second <= room:
        return first, second
    short, long = min(first, second), max(first, second)
    long = max(short, room - short)
    if short + long > room:
        short, long = room // 2, room // 2 + room % 2
    return (long, short) if first > second else (short, long)


def _max_length(value: object) -> int | None:
    """A model_max_length somebody meant; transformers writes 1e30 for "none"."""
    sane = isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value < 1e6
    return int(value) if sane else None  # type: ignore[call-overload]


def _canonical(state: Mapping[str, Any]) -> str:
    return json.dumps(state, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _pretty(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _write(path: Path, text: str) -> None:
    """Put a file in place whole: written beside it, flushed to disk, then renamed over it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with draft.open("w", encoding="utf-8", newline="") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        draft.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the rename itself
        finally:
            os.close(folder)
    finally:
        draft.unlink(missing_ok=True)
