"""How a tokenizer frames its inputs: [CLS] A [SEP] B [SEP] with segments 0 and 1, or <s> A </s></s> B </s>."""

from __future__ import annotations

from dataclasses import dataclass

from bertworks.errors import ConfigError
from bertworks.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Frame:
    """Special ids, how many separators stand between the two of a pair, and the second one's segment number."""

    cls: int
    sep: int
    pad: int
    mask: int
    between: int
    second: int

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> Frame:
        """Read off what the tokenizer makes of a pair."""
        cls_id, sep_id, pad_id, mask_id = (_id(tokenizer, name) for name in ("cls", "sep", "pad", "mask"))
        pair = tokenizer.encode("a", "a")
        between = sum(pair.special) - 2
        if between not in (1, 2):
            raise ConfigError(
                f"the tokenizer frames a pair with {sum(pair.special)} special tokens, not 3 or 4",
                "use a tokenizer of BERT's, RoBERTa's or ALBERT's kind",
            )
        return cls(cls_id, sep_id, pad_id, mask_id, between, max(pair.segments))

    def room(self, length: int, pairs: bool) -> int:
        """How many of the text's own tokens a row of `length` holds."""
        return length - (2 + self.between if pairs else 2)


def _id(tokenizer: Tokenizer, name: str) -> int:
    found = getattr(tokenizer, f"{name}_id")
    if found is None:
        raise ConfigError(f"the tokenizer has no {name} token", "every training example needs one")
    return int(found)
