"""From what a user gives to a complete and valid `Run`."""

import dataclasses
import math
import shlex
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from .. import methods, nets
from ..errors import UsageError
from ..machine import launch
from ..methods import METHODS, AnyMethod, entry, get, is_taught
from ..nets import AnyNet
from ..storage.events import check_installed
from ..storage.folder import RunFolder
from . import recipes
from .config import (
    RUN_OPTIONS,
    Run,
    Shares,
    method_options,
    naming_file,
    normalised_shares,
    read_config,
    read_target,
)
from .options import as_text, flag_of, undescribed_option, unknown_option

TARGET = {"target", "prior", "lambda_target"}  # what says where TaMatch steers to

SOLVED = ("tamatch", "supervised")  # methods that are solved at once on frozen features
BY_CONFIDENCE = ("gaussian", "class*gaussian")
READ_WITH = {  # options that only some parts of a method read: which choice, and its values
    "tau": ("select", ("fixed", "relative", "flexmatch")),
    "clip": ("weigh", ("class", "class*gaussian")),
    "n_sigma": ("weigh", BY_CONFIDENCE),
    "learn_from": ("weigh", BY_CONFIDENCE),
}


@dataclass(frozen=True)
class Asked:
    """The settings that the user gives, and those of the run to start from, before any choice."""

    user: dict[str, Any]  # with the command or in the file
    file: Path | None
    from_file: Set[str]  # names that only the file sets
    earlier: dict[str, Any] | None  # the settings of the run to start from

    @cached_property
    def said(self) -> dict[str, Any]:
        """The user's settings and, for the rest, those of the run to start from."""
        return with_inherited(self.user, self.earlier)

    @cached_property
    def run(self) -> Run:
        """The run by these settings and the recipe, without choices."""
        return self.with_choices({})

    def with_choices(
        self, chosen: Mapping[str, Any], instead: Mapping[str, Any] | None = None
    ) -> Run:
        """The complete, valid run: what the user or an earlier run says wins over what is `chosen`.

        What is chosen `instead` wins over the earlier run, but not over the user.
        """
        with naming_file(self.file, self.from_file):
            said = with_inherited({**self.user, **instead}, self.earlier) if instead else self.said
            return resolve({**chosen, **said})


def ask(given: Mapping[str, Any], config_file: Path | None = None) -> Asked:
    """Read what the user asks for; `given` wins over the file."""
    user = user_settings(given, config_file)
    from_file = user.keys() - {name.replace("-", "_") for name in given}
    with naming_file(config_file, from_file):
        place = RUN_OPTIONS["from_"].parse(user.get("from_"))
        try:
            earlier = None if place is None else settings_of_run(place)
        except UsageError as error:  # it begins with the path
            raise UsageError(f"--from {error}") from None
    return Asked(user, config_file, from_file, earlier)


def configure(
    given: Mapping[str, Any],
    config_file: Path | None = None,
    chosen: Mapping[str, Any] | None = None,
) -> Run:
    """A complete, valid `Run` from what the user gave and what was `chosen` for the rest."""
    return ask(given, config_file).with_choices(chosen or {})


def user_settings(given: Mapping[str, Any], config_file: Path | None = None) -> dict[str, Any]:
    """All that the user gives, also in the file."""
    read = read_config(config_file) if config_file else {}
    values = {name.replace("-", "_"): value for name, value in {**read, **given}.items()}
    if "from" in values:
        values["from_"] = values.pop("from")
    return values


def settings_of_run(place: str) -> dict[str, Any]:
    """The settings of the run to start from."""
    folder = RunFolder(Path(place))
    config: dict[str, Any] = folder.read()["config"]
    if folder.lends_labels:  # their number follows from the labels, of which there may be more now
        del config["validation_per_class"]
    return config


def with_inherited(values: dict[str, Any], earlier: dict[str, Any] | None) -> dict[str, Any]:
    """The user's settings, then those of the run to start from; not another method's options."""
    if earlier is None:
        return values
    config = {k: v for k, v in earlier.items() if k != "options"}
    tuned = nets.is_tuned(str(values.get("net", config.get("net"))))
    if is_taught(str(config.get("method"))) and not tuned:
        del config["method"]
    if "net" not in values and nets.is_user_code(str(config.get("net"))):
        raise UsageError(
            f"--from {values['from_']}: its net is your own code ({config['net']}), which is not "
            "run unless you name it: --net FILE.py:NAME."
        )
    inherited = in_steps({k: v for k, v in config.items() if v is not None}, values.get("steps"))
    if values.get("method", config.get("method")) == config.get("method"):
        inherited |= earlier.get("options", {})
    if values.get("fold") not in (None, inherited.get("fold")):
        raise UsageError(
            "--fold would hold out labels that the run of --from was trained on: give only one "
            "of --fold and --from."
        )
    left_out = {"from_", "weights"}
    if nets.begins_anew(str(values.get("net", config.get("net")))):
        left_out = {"from_"}  # the features are those of the same net
    if "validation_per_class" in values:
        left_out |= {"fold"}
    if TARGET & values.keys():
        left_out |= TARGET  # they must fit each other, so one of them replaces all
    return {k: v for k, v in inherited.items() if k not in left_out} | values


