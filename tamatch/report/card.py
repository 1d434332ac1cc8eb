"""The model card: what a stranger must know before using a model, as Markdown.

Names come from files and folders of anybody, so they stand in code spans, where nothing they
contain is a link, an image or HTML.
"""

from __future__ import annotations

import re
from pathlib import Path

from .folder import (
    Figures,
    Pairs,
    RunFiles,
    circumstances,
    data_facts,
    method_options,
    read_folder,
)
from .trust import Held
from .words import UNKNOWN, count, decimal, percent, shortened

LONGEST = 80  # characters of a name
LISTED = 200  # classes


def model_card(run: Path) -> str:
    """The card of a finished run, from its result files alone."""
    folder = read_folder(run)
    facts = folder.figures
    model = [("Net", folder.net or UNKNOWN), ("Classes", count(len(facts.classes)))]
    options = [(f"Option {literal(name)}", value) for name, value in method_options(folder)]
    method = [("Name", facts.method), ("Steps", count(facts.steps)), ("Seed", facts.seed)]
    parts = [
        f"# Image classifier: {literal(facts.data)}",
        f"Trained with tamatch by the method {literal(facts.method)}.",
        _section("Model", [*model, *circumstances(folder)]),
        _section("Data", data_facts(folder)),
        _section("Method", [*method, *options]),
        _metrics(folder),
        _limits(facts),
        _use(own_net=":" in folder.net),
    ]
    return "\n\n".join(parts) + "\n"


def literal(value: str) -> str:
    """Any text as a code span on one line, whatever is in it."""
    shown = "".join(c if c.isprintable() else " " for c in value)
    shown = shortened(" ".join(shown.split()), LONGEST)
    if not shown:
        return UNKNOWN
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}".replace("|", "\\|")


def _section(title: str, rows: Pairs) -> str:
    return "\n".join([f"## {title}", "", *(f"- {name}: {literal(value)}" for name, value in rows)])


def _metrics(folder: RunFiles) -> str:
    facts, lines = folder.figures, ["## Metrics", ""]
    held = folder.trust.held
    if facts.error_last is None:
        lines.append("Not measured: no labelled image was held out. The error is unknown.")
    else:
        lines.append(
            f"Measured on {count(facts.images)} {facts.measured_on} images that were not trained "
            f"on, at the last step: error {percent(facts.error_last, 2)}, mean accuracy over "
            f"classes {percent(facts.balanced_accuracy, 2)}."
        )
        if held is not None:
            lines.append(
                f"The 95 % confidence interval of the accuracy on such images is {held.low:.1f} to "
                f"{percent(held.high)}."
            )
            lines.append(_confidence(held))
        baseline = folder.baseline_figures
        if baseline is not None and baseline.error_last is not None:
            error = percent(baseline.error_last, 2)
            lines.append(f"The same net, trained on the labelled images only: {error} error.")
    recalls = [percent(value) for value in facts.per_class]
    recalls += [UNKNOWN] * (len(facts.classes) - len(recalls))
    precisions = [percent(one.precision) for one in held.classes] if held is not None else []
    precisions += [UNKNOWN] * (len(facts.classes) - len(precisions))
    lines += ["", "| class | recall | precision |", "|---|---|---|"]
    shown = list(zip(facts.classes, recalls, precisions, strict=False))[:LISTED]
    lines += [f"| {literal(name)} | {found} | {right} |" for name, found, right in shown]
    if len(facts.classes) > LISTED:
        lines += ["", f"… and {count(len(facts.classes) - LISTED)} more classes."]
    return "\n".join(lines)


def _confidence(held: Held) -> str:
    """What the confidences of the model are worth."""
    if held.temperature is None:
        return (
            f"Confidences are the net's own; their expected calibration error is "
            f"{percent(held.before.error)}."
        )
    after = UNKNOWN if held.after is None else percent(held.after.error)
    return (
        f"Logits are divided by a temperature of {decimal(held.temperature)}, fitted on "
        f"{held.fitted_on} validation images; the expected calibration error is {after}, without "
        f"it {percent(held.before.error)}."
    )


def _limits(facts: Figures) -> str:
    points = [
        "The prediction is always one of the classes above, even for an image that shows none of "
        "them, and may then still have a high confidence.",
        "Where calibration was not measured, or is poor, a confidence of 90 % may not mean that 9 "
        "of 10 predictions are correct.",
        "Images are first cropped to their central square and scaled down to the model's size; "
        "what is no longer visible cannot be distinguished.",
        "Most training images had no label. Where the model mistook a class for another early "
        "on, it may have taught itself that mistake: check the accuracy of each class.",
        "The figures hold for images like those they were measured on, and for one training run.",
        "The run does not record who owns the images, what they may be used for, or whom a wrong "
        "prediction affects. Please add it here.",
    ]
    if facts.images is not None and facts.images < 100:
        points.insert(0, f"{count(facts.images)} images are too few for a reliable error.")
    return "\n".join(["## Limits", "", *(f"- {point}" for point in points)])


def _use(*, own_net: bool) -> str:
    if own_net:
        return USE.format(arguments='"FOLDER", net="FILE.py:NAME"') + OWN
    return USE.format(arguments='"FOLDER"')


USE = """## Use

With this folder as `FOLDER`:

```python
import tamatch

model = tamatch.load({arguments})
prediction = model.predict(["image.jpg"])
print(prediction.label, prediction.confidence)
```

`model.safetensors` holds the weights, `model.json` the classes, the image size, the normalisation
and the temperature of the confidences. Neither can run code when it is read."""

OWN = """

The net is the author's own code, which is not in this folder: `FILE.py:NAME` names the class or
function that makes it."""
