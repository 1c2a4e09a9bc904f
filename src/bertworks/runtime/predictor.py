"""The Predictor: tokenizer + model + heads, the same object behind Python and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertworks.batch import Batch
from bertworks.errors import ConfigError, InputError, WeightsError, tell
from bertworks.folders import new_folder
from bertworks.heads.pool import pool
from bertworks.models.encoder import Model, Output
from bertworks.models.folder import Description, check_weights, convert, load_model, write_model
from bertworks.models.sentence import SentenceOptions, read_options, write_options
from bertworks.text.tokenizer import Encoded, Tokenizer
from bertworks.weights.hub import locate

from .batching import by_tokens
from .machine import choose_device, choose_dtype, use_granted_cores

if TYPE_CHECKING:
    from bertworks.tasks.task import Task

Text = str | tuple[str, str] | Sequence[int]


@dataclass(frozen=True)
class Guess:
    """One way to fill a mask."""

    score: float
    token: int
    token_str: str
    sequence: str


@dataclass(frozen=True)
class Vectors:
    """What the encoder makes of one text, on the CPU in fp32, without padding.

    last [tokens, width]; pooled [width] where there is a pooler; hidden: embeddings and each layer's output;
    maps: each layer's attention [heads, tokens, tokens].
    """

    tokens: list[str]
    ids: list[int]
    offsets: list[tuple[int, int]]
    last: Tensor
    pooled: Tensor | None
    hidden: tuple[Tensor, ...]
    maps: tuple[Tensor, ...]


def load(
    model: str | Path,
    *,
    heads: Sequence[str] | None = None,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    allow_pickle: bool = False,
    seed: int | None = None,
) -> Predictor:
    """A model ready for use, from a folder, a run or a hub id.

    heads   in place of the folder's own (masked_lm, classify, tag, answer, choose, …)
    device  auto (a GPU where there is one), cpu, cuda, cuda:1
    dtype   auto (bf16 where the machine computes it natively), fp32, bf16, fp16
    seed    for the first values of a head that the folder does not have
    """
    use_granted_cores()
    where = choose_device(device)
    kind = choose_dtype(dtype, where)
    folder = locate(model, allow_pickle)
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    made, description = load_model(
        folder, None if heads is None else tuple(heads), allow_pickle=allow_pickle, generator=generator
    )
    return Predictor(made, description, folder, where, kind)


class Predictor:
    """A loaded model. Texts go in; guesses, vectors, hidden states and attention maps come out.

    A text is a string, a pair of strings, or a list of token ids. Texts longer than `max_length` tokens are cut, and
    one line says how many; an empty text is its special tokens alone.
    """

    def __init__(
        self, model: Model, description: Description, folder: Path, device: torch.device, dtype: torch.dtype
    ) -> None:
        self.description, self.folder, self.config = description, folder, description.config
        self.device, self.dtype = device, dtype
        self.sentence: SentenceOptions | None = read_options(folder)
        self._model = model
        # Converting and moving weights runs beside whatever comes next (reading the tokenizer, tokenising).
        self._settling: Future[None] | None = None
        if any(weight.dtype != dtype or weight.device != device for weight in model.parameters()):
            pool = ThreadPoolExecutor(1, "bertworks-settle")
            self._settling = pool.submit(self._settle)
            pool.shutdown(wait=False)

    def _settle(self) -> None:
        convert(self._model, self.dtype)
        self._model.to(self.device)

    @property
    def model(self) -> Model:
        """The module itself, on its device and in its dtype."""
        if self._settling is not None:
            self._settling.result()
            self._settling = None
        return self._model

    @cached_property
    def tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.load(self.folder)
        if tokenizer.vocab_size > self.config.vocab_size:
            raise ConfigError(
                f"{self.folder}: the tokenizer has {tokenizer.vocab_size} tokens, the model {self.config.vocab_size}",
                "they do not belong together; restore the model's own tokenizer files",
            )
        return tokenizer

    @property
    def max_length(self) -> int:
        """The longest text in tokens, special ones included."""
        return self.config.max_length

    def encode(
        self, texts: Text | Sequence[Text], *, hidden: bool = False, maps: bool = False
    ) -> Vectors | list[Vectors]:
        """A vector for every token; every layer's (`hidden`) and the attention (`maps`) on request."""
        many, items = _as_list(texts)
        encoded = self._tokens(items, self.max_length)
        done: list[Vectors | None] = [None] * len(items)

        def keep(rows: list[int], output: Output) -> None:
            for at, row in enumerate(rows):
                done[row] = _unpad(encoded[row], output, at)

        self._run(encoded, keep, hidden=hidden, maps=maps)
        vectors = [one for one in done if one is not None]
        return vectors if many else vectors[0]

    def embed(
        self,
        texts: str | Sequence[Text],
        *,
        pooling: str | None = None,
        normalise: bool | None = None,
        max_length: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> NDArray[np.float32]:
        """[texts, width] floats, one vector a text ([width] for a single string).

        Pooling, normalising, length and prompt are the folder's own where it is a sentence encoder, else the
        mean over all tokens; "pooler" takes BERT's trained pooler. `progress` is told how many texts are done
        after each batch.
        """
        many, items = _as_list(texts)
        options = self.sentence or SentenceOptions()
        how = options.how if pooling is None else pooling
        unit = options.normalise if normalise is None else normalise
        length = min(max_length or options.max_length or self.max_length, self.max_length)
        encoded = self._tokens([_prepared(item, options) for item in items], length)
        vectors = np.zeros((len(items), self.config.hidden_size), np.float32)

        def keep(rows: list[int], output: Output) -> None:
            vectors[rows] = self._pooled(output, [len(encoded[row].ids) for row in rows], how, unit)
            if progress is not None:
                progress(len(rows))

        self._run(encoded, keep)
        return vectors if many else vectors[0]

    def fill(self, texts: str | Sequence[str], *, top_k: int = 5) -> list[Any]:
        """The likeliest tokens for [MASK], best first: a list of guesses, or one such list per mask where a text has
        several; a list of those for a list of texts.
        """
        if "masked_lm" not in self._model.heads:
            raise InputError(
                f"{self.folder} has no masked-language-model head, so it cannot fill blanks",
                "use a model such as BertForMaskedLM; `bertworks inspect` lists a folder's heads",
            )
        many, items = _as_list(texts)
        mask = self.tokenizer.mask_token
        if mask is None:
            raise ConfigError(f"{self.folder}: the tokenizer has no mask token", "name one in tokenizer_config.json")
        texts = [str(item).replace("[MASK]", mask).replace("<mask>", mask) for item in items]
        encoded = self._tokens(texts, self.max_length)
        for text, one in zip(texts, encoded, strict=True):
            _check_masks(text, mask, one.ids.count(self.tokenizer.mask_id or 0), self.max_length)
        filled: list[Any] = [None] * len(items)

        def keep(rows: list[int], output: Output) -> None:
            scores = iter(output.scores["masked_lm"].float().softmax(-1))
            for row in rows:
                masks = [at for at, id in enumerate(encoded[row].ids) if id == self.tokenizer.mask_id]
                guesses = [self._guesses(encoded[row].ids, at, next(scores), top_k) for at in masks]
                filled[row] = guesses[0] if len(guesses) == 1 else guesses

        self._run(encoded, keep, chosen_id=self.tokenizer.mask_id, model=self.model)
        return filled if many else filled[0]

    @cached_property
    def task(self) -> Task:
        """What the model was fine-tuned for, with all that its predictions depend on."""
        from bertworks.tasks.known import task_of

        return task_of(self.folder, self.description)

    def predict(self, items: Sequence[Any]) -> list[dict[str, Any]]:
        """What a fine-tuned model says of each item: a text, a pair of texts, or a mapping with the task's columns."""
        from bertworks.tasks.predicting import predictions_of, rows_of

        many = [items] if isinstance(items, str | Mapping) else items
        return predictions_of(self.task, self.model, self.tokenizer, rows_of(self.task, many))

    def save(self, folder: str | Path, *, replace: bool = False) -> Path:
        """Write the model folder: configuration, weights, tokenizer, and pooling where it is a sentence encoder."""
        from bertworks.tasks.task import FILE as TASK_FILE
        from bertworks.tasks.task import write_settings

        out = Path(folder)
        with new_folder(out, replace) as temporary:
            write_model(temporary, self.model, self.description)
            self.tokenizer.save(temporary)
            if (self.folder / TASK_FILE).is_file():
                write_settings(temporary, self.task)
            if self.sentence is not None:
                write_options(temporary, self.sentence, self.config.hidden_size)
        return out

    def _guesses(self, ids: list[int], at: int, scores: Tensor, top_k: int) -> list[Guess]:
        best = scores.topk(min(top_k, len(scores)))
        guesses = []
        for score, token in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            words = self.tokenizer.decode([token])
            # Other masks stay visible in the sequence; the frame of special tokens does not.
            frame = self.tokenizer.special_ids - {self.tokenizer.mask_id}
            whole = [id for id in [*ids[:at], token, *ids[at + 1 :]] if id not in frame or id == token]
            sequence = self.tokenizer.decode(whole, skip_specials=False)
            guesses.append(Guess(score, token, words, sequence))
        return guesses

    def _pooled(self, output: Output, lengths: list[int], how: str, unit: bool) -> NDArray[np.float32]:
        """[texts, width] from a batch's output."""
        if how != "pooler":
            vectors = pool(output.last, _real(lengths, output.last), how, unit)
        elif output.pooled is None:
            raise InputError(f"{self.folder} has no trained pooler", "pool by cls, mean or max")
        else:
            vectors = output.pooled.float()
            vectors = torch.nn.functional.normalize(vectors, dim=-1) if unit else vectors
        return cast("NDArray[np.float32]", vectors.cpu().numpy())

    def _tokens(self, items: Sequence[Text], max_length: int) -> list[Encoded]:
        """Ids for each text, cut to `max_length`; texts that are ids already are checked, not cut."""
        texts = cast("list[str | tuple[str, str]]", [item for item in items if not _is_ids(item)])
        done = iter(self.tokenizer.encode_batch(texts, max_length=max_length)) if texts else iter(())
        encoded = [_given(item, self.max_length) if _is_ids(item) else next(done) for item in items]  # type: ignore[arg-type]
        cut = sum(one.cut > 0 for one in encoded)
        if cut:
            tell(f"{cut:,} of {len(encoded):,} texts were longer than {max_length} tokens and were cut there")
        return encoded

    @torch.inference_mode()
    def _run(
        self,
        encoded: list[Encoded],
        keep: Callable[[list[int], Output], None],
        chosen_id: int | None = None,
        model: torch.nn.Module | None = None,
        **wants: bool,
    ) -> None:
        """Everything through the encoder (or the whole model), in batches of like length."""
        lengths = [len(one.ids) for one in encoded]
        for rows in by_tokens(lengths):
            batch = Batch.pad(
                [encoded[row].ids for row in rows],
                [encoded[row].segments for row in rows] if self.config.segments > 1 else None,
                self.config.pad_id or 0,
            ).to(self.device)
            extra: dict[str, Any] = dict(wants)
            if chosen_id is not None:
                extra["chosen"] = (batch.ids == chosen_id).flatten().nonzero().flatten()
            output = (model or self.model.encoder)(**batch.inputs(), **extra)
            self._check_finite(output)
            keep(rows, output)

    def _check_finite(self, output: Output) -> None:
        """Never hand out NaN: name the tensor it comes from."""
        if torch.isfinite(output.last.sum(dtype=torch.float32)) and all(
            torch.isfinite(scores.sum(dtype=torch.float32)) for scores in output.scores.values()
        ):
            return
        if torch.isfinite(output.last).all() and all(torch.isfinite(s).all() for s in output.scores.values()):
            return
        check_weights(self.model, self.description)
        raise WeightsError(
            f"{self.folder} gives values that are not finite in {self.dtype}, though its weights are",
            "use dtype fp32",
        )


def _as_list(texts: Any) -> tuple[bool, list[Any]]:
    """Whether many texts were given, and the texts as a list. A pair is one text; so is a list of ids."""
    if isinstance(texts, (str, tuple)) or _is_ids(texts):
        return False, [texts]
    if not isinstance(texts, Sequence):
        raise InputError(f"a text must be a string, not {type(texts).__name__}", "give a string or a list of strings")
    return True, list(texts)


def _is_ids(item: Any) -> bool:
    return isinstance(item, (list, np.ndarray)) and len(item) > 0 and isinstance(item[0], (int, np.integer))


def _given(ids: Sequence[int], max_length: int) -> Encoded:
    if len(ids) > max_length:
        raise InputError(f"{len(ids)} token ids are more than the model's {max_length}", "cut them, or use windows")
    count, plain = len(ids), [int(id) for id in ids]
    names = [str(id) for id in plain]
    return Encoded(plain, names, [(0, 0)] * count, [None] * count, [0] * count, [False] * count, 0)


def _prepared(item: Text, options: SentenceOptions) -> Text:
    if not isinstance(item, str):
        return item
    return options.prompt + (item.lower() if options.lowercase else item)


def _real(lengths: list[int], like: Tensor) -> Tensor:
    return torch.arange(like.shape[1], device=like.device) < torch.tensor(lengths, device=like.device)[:, None]


def _unpad(one: Encoded, output: Output, at: int) -> Vectors:
    size = len(one.ids)
    return Vectors(
        one.tokens,
        one.ids,
        one.offsets,
        output.last[at, :size].float().cpu(),
        None if output.pooled is None else output.pooled[at].float().cpu(),
        tuple(layer[at, :size].float().cpu() for layer in output.hidden),
        tuple(layer[at, :, :size, :size].float().cpu() for layer in output.maps),
    )


def _check_masks(text: str, mask: str, found: int, max_length: int) -> None:
    if found:
        return
    if mask in text:
        raise InputError(f"every {mask} stands past the model's {max_length} tokens", "shorten the text before it")
    raise InputError(f"there is no {mask} to fill in {text[:60]!r}", f"put {mask} where a word is missing")
