"""Pre-training: a recipe, a store and a run folder made into a model, an objective and a loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertworks.config import Table, made, sections_of
from bertworks.errors import ConfigError, nearest, tell
from bertworks.heads.pair import Pair
from bertworks.heads.pool import Pooler
from bertworks.layers.cross_entropy import cross_entropy
from bertworks.layers.embeddings import give
from bertworks.layers.init import initialise
from bertworks.models import architecture, preset, preset_names
from bertworks.models.config import EncoderConfig
from bertworks.models.encoder import Model
from bertworks.models.folder import Description, describe, load_model
from bertworks.models.parts import Architecture
from bertworks.objectives.batches import IGNORED, Examples, Line, Place, TrainingBatch
from bertworks.objectives.draws import key
from bertworks.objectives.frequencies import unigram_entropy
from bertworks.objectives.mixture import Mixture
from bertworks.objectives.published import Objective, published
from bertworks.text.store import Store
from bertworks.text.tokenizer import Tokenizer
from bertworks.train.contract import Losses, Settings
from bertworks.train.options import BatchOptions, BudgetOptions, OptimizerOptions, RunOptions, ScheduleOptions
from bertworks.train.ranks import Ranks
from bertworks.weights.hub import locate
from bertworks.weights.matrix import read_matrix

from .vocabulary import fitted, rebuilt, with_vocabulary

SECTIONS = ("model", "objective", "batch", "optimizer", "schedule", "budget", "run")
EVALUATED = 64  # rows of a held-out batch
MOST_EVALUATED = 2048  # rows of a held-out look
PAIR_HEADS = ("sentence_order", "next_sentence")
BESIDE_FROM = ("vocabulary", "dropout", "attention_dropout")  # what may stand beside model.from
STORES = 210  # what a key is for: the draws of a mixture's stores


@dataclass(frozen=True)
class Recipe:
    """A recipe, checked section by section. `model` is what was written there; it is resolved against a store."""

    model: Table
    objective: Objective
    settings: Settings

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Recipe:
        sections = sections_of(table, SECTIONS)
        objective = dict(sections["objective"])
        base = published(objective.pop("preset")) if "preset" in objective else Objective()
        found = cls(
            sections["model"],
            made(Objective, asdict(base) | objective, "objective"),
            Settings(
                made(BatchOptions, sections["batch"], "batch"),
                made(OptimizerOptions, sections["optimizer"], "optimizer"),
                made(ScheduleOptions, sections["schedule"], "schedule"),
                made(BudgetOptions, sections["budget"], "budget"),
                made(RunOptions, sections["run"], "run"),
            ),
        )
        given = [name for name in ("preset", "architecture", "from") if name in found.model]
        if not given or {"from"} < set(given):
            raise ConfigError(
                "[model] says " + (" and ".join(given) if given else "nothing"),
                'give preset = "bert-mini", or architecture = "bert" and its sizes, or from = a model folder alone',
            )
        return found

    def resolved(self, config: EncoderConfig, family: str) -> Table:
        """The whole recipe with nothing left to defaults, as it is kept in the run."""
        model = {name: value for name, value in asdict(config).items() if name != "labels"}
        sections = {
            name: asdict(getattr(self.settings, name)) for name in ("batch", "optimizer", "schedule", "budget", "run")
        }
        return {
            "model": self.model if "from" in self.model else {"architecture": family} | model,
            "objective": asdict(self.objective),
            **sections,
        }


@dataclass(frozen=True)
class Made:
    """A model ready to train. `written`: the heads that a folder of Hugging Face's can hold."""

    model: Model
    description: Description
    pair_head: str | None
    written: tuple[str, ...]


def make_model(recipe: Recipe, store: Store) -> Made:
    """The model of a recipe: its vocabulary and padding are the store's."""
    if "from" in recipe.model:
        return _continued(recipe, store, recipe.objective.pair != "none")
    ready = built(recipe, *config_of(recipe, store.vocab_size, store.tokenizer.pad_id))
    model, config = ready.model, ready.description.config
    generator = torch.Generator().manual_seed(recipe.settings.run.seed)
    if recipe.settings.optimizer.embeddings:
        _give_embeddings(model, store, recipe.settings.optimizer, generator)
    initialise(model, config.init, config.init_std, generator)
    return ready


