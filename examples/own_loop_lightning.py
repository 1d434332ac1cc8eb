"""A method in a Lightning module; any net, any method.

    module = SSLModule("fixmatch", net, images[:2], labels=y, unlabelled=len(pool), steps=1000)
    loaders = CombinedLoader({"x": labelled, "u": unlabelled}, "max_size_cycle")
    Trainer(max_steps=1000).fit(module, loaders)

The loaders yield (views, labels, ids) and (views, ids), where `views` is a list with an entry for
each of `module.ssl.views.x` and `.u`.
"""

from __future__ import annotations

from typing import Any

import torch
from lightning import LightningModule
from torch import Tensor, nn

import tamatch


class SSLModule(LightningModule):
    def __init__(
        self, method: str, net: nn.Module, example: Any, lr: float = 1e-3, **task_and_options: Any
    ) -> None:
        super().__init__()
        self.ssl = tamatch.SSLLoss(method, net, example, **task_and_options)
        self.lr = lr

    def training_step(self, batch: dict[str, Any], batch_idx: int) -> Tensor:
        (x, y, id_x), (u, id_u) = batch["x"], batch["u"]
        loss = self.ssl(x, y, u, id_x=id_x, id_u=id_u)
        self.log_dict({k: v for k, v in self.ssl.parts.items() if v.ndim == 0})
        return loss

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        super().optimizer_step(*args, **kwargs)
        self.ssl.after_step()  # here, so that accumulated gradients count as one step

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        inputs, y = batch
        self.log("accuracy", (self.ssl.logits(inputs).argmax(-1) == y).float().mean())

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.ssl.parameters(), self.lr)
