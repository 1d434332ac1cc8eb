"""The whole configuration of a run: one flat record, validated in one place."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml

from .. import nets
from ..errors import UsageError
from ..kinds import AT_LEAST_ONE, AT_LEAST_ZERO, FRACTION, POSITIVE, SHARE, Between
from ..machine import launch
from ..methods import entry, get, register
from ..rules import recipes
from ..storage.events import check_installed
from ..storage.folder import RunFolder
from ..storage.untrusted import parse_yaml
from .options import Option, of_class, of_dataclass, unannotated, unknown
from .target import read_target, shares


@dataclass(frozen=True, kw_only=True)
class Run:
    """All that decides a run's result. What has no default here, the data set's recipe decides."""

    data: Annotated[str, "data set by name, or a folder of images"] = "digits"
    root: Annotated[str, "folder that holds a named data set"] | None = None
    labels: Annotated[str, "table of labels that adds to the folder's own"] | None = None
    size: (
        Annotated[int, Between(8, 512), "side of the images in pixels; chosen for your own"] | None
    ) = None
    normalise: Annotated[
        Literal["own", "half", "imagenet"], "colours by their own spread, in -1 to 1, or ImageNet's"
    ] = "own"
    method: Annotated[str, "method by name, or FILE.py:CLASS"] = "tamatch"
    net: Annotated[str, "net by name, or FILE.py:NAME; `tamatch nets` lists them"]
    weights: Annotated[str, "file of pre-trained weights to start from"] | None = None
    head: Annotated[Literal["random", "zero"], "how the last layer begins"] = "random"
    from_: Annotated[str, "run to start from: its weights, and its settings"] | None = None
    seed: Annotated[int, Between(0, 2**32 - 1), "seed of the split, the start and every draw"] = 0

    labels_per_class: Annotated[int, AT_LEAST_ONE, "labelled images of each class"] | None = None
    head_labelled: Annotated[int, AT_LEAST_ONE, "labelled ones of the largest class"] | None = None
    head_unlabelled: Annotated[int, AT_LEAST_ONE, "the same, unlabelled"] | None = None
    gamma: Annotated[float, "largest class over smallest; negative: reversed"] = 1.0
    gamma_unlabelled: Annotated[float, "the same for the unlabelled pool"] | None = None
    validation_per_class: Annotated[int, AT_LEAST_ZERO, "labelled ones held out of each class"] = 0
    fold: Annotated[str, "K/N: hold the K-th of N parts of the labels out"] | None = None
    labelled_in_pool: Annotated[
        Literal["yes", "no"], "are the labelled images in the unlabelled pool too?"
    ]
    prior: (
        Annotated[tuple[float, ...], "known class shares of the pool, or NAME=SHARE of each class"]
        | dict[str, float]
        | None
    ) = None

    steps: Annotated[int, AT_LEAST_ONE, "training steps"]
    warmup: Annotated[int, AT_LEAST_ZERO, "steps over which the learning rate grows"]
    batch: Annotated[int, AT_LEAST_ONE, "labelled images a step"]
    unlabelled: Annotated[int, AT_LEAST_ONE, "unlabelled images a step"]
    replacement: Annotated[bool, "draw images with replacement, not in passes over all"] = False
    optimizer: Annotated[Literal["sgd", "adamw"], "optimizer"]
    lr: Annotated[float, POSITIVE, "learning rate"]
    weight_decay: Annotated[float, AT_LEAST_ZERO, "weight decay"]
    layer_decay: Annotated[float, Between(0, 1, open_low=True), "learning rate factor per layer"]
    ema: Annotated[float, SHARE, "momentum of the averaged weights; 0 for none"]
    norm_momentum: (
        Annotated[float, FRACTION, "weight of a batch in BatchNorm's statistics; the net has one"]
        | None
    ) = None

    log_every: Annotated[int, AT_LEAST_ONE, "steps between two log lines"]
    test_every: Annotated[int, AT_LEAST_ONE, "steps between two tests"]
    save_every: Annotated[int, AT_LEAST_ONE, "steps between two checkpoints"]

    baseline: Annotated[Literal["supervised", "none"], "also train this on the same labels"]
    device: Annotated[str, "auto, cpu, cuda or cuda:N"] = "auto"
    images: Annotated[
        Literal["auto", "device", "stream"], "where the images live; the results are the same"
    ] = "auto"
    threads: Annotated[int, AT_LEAST_ONE, "CPU threads; more change the last bits"] | None = None
    precision: Annotated[Literal["auto", "fp32", "tf32", "bf16"], "arithmetic"] = "auto"
    deterministic: Annotated[bool, "the same bits in every run (CUDA); slower"] = False
    compile: Annotated[bool, "compile the net or use kernels of our own (CUDA)"] = True
    graph: Annotated[bool, "capture the step in a CUDA graph"] = True
    tensorboard: Annotated[bool, "also write event files for TensorBoard"] = False

    options: dict[str, Any] = field(default_factory=dict)  # the method's own

    def flat(self) -> dict[str, Any]:
        """Every setting by its option's name, the method's own among them."""
        mine = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {**{k: v for k, v in mine.items() if k != "options"}, **self.options}


RUN_OPTIONS: dict[str, Option] = of_dataclass(Run)


def method_options(method: str) -> dict[str, Option]:
    """The options a method has of its own, with the defaults its table row fixes."""
    fixed = entry(method).options
    own = {k: o for k, o in of_class(get(method)).items() if k not in RUN_OPTIONS}
    return {
        k: dataclasses.replace(o, default=fixed[k]) if k in fixed else o for k, o in own.items()
    }


def configure(
    given: Mapping[str, Any],
    config_file: Path | None = None,
    chosen: Mapping[str, Any] | None = None,
) -> Run:
    """A complete, valid `Run` from what the user gave; `given` wins over the file.

    What neither gives is that of the run it starts `from_`, if there is one, and then what was
    `chosen` for the data and the machine.
    """
    return resolve({**(chosen or {}), **stated(given, config_file, taken=True)})


def stated(
    given: Mapping[str, Any], config_file: Path | None = None, *, taken: bool = False
) -> dict[str, Any]:
    """All that the user says, here or in the file; with `taken`, also by the run to start from."""
    values = {**(read_config(config_file) if config_file else {}), **given}
    if "from" in values:
        values["from_"] = values.pop("from")
    return {**taken_over(values), **values} if taken else values


def taken_over(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of the run to start from; the options of another method are not among them."""
    place = RUN_OPTIONS["from_"].parse(values.get("from_"))
    if place is None:
        return {}
    config = RunFolder(Path(place)).read()["config"]
    own = config.pop("options", {})
    if values.get("method", config.get("method")) == config.get("method"):
        config |= own
    if "net" not in values and nets.is_own(str(config.get("net"))):
        raise UsageError(
            f"--from {place}: its net is code of your own ({config['net']}), which is "
            "not run unasked. Name it: --net FILE.py:NAME."
        )
    return {k: v for k, v in config.items() if v is not None and k not in ("from_", "weights")}


