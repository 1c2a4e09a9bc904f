"""From raw text to training examples: a tokenizer, a store, an objective put together freely, batches.

python examples/03_from_text_to_batches.py
"""

import tempfile
from pathlib import Path

from bertworks.objectives.batches import IGNORED, Examples, Place, feed
from bertworks.objectives.published import Objective
from bertworks.text.documents import Tally, documents
from bertworks.text.preparing import Plan, prepare
from bertworks.text.training import train

LINES = ["The river runs past the old stone bridge.", "使用语言模型来预测下一个词。", "Where does the river begin?"]

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "corpus.txt").write_text("\n\n".join("\n".join(LINES) for _ in range(50)), encoding="utf8")
    texts = (one.text for one in documents([str(folder / "corpus.txt")], "auto", "text", Tally()))
    train(texts, "wordpiece", 150).save(folder / "tokenizer")
    store = prepare(Plan((str(folder / "corpus.txt"),), folder / "tokenizer"), folder / "store")
    print(f"{store.documents} documents, {store.sentences} sentences, {store.tokens:,} tokens")

    # Nobody published this: whole Chinese words and spans of English ones, several sentence-order pairs to a row.
    objective = Objective(layout="packed", pair="sentence-order", select="spans", rate=0.2, masking="dynamic")
    examples = Examples(store, objective, length=64, seed=1, say=print)
    for batch, place in feed(examples, Place(), rows=4):
        asked = batch.labels != IGNORED
        print(f"ids {batch.ids.shape}, {asked.sum()} chosen, {(batch.answers != IGNORED).sum()} pairs; then {place}")
        if place.epoch == 1:
            break

    # A place is two integers: a run that stopped there goes on with the very batch that would have come.
    again = examples.batch(place, 4)
    print("first row of the next batch:", store.tokenizer.decode(again.ids[0].tolist())[:60])