def config_of(recipe: Recipe, vocab_size: int | None, pad_id: int | None) -> tuple[Architecture, EncoderConfig]:
    """What a recipe's [model] comes to for a vocabulary, or without one for the family's own; nothing is built."""
    if "from" in recipe.model:
        description = describe(locate(str(recipe.model["from"])))
        return description.architecture, _going_on(recipe, description.config, vocab_size, pad_id)
    family, base = _base(recipe.model)
    rest = {name: value for name, value in recipe.model.items() if name not in ("preset", "architecture")}
    known = {field.name for field in fields(family.config)}
    for name in rest:
        if name not in known:
            raise ConfigError(
                f"there is no key model.{name}", nearest(name, known) or f"known: {', '.join(sorted(known))}"
            )
    vocabulary = {} if vocab_size is None else {"vocab_size": vocab_size, "pad_id": pad_id}
    config = made(family.config, asdict(base) | rest | vocabulary, "model")
    _check_length(config, recipe)
    return family, config


def built(recipe: Recipe, family: Architecture, config: EncoderConfig) -> Made:
    """The model with the heads that the objective wants, its weights not drawn yet."""
    pairs = recipe.objective.pair != "none"
    pair_head = next((name for name in PAIR_HEADS if name in family.heads), "next_sentence") if pairs else None
    own = pair_head is not None and pair_head in family.heads
    heads = ("masked_lm", pair_head) if own and pair_head else ("masked_lm",)
    model = family.build(config, heads, pooler=pairs)
    if pair_head and not own:
        model.heads[pair_head] = Pair(config.hidden_size)
        if model.encoder.pooler is None:
            model.encoder.pooler = Pooler(config.hidden_size)
    return Made(model, Description(family, config, None), pair_head, heads)


def _base(model: Table) -> tuple[Architecture, EncoderConfig]:
    if "preset" in model:
        found = preset(str(model["preset"]))
        if found is None:
            raise ConfigError(
                f"model.preset is {model['preset']!r}", nearest(str(model["preset"]), preset_names()) or "see `inspect`"
            )
        if model.get("architecture", found[0].name) != found[0].name:
            raise ConfigError(f"model.preset {model['preset']} is not of {model['architecture']}", "give one of them")
        return found
    family = architecture(str(model["architecture"]))
    return family, family.config()


def _give_embeddings(model: Model, store: Store, options: OptimizerOptions, generator: torch.Generator) -> None:
    """Token vectors from a file; those that it has not are drawn."""
    vocabulary = {text: at for at, text in enumerate(store.tokenizer.tokens) if text}
    rows, found = read_matrix(options.embeddings).for_vocabulary(vocabulary, generator=generator)
    width = model.encoder.embeddings.tokens.weight.shape[1]
    if rows.shape[1] != width:
        raise ConfigError(
            f"{options.embeddings} has vectors of {rows.shape[1]}, the model's are of {width}",
            f"set model.hidden_size={rows.shape[1]} (ALBERT: embedding_size), or take another file",
        )
    tell(f"{found:,} of {len(vocabulary):,} tokens have vectors in {options.embeddings}")
    give(model.encoder.embeddings.tokens, rows)


