"""A document into sentences, in English, Chinese and both mixed.

A line's end is always a sentence's end: BERT's own corpus format has one sentence a line, and joining hard-wrapped
lines would be a guess. Within a line one regular expression finds where a sentence could end, and only there does
Python look closer. What it looks at lies between the sentence's own beginning and the first word after it, at a
bounded distance: so a sentence split again stays whole, and the time taken grows with the text's length alone.

Where case tells nothing the likelier way is taken: a wrong cut and a missed one cost a pre-training corpus little.
"""

from __future__ import annotations

import re

HAN_MARKS = frozenset("。！？｡")  # these end a sentence whatever follows; ； does not, as the semicolon does not
CLOSING = "\"'”’」』）】〕)\\]»›"
OPENING = "\"'“‘「『（【〔(\\[«‹《〈¿¡$£€¥#@–—-"
BRACKETS = frozenset(")）】〕]")
# Marks; closing quotes, brackets and footnote numbers behind them; white space. All of it is always taken, so that a
# run of a million marks is looked at once.
END = re.compile(rf"([.!?…。！？｡．]++)((?:[{CLOSING}]|\[\d{{1,3}}\])*+)(\s*+)")
NEXT = re.compile(rf"([{OPENING}]{{0,4}}+)(\w{{0,16}})")
EASTERN = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # kana and Chinese characters
NEXT_EASTERN = re.compile(f"[“‘「『（【〔《〈{EASTERN}]")
ITEM = re.compile(r"[(（]?(?:\d{1,3}(?:\.\d{1,3})*|[A-Za-z]|[ivx]{1,5}|[IVX]{1,5})[)）]?")
INITIALS = re.compile(
    rf"[^\W\d_{EASTERN}]|(?:[^\W\d_{EASTERN}]{{1,2}}\.)+[^\W\d_{EASTERN}]{{1,2}}"
)  # J, U.S, p.m, Ph.D
COMMON = frozenset(".!?")
CONTINUING = frozenset("，、；：,;:》〉")
AFTER_QUOTE = frozenset("的之等和与及或")  # “加油！”的口号: what was said is a part of the sentence around it

_NEVER_LAST = """Mr Mrs Ms Dr Prof Rev Hon Gen Col Maj Capt Lt Cmdr Adm Brig Sgt Cpl Pvt Gov Sen Rep Pres Supt Insp Det
Messrs Mme Mlle Mt Ft vs Vs e.g E.g i.e I.e cf Cf viz approx ca esp incl"""
_SELDOM_LAST = """Inc Corp Co Ltd Bros Jr Sr St Ave Blvd Rd Dept Univ Assn al Ph Ala Ariz Calif Colo Conn Fla Ga Ill Ind
Mass Mich Minn Mo Neb Nev Okla Ore Pa Tenn Tex Va Vt Wash Wis Wyo"""
_BEFORE_NUMBERS = """no nos fig figs vol vols p pp ch chap sec sect eq eqs art op tab ed jan feb mar apr jun jul aug sep
sept oct nov dec"""
_BEGINNERS = """The This That These Those There Then A An And But Or So Yet It Its He She They We You I His Her Their
Our My Your In On At By For From With To As If When While After Before Since Although Though Because However Some Many
Most Both All Each Such Other Another What Who Why How Where Which Also Later Now Not No Under During Today"""
NEVER_LAST = frozenset(_NEVER_LAST.split())
SELDOM_LAST = frozenset(_SELDOM_LAST.split())
BEFORE_NUMBERS = frozenset(_BEFORE_NUMBERS.split())
BEGINNERS = frozenset(_BEGINNERS.split())


