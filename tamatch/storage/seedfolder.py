"""The folder of several seeds: a run folder for each, and one record of all of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import UsageError
from . import record
from .folder import SEEDS, RunFolder, make_folder, removing_empty_folders


class SeedFolder:
    """Seed 7 lies in s7; seeds.json lists the seeds, and at the end what came out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.record = path / SEEDS

    def runs(self, seeds: Sequence[int]) -> list[RunFolder]:
        folders = [RunFolder(self.path / f"s{seed}") for seed in seeds]
        for folder in folders:
            if folder.path.is_symlink():
                raise UsageError(f"{folder.path} is a symbolic link. Give the folder it leads to.")
        return folders

    def seeds(self) -> list[int]:
        """Those that the record lists."""
        advice = "Restore it, or give the run folders next to it"
        found: list[int] = record.read_sealed(self.record, record.SEEDS, advice)["seeds"]
        return found

    @contextmanager
    def taken(self, seeds: list[int]) -> Iterator[None]:
        """Hold the folder for new runs; if none of them begins, nothing is left behind."""
        new = not self.record.exists()
        with removing_empty_folders(self.path):
            self.claim(seeds)
            try:
                yield
            finally:
                if new and [*self.path.iterdir()] == [self.record]:
                    self.record.unlink()

    def claim(self, seeds: list[int]) -> None:
        """Take the folder for these seeds, before anything else is written there."""
        if self.record.exists():
            if (there := self.seeds()) != seeds:
                listed = ", ".join(map(str, there))
                raise UsageError(
                    f"--out {self.path} already contains the seeds {listed}. Choose a different "
                    "--out."
                )
            return
        if self.path.is_dir() and any(self.path.iterdir()):
            what = "contains a run" if RunFolder(self.path).record.exists() else "is not empty"
            raise UsageError(
                f"--out {self.path} {what}; --seeds needs a folder of its own. Choose a different "
                "--out."
            )
        make_folder(self.path)
        self.write({"seeds": seeds})

    def write(self, content: dict[str, Any]) -> None:
        """Write seeds.json."""
        record.write_sealed(self.record, content)


def runs_in(path: Path) -> list[RunFolder]:
    """The runs that a path stands for: itself, or the seeds that lie in it."""
    home = SeedFolder(path)
    return home.runs(home.seeds()) if home.record.exists() else [RunFolder(path)]