def _continued(recipe: Recipe, store: Store, pairs: bool) -> Made:
    """A trained model, to go on with on another corpus."""
    name = str(recipe.model["from"])
    folder = locate(name)
    family, config = config_of(recipe, store.vocab_size, store.tokenizer.pad_id)
    pair_head = next((one for one in PAIR_HEADS if one in family.heads), None) if pairs else None
    if pairs and pair_head is None:
        raise ConfigError(f"{name}: {family.name} has no head for objective.pair", 'set objective.pair="none"')
    own = Tokenizer.load(folder)
    strange = own.digest != store.digest
    if strange and "vocabulary" not in recipe.model:
        raise ConfigError(
            f"{store.folder} was prepared with another tokenizer than {name} has",
            f"prepare it again with --tokenizer {name}, or set model.vocabulary=store: the model is given the store's "
            "tokens, their vectors made of its own",
        )
    heads = ("masked_lm", pair_head) if pair_head else ("masked_lm",)
    generator = torch.Generator().manual_seed(recipe.settings.run.seed)
    model, description = load_model(folder, heads, dtype=torch.float32, generator=generator)
    if strange:
        model, description, told = with_vocabulary(model, description, own, store.tokenizer, generator)
        same, several, drawn = told
        tell(f"of {sum(told):,} tokens, {same:,} are one of {name}'s, {several:,} made of several, {drawn:,} drawn")
    config = description.config.but(dropout=config.dropout, attention_dropout=config.attention_dropout)
    if config != description.config:
        description = replace(description, config=config)
        model = rebuilt(model, description, model.state_dict())
    _check_length(config, recipe)
    return Made(model, description, pair_head, heads)


def _going_on(recipe: Recipe, config: EncoderConfig, vocab_size: int | None, pad_id: int | None) -> EncoderConfig:
    """A trained model's configuration with what may be changed of it."""
    given = {name: value for name, value in recipe.model.items() if name != "from"}
    for name in given:
        if name not in BESIDE_FROM:
            raise ConfigError(
                f"model.{name} stands beside model.from", f"of a trained model, {', '.join(BESIDE_FROM)} may be given"
            )
    if given.pop("vocabulary", "store") != "store":
        raise ConfigError(
            f"model.vocabulary is {recipe.model['vocabulary']!r}", 'it is "store", or not given: the model\'s own'
        )
    if vocab_size is not None and "vocabulary" in recipe.model:
        config = fitted(config, vocab_size, pad_id)
    return config.but(**given)


def _check_length(config: EncoderConfig, recipe: Recipe) -> None:
    length = recipe.settings.batch.length
    if length > config.max_length:
        raise ConfigError(
            f"batch.length is {length}, more than the {config.max_length} tokens that the model has positions for",
            f"set model.positions={config.positions + length - config.max_length}, or a shorter batch.length",
        )
    if recipe.objective.holds_pairs and config.segments == 1 and recipe.objective.pair != "none":
        raise ConfigError("objective.pair wants two segments, the model has one", "set model.segments=2")


def examples_of(recipe: Recipe, store: Store, say: Callable[[str], None], seed: int | None = None) -> Examples:
    """A store's line of examples; its draws are the run's where no other seed is given."""
    own = recipe.settings.run.seed if seed is None else seed
    return Examples(store, recipe.objective, recipe.settings.batch.length, seed=own, say=say)


def line_of(
    recipe: Recipe, stores: Sequence[Store], weights: Sequence[Fraction] | None, say: Callable[[str], None]
) -> Line:
    """The line of examples of a store, or of several; without weights each has as many as it gives."""
    if len(stores) == 1:
        return examples_of(recipe, stores[0], say)
    seed = recipe.settings.run.seed
    # The first store's draws are those that it has alone, so that what is kept of its layout serves here too.
    seeds = [seed, *(int(key(STORES, seed, number)) >> 1 for number in range(1, len(stores)))]
    members = [examples_of(recipe, store, say, one) for store, one in zip(stores, seeds, strict=True)]
    return Mixture(members, weights)


def plateau_of(stores: Sequence[Store], line: Line) -> float:
    """Nats of a model that knows token frequencies only: where the loss stays when nothing more is learnt."""
    return unigram_entropy(stores, line.shares() if isinstance(line, Mixture) else [1.0])


