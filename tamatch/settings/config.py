"""The whole configuration of a run: one flat record, validated in one place."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml

from .. import nets
from ..errors import UsageError
from ..kinds import AT_LEAST_ONE, AT_LEAST_ZERO, FRACTION, POSITIVE, SHARE, Between
from ..machine import launch
from ..methods import METHODS, entry, get, register
from ..rules import recipes
from ..storage.events import check_installed
from ..storage.folder import RunFolder
from ..storage.untrusted import parse_yaml
from ..usercode import blaming
from .options import Option, flag_of, keywords, of_dataclass, typed, unannotated, unknown
from .target import Shares, read_target, shares

TARGET = {"target", "prior", "lambda_target"}  # what says where TaMatch steers to
BY_CONFIDENCE = ("gaussian", "class*gaussian")
READ_WITH = {  # options that only some parts of a method read: which choice, and its values
    "tau": ("select", ("fixed", "relative", "flexmatch")),
    "clip": ("weigh", ("class", "class*gaussian")),
    "n_sigma": ("weigh", BY_CONFIDENCE),
    "learn_from": ("weigh", BY_CONFIDENCE),
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """All that decides a run's result. What has no default here, the data set's recipe decides."""

    data: Annotated[str, "name of a data set, or a folder of images"] = "digits"
    root: Annotated[str, "folder that contains a named data set"] | None = None
    labels: Annotated[str, "table of labels to add to the folder's own"] | None = None
    size: (
        Annotated[int, Between(8, 512), "image side in pixels; chosen for your own images"] | None
    ) = None
    normalise: Annotated[
        Literal["own", "half", "imagenet"],
        "scale colours by the data's statistics, to -1..1, or ImageNet's",
    ] = "own"
    flips: Annotated[
        Literal["none", "horizontal", "both"],
        "flip images at random: not at all, horizontally, or also vertically",
    ]
    method: Annotated[str, "name of a method, or FILE.py:CLASS"] = "tamatch"
    net: Annotated[str, "name of a net, or FILE.py:NAME; `tamatch nets` lists them"]
    weights: Annotated[str, "file of pre-trained weights to start from"] | None = None
    head: Annotated[Literal["random", "zero"], "initial values of the last layer"] = "random"
    from_: Annotated[str, "run whose weights and settings to start from"] | None = None
    seed: Annotated[
        int, Between(0, 2**32 - 1), "seed of the split, the initial weights and all sampling"
    ] = 0

    labels_per_class: Annotated[int, AT_LEAST_ONE, "labelled images per class"] | None = None
    head_labelled: Annotated[int, AT_LEAST_ONE, "labelled images of the largest class"] | None = (
        None
    )
    head_unlabelled: (
        Annotated[int, AT_LEAST_ONE, "unlabelled images of the largest class"] | None
    ) = None
    gamma: Annotated[float, "largest class over smallest; negative: reversed"] = 1.0
    gamma_unlabelled: Annotated[float, "the same for the unlabelled pool"] | None = None
    validation_per_class: Annotated[int, AT_LEAST_ZERO, "labelled images held out per class"] = 0
    fold: Annotated[str, "K/N: hold out the K-th of N parts of the labels"] | None = None
    labelled_in_pool: Annotated[
        Literal["yes", "no"], "whether the labelled images are also in the unlabelled pool"
    ]
    prior: (
        Annotated[tuple[float, ...], "known class shares of the pool, or NAME=SHARE for each class"]
        | dict[str, float]
        | None
    ) = None

    steps: Annotated[int, AT_LEAST_ONE, "training steps"]
    warmup: Annotated[int, AT_LEAST_ZERO, "steps over which the learning rate rises"]
    batch: Annotated[int, AT_LEAST_ONE, "labelled images per step"]
    unlabelled: Annotated[int, AT_LEAST_ONE, "unlabelled images per step"]
    replacement: Annotated[bool, "sample with replacement instead of in epochs"] = False
    optimizer: Annotated[Literal["sgd", "adamw"], "optimizer"]
    lr: Annotated[float, POSITIVE, "learning rate"]
    weight_decay: Annotated[float, AT_LEAST_ZERO, "weight decay"]
    layer_decay: Annotated[float, Between(0, 1, open_low=True), "learning rate factor per layer"]
    ema: Annotated[float, SHARE, "momentum of the weight average; 0 for none"]
    norm_momentum: (
        Annotated[
            float, FRACTION, "BatchNorm momentum (weight of the new batch); default: the net's"
        ]
        | None
    ) = None

    log_every: Annotated[int, AT_LEAST_ONE, "steps between log lines"]
    test_every: Annotated[int, AT_LEAST_ONE, "steps between tests"]
    save_every: Annotated[int, AT_LEAST_ONE, "steps between checkpoints"]

    baseline: Annotated[Literal["supervised", "none"], "baseline to train on the same labels"]
    device: Annotated[str, "device: auto, cpu, cuda or cuda:N"] = "auto"
    images: Annotated[
        Literal["auto", "device", "stream"],
        "where the images are kept; results do not depend on it",
    ] = "auto"
    threads: (
        Annotated[int, AT_LEAST_ONE, "CPU threads; the number affects the last bits"] | None
    ) = None
    precision: Annotated[Literal["auto", "fp32", "tf32", "bf16"], "numerical precision"] = "auto"
    deterministic: Annotated[bool, "bit-identical results in every run (CUDA); slower"] = False
    compile: Annotated[bool, "compile the net or use the package's kernels (CUDA)"] = True
    graph: Annotated[bool, "capture the step in a CUDA graph"] = True
    tensorboard: Annotated[bool, "also write event files for TensorBoard"] = False

    options: dict[str, Any] = field(default_factory=dict)  # the method's own

    def flat(self) -> dict[str, Any]:
        """Every setting by its option's name, the method's own among them."""
        mine = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {**{k: v for k, v in mine.items() if k != "options"}, **self.options}


RUN_OPTIONS: dict[str, Option] = of_dataclass(Run)
ALSO_KEYWORDS = {"ema"}  # options of a run that a method also takes as keywords


def method_options(method: str) -> dict[str, Option]:
    """The options a method has of its own, with the defaults its table row fixes."""
    fixed, kind = entry(method).options, get(method)
    with blaming(f"--method {method}", "reading its options"):
        found = keywords(kind)
    for name in found:
        if name in RUN_OPTIONS and name not in ALSO_KEYWORDS:
            raise UsageError(
                f"{kind.__name__}'s keyword {name} has the name of an option of the run and would "
                "never get a value: rename it."
            )
    own = {k: o for k, o in found.items() if o is not None and k not in RUN_OPTIONS}
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
    return resolve({**(chosen or {}), **stated(given, config_file, inherit=True)})


def stated(
    given: Mapping[str, Any], config_file: Path | None = None, *, inherit: bool = False
) -> dict[str, Any]:
    """All that the user gives, also in the file; with `inherit`, the run to start from as well."""
    values = {**(read_config(config_file) if config_file else {}), **given}
    if "from" in values:
        values["from_"] = values.pop("from")
    return {**inherited(values), **values} if inherit else values


def inherited(values: dict[str, Any]) -> dict[str, Any]:
    """The settings of the run to start from; the options of another method are not among them."""
    place = RUN_OPTIONS["from_"].parse(values.get("from_"))
    if place is None:
        return {}
    config = RunFolder(Path(place)).read()["config"]
    own = config.pop("options", {})
    same = values.get("method", config.get("method")) == config.get("method")
    if "net" not in values and nets.is_own(str(config.get("net"))):
        raise UsageError(
            f"--from {place}: its net is your own code ({config['net']}), which is not run unless "
            "you name it: --net FILE.py:NAME."
        )
    gone = {"from_", "weights", "fold"}
    if TARGET & values.keys():
        gone |= TARGET  # one of them in the place of all: they must fit each other
    said = {k: v for k, v in config.items() if v is not None}
    return {k: v for k, v in {**said, **(own if same else {})}.items() if k not in gone}


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
    filled = filled_in(run_values, recipe.run)
    nets.find(filled["net"])

    allowed = method_options(method)
    own = {k: v for k, v in values.items() if k not in RUN_OPTIONS}
    for name in own:
        if name not in allowed:
            options = {**RUN_OPTIONS, **allowed}
            raise unannotated(name, get(method), method) or unknown(name, options, method)
    if "target" in allowed:
        own, prior = with_target(own, filled.get("prior"))
        filled["prior"] = prior
    chosen = {
        **{k: o.default for k, o in allowed.items()},
        **recipe.options,
        **entry(method).options,
    }
    needed = {k: None for k, o in allowed.items() if o.required}
    chosen.update({k: allowed[k].parse(v) for k, v in {**needed, **own}.items()})
    check_fixed(method, chosen)
    check_effective(chosen, [k for k in own if chosen[k] != allowed[k].default])
    check_together(filled)
    if filled.get("prior") is not None:
        filled["prior"] = shares(filled["prior"], "--prior")
    run = Run(**filled, options={k: chosen[k] for k in allowed})
    check_processes(run)
    return run


def with_target(own: dict[str, Any], prior: Shares | None) -> tuple[dict[str, Any], Shares | None]:
    """The options with the target that known class shares mean, and these shares."""
    if "target" not in own:
        return own if prior is None else {**own, "target": "prior"}, prior
    target, from_file = read_target(str(own["target"]))
    if prior is not None and target != "prior":
        raise UsageError(f"--prior and --target {target} both set the class shares: give only one.")
    return {**own, "target": target}, from_file or prior


def target_follows(run: Run) -> bool:
    """Does the target follow the model, at a speed that the method leaves open?"""
    free = run.options.keys() - entry(run.method).options.keys()
    return "lambda_target" in free and run.options.get("target") == "adaptive"


def check_fixed(method: str, chosen: Mapping[str, Any]) -> None:
    """What the table fixes makes a method what its title says."""
    row = entry(method)
    for name, value in row.options.items():
        if chosen[name] != value:
            free = next(
                k for k, other in METHODS.items() if other.path == row.path and not other.options
            )
            flag = flag_of(name)
            raise UsageError(
                f"{method} fixes {flag} at {typed(value)}. For {flag} {typed(chosen[name])}, use "
                f"--method {free}."
            )


def check_effective(chosen: Mapping[str, Any], given: Iterable[str]) -> None:
    """Refuse options that the chosen parts of the method would ignore."""
    for name in given:
        choice, readers = READ_WITH.get(name, ("", ()))
        if isinstance(part := chosen.get(choice), str) and part not in readers:
            raise UsageError(
                f"{flag_of(name)} has no effect with --{choice} {part}: it applies only to "
                f"--{choice} {' or '.join(readers)}."
            )


def by_name(values: dict[str, Any]) -> dict[str, Any]:
    """The options with a method or net that is an object replaced by the name it is found under."""
    if not isinstance(values.get("data", Run.data), str | Path):
        raise UsageError(
            "data takes a name or a path. Pass arrays to TaMatchClassifier().fit(X, y), or save "
            "them as an .npz file with `images` and `labels`."
        )
    method, net = values.get("method"), values.get("net")
    named = {} if method is None else {"method": register(method)}
    return {**values, **named, **({} if net is None else {"net": nets.register(net)})}


def filled_in(given: Mapping[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """What the user gave, and the preset for the rest.

    A long tail takes the place of a preset with equal classes, and the reverse.
    """
    known = {k: v for k, v in given.items() if v is not None}
    gone: tuple[str, ...] = ()
    if "head_labelled" in known:
        gone = ("labels_per_class",)
    elif "labels_per_class" in known:
        gone = ("head_labelled", "head_unlabelled", "gamma", "gamma_unlabelled")
    return {**{k: v for k, v in preset.items() if k not in gone}, **known}


def check_together(values: dict[str, Any]) -> None:
    """Options that contradict each other, or need what is not there."""
    if values.get("tensorboard"):
        check_installed()
    if values.get("from_") and values.get("weights"):
        raise UsageError("--from and --weights both set the initial weights: give only one.")
    if values.get("from_") and values.get("fold"):
        raise UsageError(
            "--fold would hold out labels that the run of --from was trained on: give only one "
            "of --fold and --from."
        )
    if values.get("labels") and (data := values.get("data", Run.data)) in recipes.PROTOCOLS:
        raise UsageError(
            f"--labels adds labels to your own images, but {data} is already fully labelled. Give "
            "the folder of your images: --data DIR."
        )
    for name in ("labels_per_class", "head_labelled"):
        if values.get("labels") and values.get(name):
            raise UsageError(
                f"--labels adds labels and {RUN_OPTIONS[name].flag} hides some: give only one."
            )


def check_processes(run: Run) -> None:
    """The processes that torchrun started must have equal shares of a batch."""
    count, whole = launch.processes(), math.gcd(run.batch, run.unlabelled)
    if whole % count:
        fit = [str(n) for n in range(1, whole + 1) if whole % n == 0]
        raise UsageError(
            f"{count} processes cannot share --batch {run.batch} and --unlabelled {run.unlabelled} "
            f"evenly. Possible numbers of processes: {', '.join(fit)}. The batch is that of all "
            "processes together."
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
        raise UsageError(f"--config {path} must contain lines of the form `option: value`.")
    if isinstance(content.get("config"), dict):
        raise UsageError(
            f"--config {path} is a run record, not an option file: it has the options of the run "
            "under `config` and the command that repeats it under `command`. --print-config "
            "prints an option file."
        )
    return {str(k).replace("-", "_"): v for k, v in content.items()}


def dump(run: Run) -> str:
    """The configuration as YAML that `--config` reads back."""
    flat = {
        k: list(v) if isinstance(v, tuple) else v
        for k, v in run.flat().items()
        if v is not None or k in run.options  # where it is a value, and not the lack of one
    }
    return str(yaml.safe_dump(flat, sort_keys=False))
