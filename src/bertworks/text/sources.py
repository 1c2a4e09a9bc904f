"""What a model folder says about its tokenizer: vocabulary, special tokens and settings, read and checked.

Only files of fixed names inside the folder are read; whatever their contents name (`vocab_file`,
`tokenizer_file`, `auto_map`) is not followed, and no code of the folder is run.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from bertworks.errors import ConfigError, UnsafeFileError, tell
from bertworks.folders import inside
from bertworks.text import sentencepiece

LARGEST_FILE = 512 * 2**20
NEVER = 100.0  # taken from a Unigram piece's score, it is in no best segmentation
LARGEST_ID = 2**24  # no embedding table has more rows; an id past it is a mistake or a trap

BERT_CLASSES = ["Bert", "DistilBert", "Electra", "SqueezeBert", "MobileBert", "ConvBert", "LayoutLM"]
ROBERTA_CLASSES = ["Roberta", "Longformer", "Bart"]
FAMILY_OF_CLASS = {
    **{f"{name}Tokenizer": "bert" for name in BERT_CLASSES},
    **{f"{name}Tokenizer": "roberta" for name in ROBERTA_CLASSES},
    "AlbertTokenizer": "albert",
}
# These, too, are the library's own; their tokenizer.json is used as it stands.
PLAIN_CLASSES = frozenset(
    f"{name}Tokenizer"
    for name in [
        "PreTrained",
        "XLMRoberta",
        "MPNet",
        "Camembert",
        "DebertaV2",
        "Deberta",
        "GPT2",
        "XLNet",
        "Funnel",
        "RemBert",
    ]
) | {"TokenizersBackend"}
BERT_MODELS = ("bert", "distilbert", "electra", "squeezebert", "mobilebert", "convbert", "layoutlm", "ernie")
ROBERTA_MODELS = ("roberta", "roberta-prelayernorm", "longformer", "bart", "ibert", "data2vec-text")
FAMILY_OF_MODEL = {
    **dict.fromkeys((*BERT_MODELS, "megatron-bert", "nezha"), "bert"),
    **dict.fromkeys(ROBERTA_MODELS, "roberta"),
    "albert": "albert",
}
ORDER = [f"{name}_token" for name in ("bos", "eos", "unk", "sep", "pad", "cls", "mask")]  # ids of new ones
FAMILY_OF_KIND = {"WordPiece": "bert", "BPE": "roberta", "Unigram": "albert"}


@dataclass(frozen=True)
class Vocabulary:
    """The model part of a tokenizer, whichever file it came from."""

    kind: str  # the library's word: WordPiece, BPE, Unigram
    source: Path
    ids: dict[str, int]
    merges: list[tuple[str, str]] = field(default_factory=list)
    scores: list[tuple[str, float]] = field(default_factory=list)  # Unigram: pieces in id order
    unk_id: int | None = None
    charsmap: bytes = b""
    symbols: list[AddedToken] = field(default_factory=list)  # SentencePiece's control pieces

    @property
    def mask_strips(self) -> bool:
        """Whether a mask takes the space before it, where nothing says: RoBERTa's and ALBERT's do.

        A tokenizer.json does say, for each token.
        """
        return self.kind != "WordPiece" and self.source.name != "tokenizer.json"


@dataclass(frozen=True)
class Settings:
    """What the small JSON files say beside the vocabulary."""

    family: str | None  # bert, roberta, albert; None: nothing says, or a class that is none of them
    options: Mapping[str, Any]  # tokenizer_config.json
    special: Mapping[str, Any]  # the same, overlaid with special_tokens_map.json
    added: Mapping[str, int]  # added_tokens.json


def read_settings(folder: Path) -> Settings:
    config = read_object(folder, "tokenizer_config.json") or {}
    model = read_object(folder, "config.json") or {}
    special = config
    if "added_tokens_decoder" not in config:  # where it is given, transformers looks no further
        special = {**config, **(read_object(folder, "special_tokens_map.json") or {})}
    named = config.get("tokenizer_class") or model.get("tokenizer_class")
    family = FAMILY_OF_MODEL.get(str(model.get("model_type"))) if named is None else None
    strange = None
    if named is not None:
        name = str(named).removesuffix("Fast")
        family = FAMILY_OF_CLASS.get(name)
        strange = None if family or name in PLAIN_CLASSES else f"tokenizer_class {named!r}"
    code = config.get("auto_map")
    if code is not None:
        strange = f"code of its own (auto_map: {_short(code)})"
    if strange is not None:
        tell(f"{folder} names {strange}: ignored, only the vocabulary files are used")
    added = read_object(folder, "added_tokens.json") or {}
    _check_ids(folder / "added_tokens.json", added)
    return Settings(family, config, special, added)


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


# -- vocabularies ----------------------------------------------------------------------------------------


def read_vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary of a folder without tokenizer.json."""
    for read in (_vocab_txt, _vocab_json, _spiece):
        vocabulary = read(folder)
        if vocabulary is not None:
            return vocabulary
    raise ConfigError(
        f"{folder} holds no tokenizer",
        "it needs tokenizer.json, vocab.txt, vocab.json with merges.txt, or spiece.model",
    )


