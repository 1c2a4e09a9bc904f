"""bertworks import CHECKPOINT --out DIR"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from bertworks.commands.reporting import PICKLE_OPTION, Report, verb


@click.command(name="import")
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="The folder to write.")
@click.option("--replace", is_flag=True, help="Write over a folder that is there already.")
@PICKLE_OPTION
@verb
def command(report: Report, checkpoint: Path, out: Path, replace: bool, allow_pickle: bool) -> None:
    """Bring an older CHECKPOINT into the Hugging Face layout.

    Known are TensorFlow 1 checkpoints of Google's BERT and ALBERT releases and their kin (a folder, a prefix such as
    bert_model.ckpt, or the .zip or .tar.gz they came in), early ALBERT ports, and folders whose weights are a
    pytorch_model.bin (with --allow-pickle; weights only, no code is run). TensorFlow is not needed.

    \b
    bertworks import chinese_L-12_H-768_A-12.zip --out bert-base-chinese
    """
    import json

    import numpy as np
    import torch

    from bertworks.folders import new_folder
    from bertworks.models.folder import load_model
    from bertworks.text.tokenizer import Tokenizer
    from bertworks.weights.files import write_tensors
    from bertworks.weights.legacy import read_legacy

    old = read_legacy(checkpoint, allow_pickle=allow_pickle)
    tensors = {
        name: torch.from_numpy(np.ascontiguousarray(tensor)) if isinstance(tensor, np.ndarray) else tensor
        for name, tensor in old.tensors.items()
    }
    with new_folder(out, replace) as folder:
        (folder / "config.json").write_text(
            json.dumps(old.config, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf8"
        )
        write_tensors(folder, tensors)
        for name, content in old.tokenizer_files.items():
            (folder / name).write_bytes(content)
        if old.tokenizer_files:
            Tokenizer.load(folder).save(folder)
        # What does not load whole is not written: the temporary folder goes with the error.
        model, description = load_model(folder)
    for note in old.notes:
        report.remark(f"note: {note}")
    result: dict[str, Any] = {
        "out": str(out),
        "architecture": description.architecture.name,
        "class": old.config["architectures"][0],
        "heads": list(model.heads),
        "tensors": len(tensors),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "tokenizer": bool(old.tokenizer_files),
        "notes": old.notes,
    }
    report.result(
        result,
        lambda: (
            f"{out}: {result['class']}, {result['parameters']:,} parameters in {result['tensors']} tensors"
            + ("" if result["tokenizer"] else "; no tokenizer was found beside the checkpoint")
        ),
    )
