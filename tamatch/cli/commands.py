"""The commands by name, and the parser of them all."""

from .. import __version__, bench
from . import train, use
from .parser import Parser

COMMANDS = {  # the module of its `add_NAME` and `run_NAME`, and what it does
    "start": (use, "label a folder of images from nothing, with live answers, and train on it"),
    "check": (train, "describe a data set or a folder before training on it"),
    "train": (train, "train a classifier"),
    "resume": (train, "continue a stopped run exactly where it stopped"),
    "evaluate": (use, "test a run's model"),
    "predict": (use, "label images with a run's model"),
    "label": (use, "write labels for a run's unlabelled pool to a CSV"),
    "pick": (use, "list the images of a folder that are most worth a label"),
    "review": (use, "label the most useful images in the browser"),
    "export": (use, "export a run's model for other programs, and verify it"),
    "report": (use, "write report.html for a run, or compare several"),
    "history": (use, "write the curves of a run as CSV"),
    "bench": (bench, "make the runs of a table, rank methods, measure speed"),
    "from-usb": (train, "turn a configuration of USB into a command"),
    "methods": (train, "list the methods, or the options of one"),
    "nets": (train, "list the nets"),
}


def top_parser() -> Parser:
    top = Parser(
        prog="tamatch", allow_abbrev=False,
        description="Learn an image classifier from a few labels and many unlabelled images.",
        epilog="`tamatch train` by itself runs a demo. `tamatch COMMAND --help` shows its options.",
    )  # fmt: skip
    top.add_argument("--version", action="version", version=f"tamatch {__version__}")
    subs = top.add_subparsers(
        dest="command", metavar="COMMAND", title="commands", parser_class=Parser
    )
    for name, (module, summary) in COMMANDS.items():
        sub = subs.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        in_code = name.replace("-", "_")
        sub.set_defaults(run=getattr(module, f"run_{in_code}"), parser=sub)
        getattr(module, f"add_{in_code}")(sub)
    return top
