"""The command line: one thin file per command. Nothing here imports torch by itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from ..errors import DeviceError, Stopped, TamatchError, UsageError
from ..machine import launch
from ..machine.gpu_failure import gpu_failure, leave

TRAINING = ("train", "resume")  # may run in several processes, and read more options themselves


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; errors a user can cause are one line, never a stack trace."""
    # Before torch is loaded: threads that wait must not burn the cores of a busy machine.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if isinstance(sys.stdout, TextIOWrapper):  # its encoding may lack →, Π or a class's name
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
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
        arguments.extra = extra
        status: int = arguments.run(arguments)
        return status
    except (TamatchError, Stopped) as error:
        if launch.local_rank() == 0 or not error.in_every_process:
            print(f"tamatch: {error}", file=sys.stderr)
        return leave(error.exit_code) if isinstance(error, DeviceError) else error.exit_code
    except RuntimeError as error:
        if (failure := gpu_failure(error)) is None:
            raise
        print(f"tamatch: {failure}", file=sys.stderr)
        return leave(failure.exit_code)
    except KeyboardInterrupt:
        print("tamatch: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
