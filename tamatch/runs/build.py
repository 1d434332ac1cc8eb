"""From names to objects: the net, the method, the optimizer and the engine of a run."""

import copy
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from .. import methods, nets
from ..augment import Augment, Policy
from ..augment.views import LARGEST, QUICK, VIEWS
from ..data import DataSet, Split, shares
from ..data.cache import cache_folder
from ..errors import DataError, UsageError
from ..machine.gpu import rehearsing, why_no_nvrtc, why_no_triton
from ..machine.memory import OutOfMemory, detecting_out_of_memory
from ..methods.base import Head, Method
from ..model.model import Model
from ..modules import Shifted, make_buffers_contiguous, restoring, unshifted
from ..nets.base import Net, set_momentum, share_norms
from ..nets.features import FrozenNet
from ..nets.foreign import dry_run_net
from ..nets.pretrained import locate
from ..nets.weights import load_weights, zero_head
from ..own.method import check_built, check_constructor, try_method
from ..own.usercode import blaming
from ..pseudo.account import find_module
from ..settings.config import Run, in_order, target_follows
from ..settings.hardware import pick_device, pick_images, pick_precision, set_up_torch
from ..stats import Ema, Status, log_shares
from ..step import optim
from ..step.engine import Engine, Pace
from ..step.source import Draw, Resident, Source, Streamed, stream_key
from ..types import Task

COMPILED_RUNS = 1024  # kept side by side; with torch's default of 8, the ninth is not compiled
LONG = 100_000  # steps that repay compiling a method: some 15 s once, for 0.15 ms of each step
CACHE_FOLDERS = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}

Say = Callable[[str], None]
SEEDS = {"init": 1, "steps": 2, "views": 3, "batches": 4}  # independent streams of one seed


@dataclass(frozen=True)
class Start:
    """Where a tuned net begins: the solved last layer, and what it says of the pool."""

    head: Tensor  # (C, D + 1)
    p_model: Tensor  # (C,) mean prediction
    shares: Tensor  # (C,) of the pool

    def begin(self, method: Method, run: Run) -> None:
        """Let a method's learning status begin there, and so a target that follows it.

        p_model of what was generated is an estimate of the shares. A second head, which learns
        from frequent classes more than from rare ones, begins with that preference.
        """
        status = find_module(method, Status)
        if status is not None and isinstance(status.model, Ema):
            generated = status.of == "generated"
            status.model.value.copy_(self.shares if generated else self.p_model)
            if target_follows(run):
                status.target.value.copy_(self.shares)
        if (second := find_module(method, Head)) is not None:
            with torch.no_grad():
                second.weight.copy_(self.head[:, :-1])
                second.bias.copy_(self.head[:, -1] + log_shares(self.shares))


def silent(text: str) -> None:
    """Says nothing."""


def engine_of(
    run: Run, data: DataSet, split: Split, say: Say = silent, start: Start | None = None
) -> Engine:
    """An engine at step 0, on the device the run asks for; a tuned net begins at its `start`.

    `say` is told about loaded weights, and about images that are not kept on the device.
    """
    device, autocast = set_up_machine(run)
    with seeded(run):
        net = net_of(run, data, say)
        if start is not None:
            cast(FrozenNet, net).set_head(start.head)
        method = method_of(run, net, task_of(run, data, split), device)
    if start is not None:
        if isinstance(method.final, Shifted):
            raise UsageError(
                f"--method {run.method} shifts logits at test time, which the last layer of a "
                f"tuned net does not fit: it is solved anew at the end. Use --net "
                f"{nets.body_of(run.net)}, or leave the shift out."
            )
        start.begin(method, run)
    policy = Policy(
        data.size, data.mean, data.std,
        horizontal_flip=run.flips != "none", vertical_flip=run.flips == "both",
    )  # fmt: skip
    source = source_of(run, data, split, draw_of(run, method), device, say)
    seed, largest = stream_key(run.seed, SEEDS["views"]), LARGEST if run.compile else QUICK
    views = Augment(policy, seed, kernels=run.kernels, largest=largest).to(device)
    engine = assemble(run, method, source, views, autocast, say)
    if nets.is_user_code(run.net):
        with engine.precision():
            dry_run_net(net, run.net, data.size, device)
    return try_and_accelerate(run, engine, say)