def _vocab_txt(folder: Path) -> Vocabulary | None:
    """WordPiece: one token a line, its id is the line's number from 0.

    Lines end with "\\n" only: the Chinese vocabulary holds U+2028 as a token, which splitlines() would break
    at. A blank line is a token as well (of blank lines the last one counts, as in transformers).
    """
    text = read_text(folder, "vocab.txt")
    if text is None:
        return None
    path = folder / "vocab.txt"
    lines = text.removeprefix("\ufeff").split("\n")
    if lines[-1] == "":
        lines.pop()
    ids: dict[str, int] = {}
    for at, line in enumerate(lines):
        token = line.rstrip(" \t\r")
        if token and token in ids:
            raise ConfigError(
                f"{path}:{at + 1}: the token {token!r} is also on line {ids[token] + 1}",
                "each token has one line; rename one of the two",
            )
        ids[token] = at
    _check_ids(path, ids, needs_one=True)
    return Vocabulary("WordPiece", path, ids)


def _vocab_json(folder: Path) -> Vocabulary | None:
    """Byte-level BPE: ids in vocab.json, merges in merges.txt in order of rank."""
    ids = read_object(folder, "vocab.json", once=True)
    text = read_text(folder, "merges.txt")
    if ids is None and text is None:
        return None
    if ids is None or text is None:
        missing = "vocab.json" if ids is None else "merges.txt"
        raise ConfigError(f"{folder} has no {missing}", "a byte-level BPE needs both vocab.json and merges.txt")
    path = folder / "merges.txt"
    _check_ids(folder / "vocab.json", ids, needs_one=True)
    merges: list[tuple[str, str]] = []
    for at, line in enumerate(text.split("\n")):
        line = line.rstrip("\r")
        if not line or (at == 0 and line.startswith("#version")):
            continue
        parts = line.split(" ")
        if len(parts) != 2 or not all(parts):
            raise ConfigError(f"{path}:{at + 1}: {line!r} is not two tokens with a space between them")
        merges.append((parts[0], parts[1]))
        for token in (*parts, "".join(parts)):
            if token not in ids:
                raise ConfigError(
                    f"{path}:{at + 1}: {token!r} is not in vocab.json",
                    "the two files are not of one tokenizer",
                )
    return Vocabulary("BPE", folder / "vocab.json", ids, merges=merges)


def _spiece(folder: Path) -> Vocabulary | None:
    data = read_bytes(folder, "spiece.model")
    if data is None:
        return None
    path = folder / "spiece.model"
    try:
        model = sentencepiece.read(data)
    except ValueError as error:
        raise ConfigError(
            f"{path} is not a whole SentencePiece Unigram model: {error}", "copy it again from its source"
        ) from None
    # User-defined pieces (ALBERT's brackets, dots and dashes) stay pieces, and the best there are: looked for before
    # the text is cut, as transformers 5 does, they would begin a word behind each of them: "u.s." as ▁u . ▁s .
    symbols = [
        AddedToken(piece, normalized=False, special=True)
        for (piece, _), kind in zip(model.pieces, model.types, strict=True)
        if kind == sentencepiece.CONTROL
    ]
    return Vocabulary(
        "Unigram",
        path,
        _ids_of_pieces(path, model.pieces),
        scores=[(piece, score - NEVER * _ends_in_number_comma(piece)) for piece, score in model.pieces],
        unk_id=model.unk_id,
        charsmap=model.charsmap,
        symbols=symbols,
    )


