"""Where else a run's log lines go: TensorBoard, Weights & Biases, MLflow, and callbacks."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from ..errors import UsageError, one_line

MOST_CLASSES = 100  # classes that are drawn one by one
PROJECT = "tamatch"  # of Weights & Biases, and the experiment of MLflow

Row = Mapping[str, Any]
Callback = Callable[[dict[str, Any]], object]


class Tracker(Protocol):
    """Gets each line of metrics.jsonl."""

    def add(self, row: Row) -> None: ...

    def close(self) -> None: ...


def check_installed(name: str) -> None:
    """An error that says how to get the package, where it is missing."""
    if find_spec(name) is None:
        package = "mlflow-skinny" if name == "mlflow" else name
        raise UsageError(f"--{name} needs the package {name}: `pip install {package}`.")


class Trackers:
    """All trackers of a run. One that fails is reported and dropped, and the run continues."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.open: dict[str, Tracker] = {}

    def begin(self, name: str, make: Callable[[], Tracker]) -> None:
        if (made := self._tried(name, make)) is not None:
            self.open[name] = made

    def add(self, row: Row) -> None:
        """Each gets a copy of its own: nothing that it does with it reaches the run."""
        for name, tracker in [*self.open.items()]:
            self._tried(name, lambda: tracker.add(copy.deepcopy(row)))  # noqa: B023

    def close(self) -> None:
        for name, tracker in [*self.open.items()]:
            self._tried(name, tracker.close)

    def _tried(self, name: str, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except Exception as error:
            self.open.pop(name, None)
            reason = f"{type(error).__name__}: {one_line(error, 200)}"
            self.say(f"{name} failed and gets no more of this run, which goes on ({reason}).")
            return None


class Callbacks:
    """Functions of the user's own: `on_log` for lines of training, `on_test` for tests."""

    def __init__(self, on_log: Callback | None, on_test: Callback | None) -> None:
        for name, told in (("on_log", on_log), ("on_test", on_test)):
            if told is not None and not callable(told):
                raise UsageError(f"{name} takes a function of one argument, got {told!r}.")
        self.on_log, self.on_test = on_log, on_test

    def add(self, row: Row) -> None:
        if (told := self.on_log if row["kind"] == "train" else self.on_test) is not None:
            told(dict(row))

    def close(self) -> None:
        pass


def curves(row: Row, names: Sequence[str]) -> Iterator[tuple[str, float]]:
    """One value per number, and one per class of a list, if there are not too many classes."""
    for name, value in row.items():
        if name in ("kind", "step"):
            continue
        if isinstance(value, int | float):
            yield f"{row['kind']}/{name}", value
        elif isinstance(value, list) and len(value) == len(names) <= MOST_CLASSES:
            for c, one in zip(names, value, strict=True):
                if one is not None:
                    yield f"{row['kind']}/{name}/{c}", one


class TensorBoard:
    """Event files; what a resumed run writes again replaces what it had written."""

    def __init__(self, folder: Path, names: Sequence[str], first_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter  # slow to load, and seldom wanted

        self.names = names
        purge = first_step if first_step > 1 else None
        self.writer = SummaryWriter(str(folder), purge_step=purge)

    def add(self, row: Row) -> None:
        for name, value in curves(row, self.names):
            self.writer.add_scalar(name, value, row["step"])

    def close(self) -> None:
        """Write what is left, and end the thread that writes."""
        self.writer.close()


class WandB:
    """Weights & Biases, as its own environment variables say; a resumed run goes on."""

    def __init__(self, name: str, names: Sequence[str], key: str, config: Row) -> None:
        import wandb  # type: ignore[import-not-found, unused-ignore]

        self.names = names
        self.run = wandb.init(
            project=PROJECT, name=name, id=key, resume="allow", config=dict(config),
            reinit="create_new", settings=wandb.Settings(silent=True, console="off"),
        )  # fmt: skip

    def add(self, row: Row) -> None:
        self.run.log(dict(curves(row, self.names)), step=row["step"])

    def close(self) -> None:
        self.run.finish()


class MLflow:
    """MLflow, where MLFLOW_TRACKING_URI says or its default; a resumed run goes on."""

    def __init__(self, name: str, names: Sequence[str], key: str, config: Row) -> None:
        import mlflow  # type: ignore[import-not-found, unused-ignore]

        self.names, self.client = names, mlflow.MlflowClient()
        found = self.client.get_experiment_by_name(PROJECT)
        experiment = found.experiment_id if found else self.client.create_experiment(PROJECT)
        before = self.client.search_runs([experiment], f"tags.`tamatch.key` = '{key}'")
        if before:
            self.id = before[0].info.run_id
            self.client.update_run(self.id, status="RUNNING")
            return
        tags = {"tamatch.key": key}
        self.id = self.client.create_run(experiment, run_name=name, tags=tags).info.run_id
        for option, value in config.items():
            self.client.log_param(self.id, option, value)

    def add(self, row: Row) -> None:
        for name, value in curves(row, self.names):
            known = re.sub(r"[^\w\-. :/]", "_", name)  # what MLflow allows in a name
            self.client.log_metric(self.id, known, value, step=row["step"])

    def close(self) -> None:
        self.client.set_terminated(self.id)
