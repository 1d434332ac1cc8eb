"""The command line: thin commands. Nothing here imports torch by itself."""

import os
import resource
import sys
from collections.abc import Callable, Sequence
from functools import partial
from io import TextIOWrapper

from ..errors import DeviceError, Stopped, TamatchError, UsageError
from ..machine import launch
from ..machine.gpu import gpu_failure, leave
from .output import Output, safe_output

TRAINING = ("train", "resume")  # may run in several processes, and read more options themselves
LOAD_TORCH = (*TRAINING, "predict", "label", "evaluate", "export", "pick", "review", "start")
LEAST_MEMORY = 700_000_000  # bytes of addresses that torch takes when it is loaded


def main(argv: Sequence[str] | None = None) -> int:
    return guarded(partial(command, argv))


def command(argv: Sequence[str] | None, stdout: Output | None) -> int:
    """The exit code of a command. What `train` shows is in its run folder, so it may be lost."""
    from .commands import top_parser  # here: Ctrl-C while modules are loaded is no error either

    parser = top_parser()
    arguments, extra = parser.parse_known_args(argv)
    if extra and arguments.command not in TRAINING:
        raise getattr(arguments, "parser", parser).not_an_option(extra[0])
    if arguments.command is None:
        parser.print_help()
        return 0
    if launch.processes() > 1 and arguments.command not in TRAINING:
        raise UsageError("torchrun works only with `tamatch train` and `tamatch resume`.")
    if arguments.command in LOAD_TORCH:
        refuse_little_memory()
    arguments.extra = extra
    if stdout is not None:
        shown_only = arguments.command not in TRAINING or vars(arguments).get("print_config")
        stdout.needed = bool(shown_only)
    status: int = arguments.run(arguments)
    sys.stdout.flush()
    return status


def guarded(run: Callable[[Output | None], int], program: str = "tamatch") -> int:
    """Run a command; errors a user can cause are one line, never a stack trace."""
    with safe_output() as stdout:
        return told_in_one_line(partial(run, stdout), program, own_process=stdout is not None)


def told_in_one_line(run: Callable[[], int], program: str, *, own_process: bool) -> int:
    # Before torch is loaded: threads that wait must not burn the cores of a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if isinstance(sys.stdout, TextIOWrapper):  # its encoding may lack →, Π or a class's name
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return run()
    except (TamatchError, Stopped) as error:
        if launch.local_rank() == 0 or not error.in_every_process:
            print(f"{program}: {error}", file=sys.stderr)
        return leave(error.exit_code) if isinstance(error, DeviceError) else error.exit_code
    except KeyboardInterrupt:
        print(f"{program}: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        return 0
    except (MemoryError, SystemError, ImportError) as error:
        if isinstance(error, ImportError) and "failed to map segment" not in str(error):
            raise
        why = "out of memory: this process may not use enough of it."
        print(f"{program}: {why}", file=sys.stderr)
        if own_process:
            sys.stderr.flush()
            os._exit(2)  # half-loaded modules fail once more, at length, while they are taken down
        return 2
    except RuntimeError as error:
        if (failure := gpu_failure(error)) is None:
            raise
        print(f"{program}: {failure}", file=sys.stderr)
        return leave(failure.exit_code)


def refuse_little_memory() -> None:
    """With too little, torch aborts the process while it is loaded, and nobody learns why."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_MEMORY:
        raise UsageError(
            f"out of memory: this process may use {limit // 10**6:,} MB (`ulimit -v`), and torch "
            f"alone takes {LEAST_MEMORY // 10**6:,} MB."
        )