class PretrainingLoss:
    """Masked language modelling and, where there is one, the pair task: each a mean over the global batch, added."""

    def __init__(self, pair_head: str | None, segments: int, packed: bool) -> None:
        self.pair_head, self.segments, self.packed = pair_head, segments, packed

    def counts(self, batch: TrainingBatch) -> dict[str, int]:
        return {"chosen": int((batch.labels >= 0).sum()), "pairs": int((batch.answers >= 0).sum())}

    def __call__(self, module: nn.Module, batch: TrainingBatch, counts: Mapping[str, int], accuracy: bool) -> Losses:
        device = next(module.parameters()).device
        output = module(**self.inputs(batch, device))
        masked = output.scores["masked_lm"]
        labels = torch.from_numpy(batch.labels).to(device)
        total = cross_entropy(masked, labels, max(counts["chosen"], 1))
        facts = {"loss": float(total.detach())}
        if accuracy:
            facts["masked_accuracy"] = float((masked.argmax(-1) == labels).sum()) / max(counts["chosen"], 1)
        if self.pair_head:
            scores = output.scores[self.pair_head]
            answers = torch.from_numpy(batch.answers).to(device)
            pairs = _summed(scores, answers) / max(counts["pairs"], 1)
            total = total + pairs
            facts["pair_loss"] = float(pairs.detach())
            facts["pair_accuracy"] = float((scores.argmax(-1) == answers).sum()) / max(counts["pairs"], 1)
        return Losses(total, facts)

    def inputs(self, batch: TrainingBatch, device: torch.device) -> dict[str, Tensor]:
        """What the model is handed: rows of one sequence need no more than where their padding is."""
        sequences = torch.from_numpy(batch.sequences.astype("int32")).to(device)
        found = {
            "ids": torch.from_numpy(batch.ids).to(device),
            "chosen": torch.from_numpy(batch.chosen).to(device),
        }
        if self.packed:
            found["sequences"] = sequences
        elif not batch.sequences.all():  # without padding there is nothing to mask
            found["real"] = sequences > 0
        if self.segments > 1:
            found["segments"] = torch.from_numpy(batch.segments.astype("int32")).to(device)
        if self.pair_head:
            found["firsts"] = torch.from_numpy(batch.firsts).to(device)
        return found


def _summed(scores: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(scores.float(), labels, ignore_index=IGNORED, reduction="sum")


def put_together(recipe: Recipe, store: Store, weights: Mapping[str, Tensor]) -> Made:
    """The recipe's model with weights that had been shared out over several processes; those it keeps are as made."""
    ready = make_model(recipe, store)
    own = dict(ready.model.named_parameters())
    with torch.no_grad():
        for name, weight in weights.items():
            own[name].copy_(weight)
    return ready


def loss_of(recipe: Recipe, ready: Made) -> PretrainingLoss:
    return PretrainingLoss(ready.pair_head, ready.description.config.segments, recipe.objective.layout == "packed")


def evaluation(
    recipe: Recipe, store: Store, loss: PretrainingLoss, say: Callable[[str], None], ranks: Ranks | None = None
) -> Callable[[nn.Module], dict[str, float]]:
    """Held-out loss on masks that are the same at every look; each rank looks at its part of the rows."""
    fixed = replace(recipe.objective, masking="static", copies=1)
    examples = Examples(store, fixed, recipe.settings.batch.length, seed=0, say=say)
    rows = min(examples.count(0), MOST_EVALUATED)
    ranks = ranks or Ranks()

    def evaluate(module: nn.Module) -> dict[str, float]:
        names = ["loss", "masked_accuracy"] + (["pair_loss", "pair_accuracy"] if loss.pair_head else [])
        sums = dict.fromkeys([*names, "chosen", "pairs"], 0.0)
        steps = -(
            -rows // (EVALUATED * ranks.count)
        )  # as many on every rank: where weights are shared out, all compute
        for step in range(steps):
            at = (step * ranks.count + ranks.rank) * EVALUATED
            batch = examples.batch(Place(0, min(at, rows - 1)), max(1, min(EVALUATED, rows - at)))
            here = loss.counts(batch)
            losses = loss(module, batch, here, True)
            if at >= rows:
                continue
            for name, value in [*losses.facts.items(), ("chosen", 1.0), ("pairs", 1.0)]:
                sums[name] += value * here["pairs" if name.startswith("pair") else "chosen"]
        found = ranks.sums(sums)
        return {f"dev_{name}": found[name] / found["pairs" if name.startswith("pair") else "chosen"] for name in names}

    return evaluate