def resolve(values: Mapping[str, Any]) -> Run:
    """A complete, valid `Run` from options by name, as values or as texts.

    The recipe of the data set and the method's signature give the rest.
    """
    values = with_names(values)
    given = {k: RUN_OPTIONS[k].parse(v) for k, v in values.items() if k in RUN_OPTIONS}
    method, data = given.get("method", Run.method), given.get("data", Run.data)
    entry(method)  # a wrong name is the first thing to say, before torch is imported
    recipe = recipes.defaults(data, method, named="method" in given)
    settings = filled_in(given, in_steps(recipe.run, given.get("steps")))
    nets.find(settings["net"])

    own = {k: v for k, v in values.items() if k not in RUN_OPTIONS}
    options, settings["prior"] = resolve_method(method, own, settings.get("prior"), recipe.options)

    check_together(settings)
    if settings.get("prior") is not None:
        settings["prior"] = normalised_shares(settings["prior"], "--prior")
    run = Run(**settings, options=options)
    check_processes(run)
    from .inputs import split_plan  # here, as it loads NumPy, which many commands do without

    split_plan(run)  # an error, if it contradicts itself
    return run


def resolve_method(
    method: str, own: dict[str, Any], prior: Shares | None, preset: Mapping[str, Any]
) -> tuple[dict[str, Any], Shares | None]:
    """The method's own options, and the class shares of the pool where they are known."""
    allowed = method_options(method)
    for name in own:
        if name not in allowed:
            undescribed = undescribed_option(name, get(method), method)
            others = [other for other in METHODS if name in method_options(other)]
            known = {**RUN_OPTIONS, **allowed}
            raise undescribed or unknown_option(name, known, method, others)
    if "target" in allowed:
        own, prior = with_target(own, prior)
    return settings_of_method(method, own, preset), prior


def stored_config(
    folder: RunFolder, method: "AnyMethod | None" = None, net: "AnyNet | None" = None
) -> Run:
    """The settings in run.json, checked; `method` and `net` replace the user's own code in them."""
    config = folder.read()["config"]
    own = config.pop("options", {})
    name = str(config.get("method"))
    methods.CUSTOM.register_as(name, method)
    if methods.is_user_code(name):
        try:
            methods.get(name)
        except UsageError as error:
            path = str(folder.path)
            raise UsageError(
                f"{error} For this run: tamatch.resume({path!r}, method=…), or `tamatch resume "
                f"{shlex.quote(path)} --method FILE.py:CLASS`."
            ) from error
    run = resolve({**{k: v for k, v in config.items() if v is not None}, **own})
    nets.CUSTOM.register_as(run.net, net)
    return run


def with_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with a method or net that is an object replaced by the name it is found under."""
    if not isinstance(values.get("data", Run.data), str | Path):
        raise UsageError(
            "data takes a name or a path. Pass arrays to TaMatchClassifier().fit(X, y), or save "
            "them as an .npz file with `images` and `labels`."
        )
    named = dict(values)
    for option, known in (("method", methods.CUSTOM), ("net", nets.CUSTOM)):
        if named.get(option) is not None:
            named[option] = known.register(named[option])
    return named


def in_steps(preset: dict[str, Any], steps: Any) -> dict[str, Any]:
    """A preset for another number of steps: the warm-up keeps its share of the run."""
    if steps is None or not {"steps", "warmup"} <= preset.keys():
        return preset
    asked, usual = (RUN_OPTIONS["steps"].parse(count) for count in (steps, preset["steps"]))
    return {
        **preset,
        "warmup": round(RUN_OPTIONS["warmup"].parse(preset["warmup"]) * asked / usual),
    }


def filled_in(given: Mapping[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """What the user gave, then the preset; a long tail and equal classes replace each other."""
    known = {k: v for k, v in given.items() if v is not None}
    replaced: tuple[str, ...] = ()
    if "head_labelled" in known:
        replaced = ("labels_per_class",)
    elif "labels_per_class" in known:
        replaced = ("head_labelled", "head_unlabelled", "gamma", "gamma_unlabelled")
    return {**{k: v for k, v in preset.items() if k not in replaced}, **known}


def with_target(own: dict[str, Any], prior: Shares | None) -> tuple[dict[str, Any], Shares | None]:
    """The method's options with the target set by --target or --prior, and the class shares."""
    if "target" not in own:
        return own if prior is None else {**own, "target": "prior"}, prior
    target, from_file = read_target(str(own["target"]))
    if prior is not None and target != "prior":
        raise UsageError(f"--prior and --target {target} both set the class shares: give only one.")
    return {**own, "target": target}, from_file or prior