def sentences(text: str, led: bool = False) -> list[str]:
    """A document's sentences in order, without white space around them, none empty. Nothing else is lost.

    led: a sentence that followed white space on its line begins with one space, for byte-level BPE, where a space is
    part of the word after it: so its first token is the one it would have within the text.

    >>> sentences('Dr. Wu left. "Why?" she asked.  他说：“好！”然后走了。')
    ['Dr. Wu left.', '"Why?" she asked.', '他说：“好！”', '然后走了。']
    """
    found: list[str] = []
    for raw in text.splitlines():
        line = raw.strip()
        start, lead, size = 0, "", len(line)
        for match in END.finditer(line):
            if match.end() == size:
                break
            end = _end(line, start, match)
            if end:
                found.append(lead + line[start:end])
                start = match.end() if end == match.end(2) else end
                lead = " " if led and start > end else ""
        if line:
            found.append(lead + line[start:])
    return found


def _end(line: str, start: int, match: re.Match[str]) -> int:
    """Where the sentence that begins at `start` ends, if it does at this match; otherwise 0."""
    marks, closing, gap = match.groups()
    eastern = marks not in COMMON and not HAN_MARKS.isdisjoint(marks)
    if not gap and not eastern and (marks == "." or not _ends_unspaced(line, start, match)):
        return 0  # 3.14, example.com, Yahoo!
    after = line[match.end()]
    if after in CONTINUING or (closing and not BRACKETS.isdisjoint(closing) and _inside(line, start, closing)):
        return 0
    if gap and not eastern:
        return match.end(2) if _ends_spaced(line, start, match) else 0
    if '"' in closing and not gap:  # the same sign opens and closes: it closes what this sentence has opened
        at = match.end(1)
        if line.count('"', max(start, at - 500), at) % 2 == 0:
            return at
    return 0 if closing and not gap and after in AFTER_QUOTE else match.end(2)


def _inside(line: str, start: int, closing: str) -> bool:
    """Whether a bracket closes that was opened after the sentence's beginning: 我（真的！）很好。"""
    return "[" not in closing and line[start] not in "(（[【〔"


def _ends_unspaced(line: str, start: int, match: re.Match[str]) -> bool:
    """Whether Western marks end a sentence though no space follows, as is usual in Chinese typed in haste: 好!走吧"""
    marks, after = match[1], match.end()
    if "!" not in marks and "?" not in marks and "..." not in marks and "……" not in marks:
        return False
    before = line[match.start() - 1] if match.start() > start else ""
    return before not in {*"/=&#"} and NEXT_EASTERN.match(line, after) is not None


def _ends_spaced(line: str, start: int, match: re.Match[str]) -> bool:
    """Whether Western marks with white space behind them end a sentence."""
    following = NEXT.match(line, match.end())
    word = following[2] if following else ""
    if not following or not word:
        return False
    marks, at = match[1], match.start()
    before = line[max(start, at - 16) : at]
    if word[0].islower():  # only in text whose signs stand apart, where case often is lost: it was good . he left
        return marks == "." and not following[1] and before[-1:].isspace() and before.rstrip()[-1:].isalnum()
    if marks != "." and marks != "．":
        unsure = marks.startswith(("..", "…")) or bool(match[2])
        return word != "I" or not unsure  # always a capital, it may well go on: “Why?” I asked
    return bool(match[2]) or not _abbreviates(line, start, at, before, word, following.end())


def _abbreviates(line: str, start: int, at: int, before: str, word: str, word_end: int) -> bool:
    """Whether the full stop at `at` belongs to the word before it and not to the sentence."""
    if at - start < 12 and ITEM.fullmatch(line, start, at):
        return True  # 1. First
    last = before.rsplit(None, 1)[-1].lstrip(OPENING) if before and not before[-1].isspace() else ""
    if last in NEVER_LAST:
        return True
    if last.lower() in BEFORE_NUMBERS:
        return word[0].isdigit() or (len(word) > 1 and not word.strip("IVXLC"))
    if last not in SELDOM_LAST and not ((len(last) == 1 or "." in last) and INITIALS.fullmatch(last)):
        return False
    return word not in BEGINNERS or (len(word) == 1 and line[word_end : word_end + 1] == ".")
