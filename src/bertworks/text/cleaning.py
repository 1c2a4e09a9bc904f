"""What is done to a document before it is encoded, and which documents stay: all of it off unless asked for.

What becomes of a text depends on that text alone, so any process may do it; and mending what is mended changes
nothing. Whether a document was seen before is another matter: see `duplicates`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from bertworks.errors import BertworksError, ConfigError, nearest
from bertworks.text.duplicates import KINDS, Duplicates, fingerprint

__all__ = ["Cleaning", "Duplicates", "fingerprint", "mend"]

# ISO 639-1: the codes that py3langid 0.4 knows. The longer ones that it knows beside them cannot be asked for, but
# those that name a kind of one of these count as it: `zh` keeps Cantonese, whose short texts look like any Chinese.
_CODES = (
    "af am an ar as az ba be bg bn br bs ca cs cy da de dz el en eo es et eu fa fi fo fr fy ga gd gl gu ha he hi hr ht "
    "hu hy id ig is it ja jv ka kk km kn ko ku ky la lb lg ln lo lt lv mg mk ml mn mr ms mt my ne nl nn no oc om or pa "
    "pl ps pt qu ro ru rw sa se si sk sl sn so sq sr st sv sw ta te tg th tk tl tr tt ug uk ur uz vi vo wa xh yo zh "
    "zu"
)
LANGUAGES = tuple(_CODES.split())
KINDS_OF = {"zh": {"yue", "wuu"}, "ar": {"arz", "ary"}, "no": {"nn"}, "ku": {"sdh"}, "uz": {"uzs"}, "lv": {"ltg"}}
SURE = 0.5  # how probable a language must be for a document to be dropped for it
SAMPLE = 8, 512  # of a long text the language is told by this many stretches of this many characters


@dataclass(frozen=True)
class Cleaning:
    """What is mended in documents and which are dropped.

    repair      mend text that was decoded wrongly (â€œ for “, Ã© for é), ligatures (ﬁ), letters written as two
                characters; full-width signs and quotation marks stay as they are
    controls    remove control and invisible characters, but for line ends, tabs, and joiners where they are spelling
    spaces      one space for a run of white space, at most one blank line between lines, none at either end
    shortest    drop documents of fewer characters, counted after mending
    languages   drop documents that are surely in none of these languages (ISO 639-1); a text too short to tell stays
    duplicates  of documents that were there before: keep all, drop exact ones, drop near ones as well
    likeness    what nearly is: the share of a text's pairs of neighbouring words (Chinese: characters) that the other
                has, too; with one word in ten changed it is about 0.8
    """

    repair: bool = False
    controls: bool = False
    spaces: bool = False
    shortest: int = 0
    languages: tuple[str, ...] = ()
    duplicates: str = "keep"
    likeness: float = 0.8

    def __post_init__(self) -> None:
        if self.shortest < 0:
            raise ConfigError(f"cleaning.shortest is {self.shortest}", "it is a number of characters, 0 for any")
        if self.duplicates not in KINDS:
            raise ConfigError(
                f"cleaning.duplicates is {self.duplicates!r}",
                nearest(str(self.duplicates), KINDS) or f"known: {', '.join(KINDS)}",
            )
        if not 0 < self.likeness <= 1:
            raise ConfigError(f"cleaning.likeness is {self.likeness}", "it is a share above 0, at most 1, such as 0.8")
        given: object = self.languages  # from TOML and JSON it comes as a list
        if not isinstance(given, list | tuple):
            raise ConfigError(f"cleaning.languages is {given!r}", 'give a list, such as ["en", "zh"]')
        object.__setattr__(self, "languages", tuple(given))
        for name in self.languages:
            if name not in LANGUAGES:
                raise ConfigError(
                    f"cleaning.languages has {name!r}",
                    nearest(str(name), LANGUAGES) or f"codes of two letters are known: {' '.join(LANGUAGES)}",
                )


def mend(text: str, cleaning: Cleaning) -> tuple[str | None, list[str]]:
    """A text as it is to be encoded, or None to drop it; and what was done, by stable names.

    A document that stays is noted once for each way it was mended; one that does not, only for why.
    """
    better, notes = text, list[str]()
    asked = [(name, way) for name, way in _WAYS.items() if getattr(cleaning, name)]
    while True:
        before = better
        for name, way in asked:
            after = way(better)
            if after != better and _NOTES[name] not in notes:
                notes.append(_NOTES[name])
            better = after
        # What stood between the halves of something broken may be gone only now; each round leaves less of that.
        if better == before or len(asked) < 2 or not cleaning.repair:
            break
    if (asked or cleaning.shortest or cleaning.languages) and (not better or better.isspace()):
        return None, ["dropped_empty"]
    if len(better) < cleaning.shortest:
        return None, ["dropped_short"]
    if cleaning.languages and _is_foreign(better, cleaning.languages):
        return None, ["dropped_language"]
    return better, notes


# -- ways of mending -------------------------------------------------------------------------------------


def _repaired(text: str) -> str:
    return text if text.isascii() else _repairer()(text)


@cache
def _repairer() -> Callable[[str], str]:
    """ftfy without what would change good text, or what `controls` and `spaces` do.

    Entities (&amp;) stay: what they mean is for whoever took the text out of its page to know.
    """
    try:
        import ftfy
    except ImportError:
        raise _missing("wrongly decoded text is mended with ftfy", "leave cleaning.repair off") from None
    config = ftfy.TextFixerConfig(
        unescape_html=False,
        remove_terminal_escapes=False,
        fix_character_width=False,
        uncurl_quotes=False,
        fix_line_breaks=False,
        remove_control_chars=False,
        normalization="NFC",
        explain=False,
    )
    return lambda text: ftfy.fix_text(text, config)


# Zero-width and bidirectional marks, soft hyphens, byte order marks, signs for layout and annotation. Format characters
# that are seen (U+0600 and others) are not among them.
_INVISIBLE = "\xad\u061c\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffc\U0001d173-\U0001d17a"
_TAGS = "\U000e0001\U000e0020-\U000e007f"
_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
# Behind these a joiner or its opposite is spelling: Arabic and its kin, the scripts of India, Burmese, Khmer, …
_JOINING = (
    "\u0600-\u061b\u061d-\u0dff\u1000-\u109f\u1780-\u18af\u1b00-\u1bff\ua800-\uabff\ufb50-\ufdff\ufe70-\ufefc"
    "\U00010a00-\U00011fff\U0001e900-\U0001e95f"
)
_UNSPACED = "\u0e00-\u109f\u1780-\u17ff\u1950-\u1aaf\ua9e0-\uaadf"  # behind these a zero-width space parts words
_EMOJI = "\u2190-\u2bff\U0001f000-\U0001faff"

_SUSPECT = re.compile(f"[{_CONTROL}\u2028\u2029\u200b-\u200d{_INVISIBLE}{_TAGS}]")
_LINE_ENDS = re.compile("\r\n?|[\x0b\x0c\x1c-\x1f\x85\u2028\u2029]")  # removed, they would join two words
_UNSEEN = re.compile(
    rf"\x1b\[[0-9;?]*[A-Za-z]|[{_CONTROL}{_INVISIBLE}]"  # a terminal's colours as a whole
    rf"|(?<![{_UNSPACED}])\u200b|(?<![{_JOINING}])\u200c"
    rf"|(?<![{_JOINING}])\u200d(?!(?<=[{_EMOJI}\ufe0f\u20e3]\u200d)[{_EMOJI}])"
    rf"|(\U0001f3f4[{_TAGS}]+)|[{_TAGS}]"  # behind a black flag they say whose it is
)


def _without_controls(text: str) -> str:
    if not _SUSPECT.search(text):  # several times as fast as the search for what exactly
        return text
    return _UNSEEN.sub(r"\1", _LINE_ENDS.sub("\n", text))


_BLANK_LINES = re.compile(r"\n{3,}")


def _evenly_spaced(text: str) -> str:
    # str.split knows all of Unicode's white space: no-break and ideographic spaces, too.
    even = "\n".join([" ".join(line.split()) for line in text.splitlines()])
    return _BLANK_LINES.sub("\n\n", even).strip("\n")


_WAYS: dict[str, Callable[[str], str]] = {
    "repair": _repaired,
    "controls": _without_controls,
    "spaces": _evenly_spaced,
}
_NOTES = {"repair": "repaired", "controls": "controls_removed", "spaces": "spaces_mended"}


# -- languages -------------------------------------------------------------------------------------------


def _is_foreign(text: str, languages: tuple[str, ...]) -> bool:
    """Whether a text is more likely in one other language than in all the rest together.

    Of short texts, names and numbers no language is that likely: they stay.
    """
    name, probability = guessed_language(text)
    wanted = {name, *(of for of, kinds in KINDS_OF.items() if name in kinds)}
    return probability > SURE and wanted.isdisjoint(languages)


def guessed_language(text: str) -> tuple[str, float]:
    """The likeliest language of a text, and how probable it is beside all others."""
    number, length = SAMPLE
    if len(text) > number * length:
        step = (len(text) - length) // (number - 1)
        text = " ".join([text[at * step : at * step + length] for at in range(number)])
    name, probability = _identifier().classify(text)
    return str(name), float(probability)


@cache
def _identifier() -> Any:
    """py3langid's model, of our own so that whoever uses its shared one does not change it; read once (0.6 s)."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        raise _missing("languages are told by py3langid", "leave cleaning.languages empty") from None
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _missing(what: str, else_: str) -> BertworksError:
    return BertworksError(f"{what}, which is not installed", f"pip install 'bertworks[train]', or {else_}")
