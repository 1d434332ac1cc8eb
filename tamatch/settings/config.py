"""The whole configuration of a run as one flat record, the options and the files that set it."""

import dataclasses
import math
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml

from ..errors import UsageError, one_line
from ..kinds import AT_LEAST_ONE, AT_LEAST_ZERO, FRACTION, POSITIVE, SHARE, Between
from ..methods import entry, get
from ..own.usercode import blaming
from ..storage.untrusted import parse_yaml
from .options import Option, as_text, flag_of, keyword_options, options_of_dataclass

ELSEWHERE = ("out", "overwrite", "seeds", "time", "config", "print_config")  # options of a command
ROUNDING = 1e-9  # by which shares may miss a sum of 1
Shares = tuple[float, ...] | dict[str, float]  # in the order of the classes, or by their names


@dataclass(frozen=True, kw_only=True)
class Run:
    """Every setting of a run; what has no default here is set by the recipe of the data set."""

    data: Annotated[str, "name of a data set, or a folder of images"] = "digits"
    root: Annotated[str, "folder that contains a named data set"] | None = None
    labels: Annotated[str, "table of labels to add to the folder's own"] | None = None
    size: (
        Annotated[int, Between(8, 512), "image side in pixels; chosen for your own images"] | None
    ) = None
    normalise: Annotated[
        Literal["own", "half", "imagenet", "clip"],
        "scale colours by the data's statistics, to -1..1, or by ImageNet's or CLIP's",
    ] = "own"
    flips: Annotated[
        Literal["none", "horizontal", "both"],
        "flip images at random: not at all, horizontally, or also vertically",
    ]
    method: Annotated[str, "name of a method, or FILE.py:CLASS"] = "tamatch"
    net: Annotated[str, "name of a net, or FILE.py:NAME; `tamatch nets` lists them"]
    weights: (
        Annotated[str, "pre-trained weights: a name of `tamatch nets`, a file, or none"] | None
    ) = None
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
    pool_shape: Annotated[
        Literal["tail", "middle"], "which class of the unlabelled pool is the largest"
    ] = "tail"
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
    warmup: Annotated[
        int,
        AT_LEAST_ZERO,
        "steps over which the learning rate rises (changes with --steps if not set)",
    ]
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
    test_images: (
        Annotated[int, AT_LEAST_ONE, "test on this many of the test images, evenly spread"] | None
    ) = None
    save_every: Annotated[int, AT_LEAST_ONE, "steps between checkpoints"]

    baseline: Annotated[Literal["supervised", "none"], "baseline to train on the same labels"]
    device: Annotated[str, "device: auto, cpu, cuda or cuda:N"] = "auto"
    images: Annotated[
        Literal["auto", "device", "stream"],
        "where the images are kept; results do not depend on it",
    ] = "auto"
    threads: (
        Annotated[int, Between(1, 4096), "CPU threads; the number affects the last bits"] | None
    ) = None
    precision: Annotated[Literal["auto", "fp32", "tf32", "bf16"], "numerical precision"] = "auto"
    deterministic: Annotated[bool, "bit-identical results in every run (CUDA); slower"] = False
    compile: Annotated[bool, "compile the net or use the package's kernels (CUDA)"] = True
    kernels: Annotated[bool, "use the package's kernels, not the compiler's (CUDA)"] = True
    graph: Annotated[bool, "capture the step in a CUDA graph"] = True
    tensorboard: Annotated[bool, "also write event files for TensorBoard"] = False
    wandb: Annotated[bool, "also log to Weights & Biases"] = False
    mlflow: Annotated[bool, "also log to MLflow"] = False

    options: dict[str, Any] = field(default_factory=dict)  # the method's own

    def flat(self) -> dict[str, Any]:
        """Every setting by its option's name, the method's own among them."""
        mine = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {**{k: v for k, v in mine.items() if k != "options"}, **self.options}


RUN_OPTIONS: dict[str, Option] = options_of_dataclass(Run)
ALSO_KEYWORDS = {"ema"}  # options of a run that a method also takes as keywords