def set_up_machine(run: Run) -> tuple[torch.device, torch.dtype | None]:
    """Set torch's threads and switches for a run; its device and autocast type."""
    device = pick_device(run.device)
    if run.threads is not None:
        torch.set_num_threads(run.threads)
    return device, set_up_torch(pick_precision(run, device), deterministic=run.deterministic)


@contextmanager
def seeded(run: Run) -> Iterator[None]:
    """Seed torch's generator in here, and restore the user's state of it afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream_key(run.seed, SEEDS["init"]) >> 1)
        yield


def net_of(run: Run, data: DataSet, say: Say) -> Net:
    """The net with the weights that it starts from: of a file, of another run, or random ones."""
    net = nets.build(run.net, len(data.classes), data.size)
    if run.weights is not None:
        found = locate(run.weights)
        if found.origin:
            say(f"Weights {found.origin}")
        say(str(load_weights(net, found.path)))
    if run.head == "zero":
        zero_head(net)
    if run.from_ is not None and not nets.is_tuned(run.net):
        load_from_run(Path(run.from_), net, run, data)
        say(f"Starting from the weights of {run.from_}.")
    return net


def method_of(run: Run, net: Net, task: Task, device: torch.device) -> Method:
    """The method around its net, both on the device."""
    own, what = methods.is_user_code(run.method), f"--method {run.method}"
    cls, tensors = methods.get(run.method), net.state_dict().keys()
    if own:
        check_constructor(cls, what)
    fewer = f"{run.method} needs more with these options; use smaller ones, or a smaller --batch"
    with blaming(what, "building it") if own else nullcontext(), detecting_out_of_memory(fewer):
        method = constructed(cls, net, task, {"ema": run.ema, **run.options}, what)
    if own:
        check_built(method, what, tensors, VIEWS)
        make_buffers_contiguous(method)
    if run.norm_momentum is not None:
        set_momentum(method, run.norm_momentum)
    share_norms(method)
    method.to(device)
    if device.type == "cuda" and net.channels_last:
        method.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return method


def constructed(
    cls: type[Method], net: Net, task: Task, options: dict[str, Any], what: str
) -> Method:
    """The method; a clear error if a class passes on a keyword twice."""
    try:
        return cls(net, task, **options)
    except TypeError as error:
        twice = re.search(r"multiple values for keyword argument '(\w+)'", str(error))
        if twice is None:
            raise
        name = twice[1]
        raise UsageError(
            f"{what}: {cls.__name__} or a parent fixes {name} and also passes on a {name} that it "
            f"was given. A class that fixes what its parent leaves open names it: add `{name}=…` "
            "after the `*` of its __init__, and pass that on."
        ) from error


def draw_of(run: Run, method: Method) -> Draw:
    """How a step's images are drawn."""
    seed = stream_key(run.seed, SEEDS["batches"])
    return Draw(run.batch, run.unlabelled, seed, bool(method.views.u), run.replacement)


def assemble(
    run: Run,
    method: Method,
    source: Source,
    views: Augment,
    autocast: torch.dtype | None,
    say: Say = silent,
) -> Engine:
    """The engine that trains a method on the views of the source's images."""
    net, cuda = cast(Net, method.net), source.device.type == "cuda"
    groups = optim.parameter_groups(
        method, lr=run.lr, weight_decay=run.weight_decay, layer_decay=run.layer_decay
    )
    if run.graph and cuda and net.sync_point is not None:
        say(f"The net waits for the GPU ({net.sync_point}), so its steps run without a CUDA graph.")
    return Engine(
        method,
        optim.build_optimizer(run.optimizer, groups),
        source,
        views,
        Pace(run.steps, run.warmup, stream_key(run.seed, SEEDS["steps"])),
        autocast=autocast,
        graph=run.graph and cuda and net.sync_point is None,
    )


def method_again(run: Run, engine: Engine) -> Method:
    """The method of an engine made anew, around a copy of its net."""
    with seeded(run):
        net = cast(Net, copy.deepcopy(engine.method.net))
        return method_of(run, net, engine.method.task, engine.device)


def try_and_accelerate(run: Run, engine: Engine, say: Say = silent) -> Engine:
    """The same engine, accelerated; a user's own method is tried on one batch first."""
    if methods.is_user_code(run.method):
        place = try_method(engine, f"--method {run.method}", lambda: method_again(run, engine))
        if run.graph and place is not None:
            say(f"The method waits for the device ({place}), so on a GPU its steps run without a "
                "CUDA graph, which is slower.")  # fmt: skip
            engine.use_graph = False
    if engine.device.type == "cuda":
        keep_compiled()
        if run.compile:
            net = cast(Net, engine.method.net)
            accelerate(net, engine.method, run.steps, say, kernels=run.kernels)
        if why_no_triton() is None:
            rehearse(engine)
    return engine


