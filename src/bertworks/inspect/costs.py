"""Arithmetic and memory, reckoned from a configuration.

Arithmetic counts matrix products alone (two operations for each multiply-add); norms, softmax and activations add
a few per cent of time and are left out. A window spares none of the products: what a local layer may not see is masked.
The backward pass costs twice the forward. The masked-LM head is counted on the masked 15 % of positions, where alone it
need run.
"""

from __future__ import annotations

from bertworks.models.config import EncoderConfig

from .parameters import embedding_size, gated, steps

MASKED = 0.15
# Weight, gradient and AdamW's two moments in fp32; bf16 training keeps bf16 weights and gradients under fp32 masters.
TRAINING_BYTES = {"fp32": 4 + 4 + 8, "bf16": 2 + 2 + 4 + 8}


def flops_per_token(config: EncoderConfig, length: int) -> dict[str, int]:
    """Operations for one token of a text of `length` tokens."""
    width, inner, size = config.hidden_size, config.intermediate_size, embedding_size(config)
    linear = 2 * (4 * width * width + (3 if gated(config) else 2) * width * inner)
    attention = 2 * 2 * length * width
    projection = 2 * size * width if size != width else 0
    forward = steps(config) * (linear + attention) + projection
    head = round(MASKED * 2 * (width * size + size * config.vocab_size))
    return {
        "length": length,
        "forward": forward,
        "backward": 2 * forward,
        "masked_lm_head": head,
        "pretraining_step": 3 * (forward + head),
    }


def memory_bytes(config: EncoderConfig, parameters: int, length: int, rows: int = 1) -> dict[str, int]:
    """Bytes to run and to train `rows` texts of `length` tokens, the allocator's own overhead apart."""
    tokens = rows * length
    width, inner = config.hidden_size, config.intermediate_size
    # One layer's live tensors while running; all layers' saved ones while training.
    inside = inner * (4 if gated(config) else 2)
    running = tokens * (5 * width + inside)
    saved = tokens * steps(config) * saved_per_token(width, inside)
    return {
        "length": length,
        "rows": rows,
        "weights_fp32": 4 * parameters,
        "weights_bf16": 2 * parameters,
        "run_fp32": 4 * (parameters + running),
        "run_bf16": 2 * (parameters + running),
        "train_fp32": TRAINING_BYTES["fp32"] * parameters + 4 * saved,
        "train_bf16": TRAINING_BYTES["bf16"] * parameters + 2 * saved,
    }


def saved_per_token(width: int, inside: int) -> int:
    """Numbers that one layer keeps for its backward pass, for each token: the input, q, k and v, what attention
    read, the two sums before the norms, the norm between, and the feed-forward's inside before and after its bend (with
    a gate also the gate, and their product).
    """
    return (1 + 3 + 1 + 2 + 1) * width + inside
