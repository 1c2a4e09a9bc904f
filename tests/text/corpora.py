"""Text made on the spot, in both languages, and a tokenizer for it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from bertworks.text.tokenizer import Tokenizer
from bertworks.text.training import train

_ENGLISH = """the of a river city old new green house people water light stone bridge music winter summer letter garden
morning evening story teacher market train ship paper window table mountain forest wonderful understanding
international running walked quickly singing between after before without because"""
_CHINESE = """我们 你们 今天 明天 天气 很 好 北京 上海 大学 学生 老师 使用 语言 模型 预测 下 一个 词 研究 生命 起源 中国
人民 经济 发展 科学 技术 城市 音乐 河流 春天 的 了 在 是 和 有"""
ENGLISH, CHINESE = _ENGLISH.split(), _CHINESE.split()


def english(draw: np.random.Generator, words: int) -> str:
    picked = [ENGLISH[at] for at in draw.integers(len(ENGLISH), size=words)]
    marks = draw.integers(12, size=words)
    parts = [
        word + (". " if mark == 0 else ", " if mark == 1 else " ") for word, mark in zip(picked, marks, strict=True)
    ]
    text = "".join(parts).strip() + "."
    return ". ".join(one[:1].upper() + one[1:] for one in text.split(". "))


def chinese(draw: np.random.Generator, words: int) -> str:
    picked = [CHINESE[at] for at in draw.integers(len(CHINESE), size=words)]
    marks = draw.integers(10, size=words)
    return "".join(w + ("。" if m == 0 else "，" if m == 1 else "") for w, m in zip(picked, marks, strict=True)) + "。"


def documents(count: int, seed: int = 0, words: int = 60) -> list[str]:
    """English and Chinese by turns, of several lines; a few empty, a few there twice."""
    draw = np.random.default_rng(seed)
    made: list[str] = []
    for number in range(count):
        if number % 17 == 16:
            made.append(made[int(draw.integers(len(made)))])
        elif number % 29 == 28:
            made.append(" ")
        else:
            make = chinese if number % 3 == 2 else english
            size = 1 + int(draw.geometric(1 / words))
            made.append("\n".join(make(draw, size) for _ in range(1 + int(draw.integers(3)))))
    return made


def written(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": one}, ensure_ascii=False) + "\n" for one in texts), encoding="utf8")
    return path


def tokenizer(folder: Path, kind: str = "wordpiece", size: int = 500) -> Tokenizer:
    made = train(documents(200, 99), kind, size)
    made.save(folder)
    return Tokenizer.load(folder)