def settings_of_method(
    method: str, given: Mapping[str, Any], preset: Mapping[str, Any]
) -> dict[str, Any]:
    """The method's own options: what is given, then the recipe's preset, then their defaults."""
    allowed, fixed = method_options(method), entry(method).options
    settings = {**{k: o.default for k, o in allowed.items()}, **preset, **fixed}
    required = {k: None for k, o in allowed.items() if o.required}  # to be refused if not given
    settings |= {k: allowed[k].parse(v) for k, v in {**required, **given}.items()}
    check_fixed(method, settings)
    check_effective(settings, [k for k in given if settings[k] != allowed[k].default])
    return {k: settings[k] for k in allowed}


def check_fixed(method: str, chosen: Mapping[str, Any]) -> None:
    """Refuse another value for an option that the method's row in the table fixes."""
    row = entry(method)
    for name, value in row.options.items():
        if chosen[name] != value:
            free = next(
                k for k, other in METHODS.items() if other.path == row.path and not other.options
            )
            flag = flag_of(name)
            raise UsageError(
                f"{method} fixes {flag} at {as_text(value)}. For {flag} {as_text(chosen[name])}, "
                f"use --method {free}."
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


def check_together(values: dict[str, Any]) -> None:
    """Refuse options that contradict each other or need a package that is missing."""
    for tracker in ("tensorboard", "wandb", "mlflow"):
        if values.get(tracker):
            check_installed(tracker)
    if nets.is_frozen(values["net"]):
        check_frozen(values)
    elif nets.is_tuned(values["net"]) and values.get("weights") is None:
        raise UsageError(f"--net {values['net']} starts from a pre-trained net: give --weights.")
    elif not nets.is_tuned(values["net"]) and values.get("from_") and values.get("weights"):
        raise UsageError("--from and --weights both set the initial weights: give only one.")
    check_taught(values)
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


def check_frozen(values: Mapping[str, Any]) -> None:
    """A net that is not trained has features only with weights, and two ways to learn on them."""
    net, method = values["net"], values.get("method", Run.method)
    if values.get("weights") is None:
        raise UsageError(f"--net {net} is not trained, so it needs --weights.")
    if method not in SOLVED:
        raise UsageError(
            f"--method {method} trains a net, but {net} is not trained: use --net "
            f"{net.removeprefix(nets.FROZEN)}, or --method {' or '.join(SOLVED)}."
        )


def check_taught(values: Mapping[str, Any]) -> None:
    """A method that learns what is solved on features needs a tuned net."""
    method = values.get("method", Run.method)
    if is_taught(method) and not nets.is_tuned(values["net"]):
        raise UsageError(
            f"--method {method} is for nets that are tuned from a pre-trained one, such as --net "
            f"{nets.TUNED}vit_tiny_p16_224 with --weights vit_tiny; --method tamatch is for all."
        )


def check_processes(run: Run) -> None:
    """Refuse a number of processes that does not divide the batches evenly."""
    count, whole = launch.processes(), math.gcd(run.batch, run.unlabelled)
    if count > 1 and is_taught(run.method):
        raise UsageError(
            f"--method {run.method} trains in one process, not in {count}: --method tamatch does."
        )
    if whole % count:
        fit = [str(n) for n in range(1, whole + 1) if whole % n == 0]
        raise UsageError(
            f"{count} processes cannot share --batch {run.batch} and --unlabelled {run.unlabelled} "
            f"evenly. Possible numbers of processes: {', '.join(fit)}. The batch is that of all "
            "processes together."
        )


def baseline_config(run: Run) -> Run:
    """The same without unlabelled images; after a run --from another, from that one's baseline."""
    options = {k: o.default for k, o in method_options("supervised").items()}
    earlier = RunFolder(Path(run.from_)).baseline if run.from_ else None
    start = str(earlier.path) if earlier and earlier.model.exists() else None
    return dataclasses.replace(
        run, method="supervised", baseline="none", options=options, from_=start
    )


def without_start(run: Run) -> Run:
    """The same run without initial weights, for a net whose weights come from a checkpoint."""
    return dataclasses.replace(run, weights=None, from_=None)
