"""Optimizers whose learning rates are tensors, so that a captured CUDA graph can change them."""

import math
from inspect import unwrap
from itertools import cycle
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from ..nets.base import Net

Group = dict[str, Any]

NEVER_DECAYED = {"pos_embed", "cls_token"}


def parameter_groups(
    method: nn.Module, *, lr: float, weight_decay: float, layer_decay: float = 1.0
) -> list[Group]:
    """Sort the trainable parameters by learning rate and weight decay.

    The rate of a parameter of the net is lr · d^(head − layer) with d = `layer_decay` and the
    layers that `Net.depth_of` gives; parameters beside the net (extra heads) have the full rate.
    """
    net = cast(Net, method.net)
    groups: dict[tuple[int, bool], Group] = {}
    for name, parameter in method.named_parameters():
        if not parameter.requires_grad:
            continue
        above = 0  # layers between this one and the head
        if layer_decay != 1.0 and name.startswith("net."):
            layer, head = net.depth_of(name.removeprefix("net."))
            above = head - layer
        decayed = parameter.ndim > 1 and name.rpartition(".")[2] not in NEVER_DECAYED
        group = {
            "params": [],
            "base_lr": lr * layer_decay**above,
            "weight_decay": weight_decay if decayed else 0.0,
        }
        groups.setdefault((above, decayed), group)["params"].append(parameter)
    return [groups[key] for key in sorted(groups, reverse=True)]


def schedule(progress_step: Tensor, steps: int, warmup: int = 0) -> Tensor:
    """λ(t): linear from 0 over the warm-up, then cos(7π/16 · progress), which ends at 0.195."""
    t = progress_step.double()
    progress = (t - warmup) / max(steps - warmup, 1)
    cosine = torch.cos(7 / 16 * math.pi * progress).clamp(min=0)
    return torch.where(t < warmup, t / max(warmup, 1), cosine)


def build_optimizer(name: Literal["sgd", "adamw"], groups: list[Group]) -> Optimizer:
    """SGD with Nesterov momentum, or AdamW; fused, each group's `lr` a tensor on the device."""
    base = torch.tensor([group["base_lr"] for group in groups], dtype=torch.float64)
    base = base.to(groups[0]["params"][0].device)
    rates = base.float()
    groups = [dict(group, lr=rate) for group, rate in zip(groups, rates.unbind(), strict=True)]
    optimizer: Optimizer
    if name == "sgd":
        optimizer = PlainSGD(groups, momentum=0.9, nesterov=True, fused=True)
        # Torch would leave them uninitialised if the first step of all is one to be skipped.
        for parameter in (p for group in groups for p in group["params"]):
            optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    else:
        cuda = all(group["lr"].is_cuda for group in groups)
        optimizer = ParallelAdamW(groups, betas=(0.9, 0.999), eps=1e-8, fused=True, capturable=cuda)
        # The steps before the capture are meant; torch would warn about them.
        optimizer._warned_capturable_if_run_uncaptured = True
    vars(optimizer).update(rates=rates, base_rates=base)
    _keep_settings_on_load(optimizer)
    return optimizer


class Plain(Optimizer):
    """Bare of what hides an optimizer from torch's compiler: that loads it first, for seconds."""

    add_param_group = unwrap(Optimizer.add_param_group)
    load_state_dict = unwrap(Optimizer.load_state_dict)
    state_dict = unwrap(Optimizer.state_dict)
    zero_grad = unwrap(Optimizer.zero_grad)


class PlainSGD(Plain, SGD):
    """SGD as torch has it."""

    step = torch.no_grad()(unwrap(SGD.step))


class ParallelAdamW(Plain, AdamW):
    """AdamW that, in a captured step, updates its parameter groups on parallel streams.

    With layer decay each layer is a group, and one layer alone fills a fifth of a large GPU.
    """

    STREAMS = 6
    update = unwrap(AdamW.step)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update every group."""
        device = self.param_groups[0]["params"][0].device
        if device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
            self.update()
            return
        here, groups = torch.cuda.current_stream(), self.param_groups
        streams = [torch.cuda.Stream(device) for _ in range(self.STREAMS)]  # type: ignore[no-untyped-call]
        for stream in streams:
            stream.wait_stream(here)
        try:
            for stream, group in zip(cycle(streams), groups, strict=False):
                self.param_groups = [group]
                with torch.cuda.stream(stream):
                    self.update()
        finally:  # a run goes on after a capture that failed, and with all its groups
            self.param_groups = groups
            for stream in streams:
                here.wait_stream(stream)


def set_lr_(optimizer: Optimizer, multiplier: Tensor) -> None:
    """Write lr = base_lr · λ into every group, in place: their rates are parts of one tensor."""
    torch.mul(vars(optimizer)["base_rates"], multiplier, out=vars(optimizer)["rates"])


def _keep_settings_on_load(optimizer: Optimizer) -> None:
    """Let `load_state_dict` load the state alone, laid out in memory as the weights are.

    Torch would also replace the `lr` tensors, which a graph may have captured, and take over
    settings and layouts that belong to the device the state was saved on: weights are channels-last
    on a GPU, and the fused kernels go through weight and moment as these lie in memory.
    """
    own = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]

    def restore(loaded: Optimizer) -> None:
        for group, settings in zip(loaded.param_groups, own, strict=True):
            settings["lr"].copy_(torch.as_tensor(group["lr"]))
            group.update(settings)
        for parameter, state in loaded.state.items():
            for name, value in state.items():
                if value.shape == parameter.shape and value.stride() != parameter.stride():
                    state[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)

    optimizer.register_load_state_dict_post_hook(restore)