def method_options(method: str) -> dict[str, Option]:
    """The options a method has of its own, with the defaults its table row fixes."""
    fixed, kind = entry(method).options, get(method)
    with blaming(f"--method {method}", "reading its options"):
        found = keyword_options(kind)
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


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """A YAML file of names and values; `what` begins the error message."""
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{what} {path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark else ""
        why = getattr(error, "problem", None) or one_line(error, 200)
        raise UsageError(f"{what} {path} is not valid YAML{where}: {why}.") from None
    if not isinstance(content, dict):
        raise UsageError(f"{what} {path} must contain lines of the form `option: value`.")
    return content


def read_config(path: Path) -> dict[str, Any]:
    """A YAML file of option names and values, as `--print-config` writes it."""
    content = read_mapping(path, "--config")
    if isinstance(content.get("config"), dict):
        raise UsageError(
            f"--config {path} is a run record, not an option file: it has the options of the run "
            "under `config` and the command that repeats it under `command`. --print-config "
            "prints an option file."
        )
    if {"algorithm", "dataset"} <= content.keys():
        turned = f"tamatch from-usb {shlex.quote(str(path))}"
        raise UsageError(f"--config {path} is one of USB: `{turned}` makes it a command.")
    values = {str(k).replace("-", "_"): v for k, v in content.items()}
    for name in ELSEWHERE:
        if name in values:
            raise UsageError(
                f"--config {path}: {flag_of(name)} is not a setting of the run, so no file can "
                "contain it. Give it with the command."
            )
    return values


@contextmanager
def naming_file(path: Path | None, names: Collection[str]) -> Iterator[None]:
    """Prefix errors about options that the file sets with the name of the file."""
    try:
        yield
    except UsageError as error:
        what = str(error).split(". ")[0]  # what follows is advice, which names other options
        flags = re.findall(r"--[\w-]+", what)
        if path and any(flag_of(name.rstrip("_")) in flags for name in names):
            raise type(error)(f"--config {path}: {error}") from None
        raise


def as_words(name: str, value: Any) -> list[str]:
    """An option as words of a command; a value that looks like an option is tied to its own."""
    flag, text = flag_of(name.rstrip("_")), as_text(value)
    if isinstance(value, bool) and name in RUN_OPTIONS:
        return [flag if value else flag.replace("--", "--no-", 1)]
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def dump(run: Run) -> str:
    """The configuration as YAML that `--config` reads back."""
    flat = {
        k: list(v) if isinstance(v, tuple) else v
        for k, v in run.flat().items()
        if v is not None or k in run.options  # where it is a value, and not the lack of one
    }
    return str(yaml.safe_dump(flat, sort_keys=False))


def read_target(text: str) -> tuple[str, Shares | None]:
    """`--target` as a keyword, or the class shares in a file."""
    path = Path(text)
    if path.suffix not in (".json", ".yaml", ".yml", ".txt"):
        return text, None
    try:
        content = parse_yaml(path.read_text(encoding="utf-8"))
        given: Shares
        if isinstance(content, dict):
            given = {str(name): float(share) for name, share in content.items()}
        else:
            given = tuple(float(share) for share in content)
    except OSError as error:
        raise UsageError(f"--target {path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, TypeError, ValueError, AttributeError):
        raise UsageError(
            f"--target {path} must contain one number per class, as a list or as `class: share` "
            "lines."
        ) from None
    return "prior", normalised_shares(given, f"--target {path}")


def normalised_shares(given: Shares, option: str) -> Shares:
    """Class shares that sum to 1, from shares, percentages or counts."""
    numbers = [*given.values()] if isinstance(given, dict) else given
    total = sum(numbers)
    if not 0 < total < math.inf or min(numbers) < 0:
        raise UsageError(f"{option}: class shares must be non-negative and not all zero.")
    if abs(total - 1) < ROUNDING:
        return given  # read again, a run's own shares are what they were, to the bit
    if isinstance(given, dict):
        return {name: share / total for name, share in given.items()}
    return tuple(share / total for share in given)


def in_order(
    given: Mapping[str, float] | Sequence[float], classes: Sequence[str], data: str
) -> tuple[float, ...]:
    """The shares in the order of the classes; an error for a name that is no class."""
    counts = f"{len(given)} class shares, but {data} has {len(classes)} classes"
    if not isinstance(given, Mapping):
        if len(given) != len(classes):
            raise UsageError(f"--prior or --target gives {counts}.")
        return tuple(given)
    strange = [name for name in given if name not in classes]
    missing = [name for name in classes if name not in given]
    without = f"{missing[0]!r} has no share" if missing else ""
    if strange:
        raise UsageError(
            f"--prior or --target gives a share for {strange[0]!r}, which is not a class of "
            f"{data}{without and '; '}{without}."
        )
    if missing:
        raise UsageError(f"--prior or --target gives {counts}: {without}.")
    return tuple(given[name] for name in classes)


def target_follows(run: Run) -> bool:
    """Does the target follow the model, at a speed that the method leaves open?"""
    free = run.options.keys() - entry(run.method).options.keys()
    return "lambda_target" in free and run.options.get("target") == "adaptive"
