"""Semi-supervised text classification: a Hugging Face model with the batches of its tokeniser.

Without the package `transformers`, a small encoder with the same interface takes its place.

python examples/own_loop_text.py fixmatch
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

import tamatch

PAD, MASK, WORDS = 0, 1, 200  # the first numbers of a vocabulary
Tokens = dict[str, Tensor]


class TinyEncoder(nn.Module):
    """Called like `BertForSequenceClassification`, and returns a record with logits as it does."""

    def __init__(self, classes: int, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=PAD)
        self.layer = nn.Linear(width, width)
        self.classifier = nn.Linear(width, classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Any:
        kept = attention_mask[..., None]
        mean = (self.words(input_ids) * kept).sum(1) / kept.sum(1)
        return SimpleNamespace(logits=self.classifier(self.layer(mean).relu()))


def model(classes: int) -> nn.Module:
    """A small BERT with random weights; `from_pretrained` takes the place of the configuration."""
    try:
        from transformers import BertConfig, BertForSequenceClassification
    except ImportError:
        return TinyEncoder(classes)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=WORDS, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=64, num_labels=classes,
        )
    )  # fmt: skip


def padded(texts: list[Tensor]) -> Tokens:
    """As a tokeniser returns a batch with padding=True: as long as its longest text."""
    ids = nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=PAD)
    return {"input_ids": ids, "attention_mask": (ids != PAD).long()}


def weak(texts: list[Tensor]) -> Tokens:
    """The texts themselves."""
    return padded(texts)


def strong(texts: list[Tensor]) -> Tokens:
    """A third of the words masked. With a translator at hand, a text translated and back."""
    return padded([torch.where(torch.rand(len(t)) < 0.3, MASK, t) for t in texts])


def made_texts(count: int, classes: int = 4) -> tuple[list[Tensor], Tensor]:
    """Texts of 10 to 20 words: half of them from the class's own words, the rest from all."""
    y = torch.randint(classes, (count,))
    own, texts = (WORDS - 2) // classes, []
    for c in y.tolist():
        length = int(torch.randint(10, 21, ()))
        common = torch.randint(2, WORDS, (length,))
        topical = torch.randint(2 + c * own, 2 + (c + 1) * own, (length,))
        texts.append(torch.where(torch.rand(length) < 0.5, topical, common))
    return texts, y


def train(method: str, steps: int = 300, batch: int = 16) -> float:
    """Train on 40 labelled texts and 2,000 without a label; the accuracy on others."""
    (texts, y), (pool, _), (test, truth) = made_texts(40), made_texts(2000), made_texts(500)
    views = {"weak": weak, "strong": strong}
    ssl = tamatch.SSLLoss(
        method, model(4), padded(texts[:2]), labels=y, unlabelled=len(pool), steps=steps,
        batch=(batch, 4 * batch), ema=0.99,
    )  # fmt: skip
    optimizer = torch.optim.AdamW(ssl.parameters(), 1e-2)
    for _ in range(steps):
        i, j = torch.randint(len(texts), (batch,)), torch.randint(len(pool), (4 * batch,))
        x = [views[name]([texts[n] for n in i]) for name in ssl.views.x]
        u = [views[name]([pool[n] for n in j]) for name in ssl.views.u]
        loss = ssl(x, y[i], u, id_x=i, id_u=j)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ssl.after_step()
    return float((ssl.logits(padded(test)).argmax(-1) == truth).float().mean())


if __name__ == "__main__":
    torch.manual_seed(0)
    method = sys.argv[1] if len(sys.argv) > 1 else "fixmatch"
    print(f"{method}: accuracy {100 * train(method):.1f} %")