def resolve(values: dict[str, Any]) -> Run:
    """A complete, valid `Run`.

    Names are those of the options; values may be texts. Everything that is not there comes from
    the recipe of the data set and, for the method's own options, from its signature.
    """
    values = by_name(values)
    run_values = {k: RUN_OPTIONS[k].parse(v) for k, v in values.items() if k in RUN_OPTIONS}
    method = run_values.get("method", Run.method)
    entry(method)  # a wrong name is the first thing to say, before torch is imported
    data = run_values.get("data", Run.data)
    recipe = recipes.defaults(data, method, named="method" in run_values)
    known = {k: v for k, v in run_values.items() if v is not None}
    filled = {**without_rivals(recipe.run, known), **known}

    allowed = method_options(method)
    own = {k: v for k, v in values.items() if k not in RUN_OPTIONS}
    for name in own:
        if name not in allowed:
            options = {**RUN_OPTIONS, **allowed}
            raise unannotated(name, get(method), method) or unknown(name, options, method)
    if "target" in allowed and "target" in own:
        own["target"], prior = read_target(str(own["target"]))
        filled["prior"] = prior or filled.get("prior")
    chosen = {
        **{k: o.default for k, o in allowed.items()},
        **recipe.options,
        **entry(method).options,
    }
    chosen.update({k: allowed[k].parse(v) for k, v in own.items()})
    check_together(filled)
    if filled.get("prior") is not None:
        filled["prior"] = shares(filled["prior"], "--prior")
    run = Run(**filled, options={k: chosen[k] for k in allowed})
    check_processes(run)
    return run