def _ends_in_number_comma(piece: str) -> bool:
    """Whether it is one of those like "▁2010," which ALBERT's published code cuts into number and comma."""
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def vocabulary_of(path: Path, state: Mapping[str, Any]) -> Vocabulary:
    """The vocabulary inside a parsed tokenizer.json, checked before the library sees it."""
    model = state.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list):
        raise ConfigError(f'{path} has no "model" with a "vocab"', "it is not a file of the tokenizers library")
    vocab = model["vocab"]
    kind = model.get("type") or ("BPE" if "merges" in model else "WordPiece")  # old files leave the type out
    if isinstance(vocab, dict):
        _check_ids(path, vocab, needs_one=True)
        return Vocabulary(str(kind), path, vocab, merges=_pairs(path, model.get("merges") or []))
    try:
        scores = [(str(piece), float(score)) for piece, score in vocab]
    except (TypeError, ValueError):
        raise ConfigError(f"{path}: a Unigram vocabulary is a list of [piece, score]") from None
    return Vocabulary(
        "Unigram",
        path,
        _ids_of_pieces(path, scores),
        scores=scores,
        unk_id=model.get("unk_id"),
        charsmap=next(
            (
                base64.b64decode(part["precompiled_charsmap"] or "")
                for part in parts(state, "normalizer")
                if part["type"] == "Precompiled"
            ),
            b"",
        ),
    )


def parts(state: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """The steps of a pipeline's normalizer, pre_tokenizer or decoder, one by one: none, one or a sequence."""
    whole = state.get(key)
    if not isinstance(whole, dict):
        return []
    inner = next((whole[name] for name in ("normalizers", "pretokenizers", "decoders") if name in whole), [whole])
    return [part for part in inner if isinstance(part, dict) and isinstance(part.get("type"), str)]


def _pairs(path: Path, merges: list[Any]) -> list[tuple[str, str]]:
    pairs = []
    for at, merge in enumerate(merges):
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2:
            raise ConfigError(f"{path}: merge number {at + 1} is {merge!r}, not two tokens")
        pairs.append((str(parts[0]), str(parts[1])))
    return pairs


def _ids_of_pieces(path: Path, pieces: list[tuple[str, float]]) -> dict[str, int]:
    ids: dict[str, int] = {}
    for at, (piece, _) in enumerate(pieces):
        if ids.setdefault(piece, at) != at:
            raise ConfigError(f"{path}: the token {piece!r} has two ids, {ids[piece]} and {at}")
    _check_ids(path, ids, needs_one=True)
    return ids


def _check_ids(path: Path, ids: Mapping[str, Any], needs_one: bool = False) -> None:
    if needs_one and not any(ids):
        raise ConfigError(f"{path} holds no tokens", "copy it again from its source")
    owner: dict[int, str] = {}
    for token, at in ids.items():
        if type(at) is not int or not 0 <= at < LARGEST_ID:
            raise ConfigError(f"{path}: the token {token!r} has {at!r} for an id")
        if owner.setdefault(at, token) != token:
            raise ConfigError(f"{path}: the tokens {owner[at]!r} and {token!r} both have id {at}")


# -- files -----------------------------------------------------------------------------------------------


def read_bytes(folder: Path, name: str) -> bytes | None:
    """A small file whole (a configuration, a vocabulary), or None when there is none."""
    path = inside(folder, name)
    if path is None:
        return None
    size = path.stat().st_size
    if size > LARGEST_FILE:
        raise UnsafeFileError(f"{path} has {size:,} bytes; no tokenizer needs that", "it was not read")
    return path.read_bytes()


def read_text(folder: Path, name: str) -> str | None:
    """A small file of UTF-8 text; line ends are left as they are."""
    data = read_bytes(folder, name)
    try:
        return None if data is None else data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{folder / name}:{line}: not UTF-8 text", "copy it again from its source") from None


def read_object(folder: Path, name: str, once: bool = False) -> dict[str, Any] | None:
    """A JSON file that holds an object; with `once`, one where a key given twice is an error."""
    text = read_text(folder, name)
    if text is None:
        return None
    path = folder / name

    def only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise ConfigError(f"{path}: {twice!r} is given twice", "each token has one id")
        return made

    try:
        value = json.loads(text, object_pairs_hook=only_once if once else None)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}: not JSON: {error.msg}", "copy it from its source") from None
    except (RecursionError, ValueError) as error:
        raise ConfigError(f"{path}: not JSON that can be read: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path} holds a JSON {type(value).__name__}, not an object")
    return value


