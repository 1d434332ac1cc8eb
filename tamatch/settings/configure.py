"""From what a user gives to a complete and valid `Run`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import nets
from ..errors import UsageError
from ..methods import METHODS, entry, get, register
from ..rules import recipes
from ..storage.folder import RunFolder
from .annotations import undescribed_option
from .checks import check_effective, check_fixed, check_processes, check_together
from .config import RUN_OPTIONS, Run, method_options
from .config_file import naming_file, read_config
from .options import unknown_option
from .target import Shares, normalised_shares, read_target

TARGET = {"target", "prior", "lambda_target"}  # what says where TaMatch steers to


def configure(
    given: Mapping[str, Any],
    config_file: Path | None = None,
    chosen: Mapping[str, Any] | None = None,
) -> Run:
    """A complete, valid `Run` from what the user gave; `given` wins over the file.

    What neither gives is that of the run it starts `from_`, if there is one, and then what was
    `chosen` for the data and the machine.
    """
    values = user_settings(given, config_file)
    with naming_file(config_file, values.keys() - {name.replace("-", "_") for name in given}):
        return resolve({**(chosen or {}), **with_inherited(values)})


def user_settings(given: Mapping[str, Any], config_file: Path | None = None) -> dict[str, Any]:
    """All that the user gives, also in the file."""
    read = read_config(config_file) if config_file else {}
    values = {name.replace("-", "_"): value for name, value in {**read, **given}.items()}
    if "from" in values:
        values["from_"] = values.pop("from")
    return values


def with_inherited(values: dict[str, Any]) -> dict[str, Any]:
    """The user's settings and, for the rest, those of the run to start from.

    The options of another method are not among them.
    """
    place = RUN_OPTIONS["from_"].parse(values.get("from_"))
    if place is None:
        return values
    try:
        config = RunFolder(Path(place)).read()["config"]
    except UsageError as error:  # it begins with the path
        raise UsageError(f"--from {error}") from None
    own_options = config.pop("options", {})
    if "net" not in values and nets.is_user_code(str(config.get("net"))):
        raise UsageError(
            f"--from {place}: its net is your own code ({config['net']}), which is not run unless "
            "you name it: --net FILE.py:NAME."
        )
    inherited = in_steps({k: v for k, v in config.items() if v is not None}, values.get("steps"))
    if values.get("method", config.get("method")) == config.get("method"):
        inherited |= own_options
    if values.get("fold") not in (None, inherited.get("fold")):
        raise UsageError(
            "--fold would hold out labels that the run of --from was trained on: give only one "
            "of --fold and --from."
        )
    left_out = {"from_", "weights"}
    if nets.is_frozen(str(values.get("net", config.get("net")))):
        left_out = {"from_"}  # the features are those of the same net
    if "validation_per_class" in values:
        left_out |= {"fold"}
    if TARGET & values.keys():
        left_out |= TARGET  # they must fit each other, so one of them replaces all
    return {k: v for k, v in inherited.items() if k not in left_out} | values


def resolve(values: Mapping[str, Any]) -> Run:
    """A complete, valid `Run`.

    Names are those of the options; values may be texts. Everything that is not there comes from
    the recipe of the data set and, for the method's own options, from its signature.
    """
    values = with_names(values)
    given = {k: RUN_OPTIONS[k].parse(v) for k, v in values.items() if k in RUN_OPTIONS}
    method, data = given.get("method", Run.method), given.get("data", Run.data)
    entry(method)  # a wrong name is the first thing to say, before torch is imported
    recipe = recipes.defaults(data, method, named="method" in given)
    settings = filled_in(given, in_steps(recipe.run, given.get("steps")))
    nets.find(settings["net"])

    allowed = method_options(method)
    own = {k: v for k, v in values.items() if k not in RUN_OPTIONS}
    for name in own:
        if name not in allowed:
            undescribed = undescribed_option(name, get(method), method)
            others = [other for other in METHODS if name in method_options(other)]
            known = {**RUN_OPTIONS, **allowed}
            raise undescribed or unknown_option(name, known, method, others)
    if "target" in allowed:
        own, settings["prior"] = with_target(own, settings.get("prior"))
    options = settings_of_method(method, own, recipe.options)

    check_together(settings)
    if settings.get("prior") is not None:
        settings["prior"] = normalised_shares(settings["prior"], "--prior")
    run = Run(**settings, options=options)
    check_processes(run)
    return run


def with_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with a method or net that is an object replaced by the name it is found under."""
    if not isinstance(values.get("data", Run.data), str | Path):
        raise UsageError(
            "data takes a name or a path. Pass arrays to TaMatchClassifier().fit(X, y), or save "
            "them as an .npz file with `images` and `labels`."
        )
    named = dict(values)
    if named.get("method") is not None:
        named["method"] = register(named["method"])
    if named.get("net") is not None:
        named["net"] = nets.register(named["net"])
    return named


def in_steps(preset: dict[str, Any], steps: Any) -> dict[str, Any]:
    """A preset for so many steps: its warm-up keeps its share, or it would outlast a short run."""
    if steps is None or not {"steps", "warmup"} <= preset.keys():
        return preset
    asked, usual = (RUN_OPTIONS["steps"].parse(count) for count in (steps, preset["steps"]))
    return {
        **preset,
        "warmup": round(RUN_OPTIONS["warmup"].parse(preset["warmup"]) * asked / usual),
    }


def filled_in(given: Mapping[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
    """What the user gave, and the preset for the rest.

    A long tail takes the place of a preset with equal classes, and the reverse.
    """
    known = {k: v for k, v in given.items() if v is not None}
    replaced: tuple[str, ...] = ()
    if "head_labelled" in known:
        replaced = ("labels_per_class",)
    elif "labels_per_class" in known:
        replaced = ("head_labelled", "head_unlabelled", "gamma", "gamma_unlabelled")
    return {**{k: v for k, v in preset.items() if k not in replaced}, **known}


def with_target(own: dict[str, Any], prior: Shares | None) -> tuple[dict[str, Any], Shares | None]:
    """The options with the target that known class shares mean, and these shares."""
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
