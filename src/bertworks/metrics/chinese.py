"""Answers in Chinese, scored by the rules of CMRC 2018: characters where there are, words elsewhere.

F1 is of the longest run in common (not a subsequence, whatever it is called there); exact match drops case and the
punctuation of PUNCTUATION, and nothing else. The published rules cut Latin stretches as the Penn Treebank does; so do
we, for what Chinese answers hold: words and numbers stay whole (1,000 · 3.14 · u.s.a), other marks stand alone, a
closing full stop and 's, n't and their like come off. (That tokenizer also makes "can not" of "cannot" and parts a few
more such words; we do not.)
"""

from __future__ import annotations

import re

# Two dots of an ellipsis never meet one character, so the published list's …… drops nothing; nor do we.
PUNCTUATION = frozenset("-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
HAN = re.compile("[\u4e00-\u9fa5]")
CLITIC = re.compile(r"(?<=[^' ])('(?:s|m|d|ll|re|ve)|n't)(?![\w'])")
PART = r"""[^\s,;@#$%&?!\[\](){}<>"'.«»‒–—―‘„]|\.(?!\.)|(?<=\w)'(?=\w)|,(?=\d)"""  # of a word or a number
LATIN = re.compile(rf"n't|'(?:s|m|d|ll|re|ve)\b|\.{{2,}}|(?:{PART})+|\S")


def segments(text: str, punctuation: bool = False) -> list[str]:
    """A text in Chinese characters and Latin words; PUNCTUATION is dropped unless it is wanted.

    >>> segments("《iPhone 4》于2010年发布。")
    ['iphone', '4', '于', '2010', '年', '发', '布']
    """
    found: list[str] = []
    latin = ""
    for char in text.lower().strip():
        mark = char in PUNCTUATION
        if mark and not punctuation:
            continue
        if mark or HAN.match(char):
            found += words(latin)
            found.append(char)
            latin = ""
        else:
            latin += char
    return found + words(latin)


def words(text: str) -> list[str]:
    """Words and marks of a stretch without Chinese.

    >>> words("it's 3.14, or 1,000.")
    ['it', "'s", '3.14', ',', 'or', '1,000', '.']
    """
    cut = LATIN.findall(CLITIC.sub(r" \1", text))
    if cut and len(cut[-1]) > 1 and cut[-1].endswith(".") and not cut[-1].endswith(".."):
        cut[-1:] = [cut[-1][:-1], "."]
    return cut


def bare(text: str) -> str:
    """Lower case, without PUNCTUATION; spaces within stay."""
    return "".join(char for char in text.lower().strip() if char not in PUNCTUATION)


def exact(gold: str, predicted: str) -> float:
    return float(bare(gold) == bare(predicted))


def overlap(gold: str, predicted: str) -> float:
    """F1 of the longest run of segments in common."""
    one, two = segments(gold), segments(predicted)
    same = longest_run(one, two)
    if not same:
        return 0.0
    precision, recall = same / len(two), same / len(one)
    return 2 * precision * recall / (precision + recall)


def longest_run(one: list[str], two: list[str]) -> int:
    """The length of the longest stretch of neighbours that both have."""
    best = 0
    before = [0] * (len(two) + 1)
    for left in one:
        now = [0] * (len(two) + 1)
        for at, right in enumerate(two):
            if left == right:
                now[at + 1] = before[at] + 1
        best = max(best, *now)
        before = now
    return best