# -- special tokens --------------------------------------------------------------------------------------


def named_tokens(settings: Settings) -> dict[str, str]:
    """`mask_token` → `[MASK]` and its like, as the files name them."""
    return {
        key: content
        for key, value in settings.special.items()
        if key.endswith("_token") and (content := _content(value)) is not None
    }


def added_tokens(settings: Settings, state: Mapping[str, Any] | None, mask_strips: bool = False) -> list[AddedToken]:
    """Every token matched in the raw text before the vocabulary is asked, in the order of ids, flags kept.

    The sources and their order are transformers': `added_tokens_decoder` alone where it is given; otherwise
    added_tokens.json, then tokenizer.json; then what the special-token files name beyond these. With
    `mask_strips` a mask named without flags takes the space before it.
    """
    names = set(named_tokens(settings).values())
    by_id: dict[int, AddedToken] = {}
    decoder = settings.options.get("added_tokens_decoder")
    if isinstance(decoder, dict):
        by_id = {int(at): token(value, names) for at, value in decoder.items() if str(at).isdecimal()}
    elif decoder is None:
        for content, at in settings.added.items():
            by_id[at] = AddedToken(content, normalized=content not in names, special=content in names)
        for row in (state or {}).get("added_tokens") or []:
            if not isinstance(row, dict) or type(row.get("id")) is not int or not 0 <= row["id"] < LARGEST_ID:
                raise ConfigError(f"tokenizer.json: not an added token: {_short(row)}")
            by_id[row["id"]] = token(row, names)
    tokens = [by_id[at] for at in sorted(by_id)]
    known = {one.content for one in tokens}
    special = settings.special
    keys = [*ORDER, *(key for key in special if key.endswith("_token") and key not in ORDER)]
    extras: list[object] = [special[key] for key in keys if key in special]
    if mask_strips and isinstance(special.get("mask_token"), str):
        extras[extras.index(special["mask_token"])] = {"content": special["mask_token"], "lstrip": True}
    for key in ("extra_special_tokens", "additional_special_tokens"):
        more = special.get(key) or []
        extras += list(more.values()) if isinstance(more, dict) else more if isinstance(more, list) else []
    for value in extras:
        text = _content(value)
        if text and text not in known:
            known.add(text)
            tokens.append(token(value, {text}))
    return tokens


def token(value: object, names: set[str]) -> AddedToken:
    """An AddedToken from its JSON form; one that has a name (`mask_token`) is special whatever it says."""
    content = _content(value)
    if content is None:
        raise ConfigError(f"not a token: {_short(value)}", 'a token is a string or {"content": ...}')
    flags = value if isinstance(value, dict) else {}
    special = bool(flags.get("special", False)) or content in names
    return AddedToken(
        content,
        single_word=bool(flags.get("single_word", False)),
        lstrip=bool(flags.get("lstrip", False)),
        rstrip=bool(flags.get("rstrip", False)),
        normalized=bool(flags.get("normalized", not special)),
        special=special,
    )


def _content(value: object) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None