def by_name(values: dict[str, Any]) -> dict[str, Any]:
    """The same with a method or net that is no text under its name; data must have one."""
    if not isinstance(values.get("data", Run.data), str | Path):
        raise UsageError(
            "data takes a name or a path. Arrays are for TaMatchClassifier().fit(X, y), or for an "
            ".npz file with `images` and `labels`."
        )
    method, net = values.get("method"), values.get("net")
    named = {"method": register(method)} if isinstance(method, type) else {}
    return {**values, **named, **({} if net is None else {"net": nets.register(net)})}


def without_rivals(preset: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A preset less what the user has replaced: equal classes by a long tail, or the reverse."""
    tail = ("head_labelled", "head_unlabelled", "gamma", "gamma_unlabelled")
    gone: tuple[str, ...] = ()
    if "head_labelled" in given:
        gone = ("labels_per_class",)
    elif "labels_per_class" in given:
        gone = tail
    return {k: v for k, v in preset.items() if k not in gone}


def check_together(values: dict[str, Any]) -> None:
    """Options that contradict each other, or need what is not there."""
    if values.get("tensorboard"):
        check_installed()
    if values.get("from_") and values.get("weights"):
        raise UsageError("--from and --weights both give the weights to start from: choose one.")
    if values.get("labels") and (data := values.get("data", Run.data)) in recipes.PROTOCOLS:
        raise UsageError(
            f"--labels adds to the labels of your own images, and {data} has all of its own. Name "
            "the folder of your images: --data DIR."
        )
    for name in ("labels_per_class", "head_labelled"):
        if values.get("labels") and values.get(name):
            raise UsageError(
                f"--labels gives labels, and {RUN_OPTIONS[name].flag} hides some: choose one."
            )


def check_processes(run: Run) -> None:
    """The processes that torchrun started must have equal shares of a batch."""
    count, whole = launch.processes(), math.gcd(run.batch, run.unlabelled)
    if whole % count:
        fit = [str(n) for n in range(1, whole + 1) if whole % n == 0]
        raise UsageError(
            f"{count} processes cannot share --batch {run.batch} and --unlabelled {run.unlabelled} "
            f"evenly: {' or '.join(fit)} can. The batch is that of all processes together."
        )


def read_config(path: Path) -> dict[str, Any]:
    """A YAML file of option names and values, as `--print-config` writes it."""
    try:
        content = parse_yaml(path.read_text())
    except OSError as error:
        raise UsageError(f"--config {path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        raise UsageError(f"--config {path} is not valid YAML{where}.") from None
    if not isinstance(content, dict):
        raise UsageError(f"--config {path} must hold lines of `option: value`.")
    if isinstance(content.get("config"), dict):
        raise UsageError(
            f"--config {path} is the record of a run, which has its options under `config` and the "
            "command that repeats it under `command`. --print-config makes a file of options."
        )
    return {str(k).replace("-", "_"): v for k, v in content.items()}


def dump(run: Run) -> str:
    """The configuration as YAML that `--config` reads back."""
    flat = {k: list(v) if isinstance(v, tuple) else v for k, v in run.flat().items()}
    return str(yaml.safe_dump({k: v for k, v in flat.items() if v is not None}, sort_keys=False))