def accelerate(
    net: Net, method: Method, steps: int, say: Callable[[str], None], *, kernels: bool = True
) -> None:
    """Compile the net and the method if the run is long enough to repay it."""
    why = why_no_triton()
    so = "Steps are not compiled and take longer. --no-compile silences this message."
    if why is None:
        net.accelerate(compiling=steps >= net.repaid, kernels=kernels)
        if steps >= LONG:
            method.accelerate()
        why = why_no_nvrtc() if net.has_cuda_code else None
        so = (
            "Steps take about a fifth longer. pip install cuda-bindings nvidia-cuda-nvrtc may help."
        )
    if why is not None:
        say(f"{why}. {so}")


def keep_compiled() -> None:
    """Keep compiled kernels in the cache folder, unless the user's environment says where.

    On another machine with the same GPU and versions, a copy of the folder saves the compiling.
    """
    import torch._dynamo

    torch._dynamo.config.recompile_limit = COMPILED_RUNS
    try:
        folder = cache_folder() / "compiled"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, DataError):
        return  # then they are where torch puts them
    for variable, name in CACHE_FOLDERS.items():
        os.environ.setdefault(variable, str(folder / name))


def rehearse(engine: Engine) -> None:
    """Compile the package's kernels that a step needs in parallel; no state changes."""
    net = cast(Net, engine.method.net)
    devices = [] if engine.stream is None else [engine.device]
    with (
        suppress(OutOfMemory), detecting_out_of_memory(), torch.random.fork_rng(devices),
        engine.on_stream(), rehearsing(),
    ):  # fmt: skip
        engine.source.prepare(engine.steps_done)
        batch = engine.batch(engine.device_step)
        if net.rehearsable:
            with restoring(net):  # cuDNN's search stays on: torch would keep a choice made without
                with engine.precision():
                    out = net(torch.cat([*batch.x, *batch.u]))
                out.logits.sum().backward()
    engine.optimizer.zero_grad()


def load_from_run(path: Path, net: nn.Module, run: Run, data: DataSet) -> None:
    """Put the model of a finished run, its head included, into a net for the same classes."""
    before = Model.load(path / "model", run.net if nets.is_user_code(run.net) else None)
    if before.facts.classes != data.classes:
        raise DataError(
            f"--from {path}: that run has the classes {', '.join(before.facts.classes)}; "
            f"{data.name} has {', '.join(data.classes)}. Train without --from."
        )
    try:
        net.load_state_dict(unshifted(before.net).state_dict())
    except RuntimeError:
        raise UsageError(
            f"--from {path}: its net is {before.facts.net} at {before.facts.size} pixels, which "
            f"does not match {run.net} at {data.size}. Leave out --net and --size."
        ) from None


def source_of(
    run: Run, data: DataSet, split: Split, draw: Draw, device: torch.device, say: Say
) -> Source:
    """The images of the run, on the device if all that it reads has room there."""
    if draw.reads_pool and not len(split.unlabelled):
        raise DataError(
            f"{data.name} has no unlabelled images, but {run.method} needs them. Add some, include "
            "the labelled images in the pool (--labelled-in-pool yes), or use --method supervised."
        )
    images = len(split.labelled) + len(split.validation) + len(split.test)
    pixels = 3 * data.size**2 * (images + draw.reads_pool * len(split.unlabelled))
    with detecting_out_of_memory():
        if pick_images(run, pixels, device) == "device":
            return Resident(data, split, draw, device)
        say(f"Streaming {pixels / 2**20:,.1f} MiB of images to {device} (--images {run.images}).")
        return Streamed(data, split, draw, device)


def task_of(run: Run, data: DataSet, split: Split) -> Task:
    return Task(
        classes=len(data.classes),
        labelled=len(split.labelled),
        unlabelled=len(split.unlabelled),
        labelled_shares=shares(data.labels[split.labelled], len(data.classes)),
        prior=None if run.prior is None else in_order(run.prior, data.classes, data.name),
        steps=run.steps,
        batch_labelled=run.batch,
        batch_unlabelled=run.unlabelled,
    )
