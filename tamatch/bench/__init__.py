"""`tamatch bench NAME`: lists of runs, their tables, ranks and speed.

Each bench is in a module that is imported when asked for, and torch when a run is trained. What
judges the paper is in `paper/`, which is not part of the package.
"""

import argparse
from dataclasses import dataclass
from importlib import import_module

from ..errors import unknown_name


@dataclass(frozen=True)
class Bench:
    """A bench's module has `add_arguments(parser)` and `run(arguments) -> int`."""

    summary: str
    module: str  # of this package


TRAINING = ("sweep", "race")  # modules whose benches take the options of `train`
BENCHES: dict[str, Bench] = {
    "usb": Bench("Table 1: 20 methods on CIFAR-100, STL-10 and EuroSAT", "sweep"),
    "rank": Bench("Table 2: Friedman ranks and mean errors", "rank"),
    "lt": Bench("Table 3: long-tailed CIFAR-10", "sweep"),
    "ablation-usb": Bench("Table 4: TaMatch's parts on CIFAR-100", "sweep"),
    "ablation-lt": Bench("Table 5: TaMatch's parts on long-tailed CIFAR-10", "sweep"),
    "stand-in": Bench("Table 1 with a small pre-trained ViT instead of the paper's", "sweep"),
    "ablation-stand-in": Bench("Table 4 with that net", "sweep"),
    "causes": Bench("what affects TaMatch's error in Table 3, one option at a time", "sweep"),
    "tails": Bench("methods for long tails, TaMatch-LT's variants, other pools", "sweep"),
    "classic": Bench("wide residual nets on CIFAR-10, CIFAR-100, STL-10 and SVHN", "sweep"),
    "race": Bench("steps and minutes to 80, 90 and 94 % accuracy on CIFAR-10", "race"),
    "own": Bench("methods on a folder of your own images", "sweep"),
    "digits": Bench("all methods and ablations on the embedded digits", "sweep"),
    "speed": Bench("speed of a training step on this machine", "speed"),
}


def add_bench(sub: argparse.ArgumentParser) -> None:
    """A bench's name; what follows it is read by the bench's own parser, of the same kind."""
    sub.formatter_class = argparse.RawDescriptionHelpFormatter
    sub.epilog = "\n".join(
        [*(f"  {name:17} {bench.summary}" for name, bench in BENCHES.items()),
         "", "`tamatch bench NAME --help` lists a bench's options."]
    )  # fmt: skip
    sub.add_argument("name", metavar="NAME", nargs="?", help="one of those below")
    sub.add_argument("rest", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    sub.set_defaults(bench_parser=sub)


def run_bench(arguments: argparse.Namespace) -> int:
    sub: argparse.ArgumentParser = arguments.bench_parser
    if arguments.name is None:
        sub.print_help()
        return 0
    if arguments.name not in BENCHES:
        raise unknown_name("bench", arguments.name, BENCHES)
    bench = BENCHES[arguments.name]
    module = import_module(f"{__package__}.{bench.module}")
    parser = type(sub)(
        prog=f"{sub.prog} {arguments.name}", description=bench.summary, allow_abbrev=False
    )
    parser.set_defaults(bench=arguments.name)
    module.add_arguments(parser)
    found, extra = parser.parse_known_args(arguments.rest)
    found.extra = extra  # options of `train`, perhaps
    if found.extra and bench.module not in TRAINING:
        parser.error(f"unrecognized arguments: {found.extra[0]}")
    status: int = module.run(found)
    return status
