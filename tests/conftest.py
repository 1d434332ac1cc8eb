"""Test settings: examples without a clock, since these machines are shared and slow."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # a run on photos asks the hub for weights

# A job in the background of a shell begins with Ctrl-C ignored, and would hand that down to the
# processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # on some GPU machines nothing can be installed; no GPU test needs it
    pass
else:
    settings.register_profile(
        "tests", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("tests")


# Of torch itself on a GPU; any other warning fails a test there as elsewhere.
SAID_ON_A_GPU = (
    "Synchronization debug mode is a prototype",
    "`torch.jit.script_method` is deprecated",  # when its compiler is imported
    "TensorFloat32 tensor cores for float32 matrix multiplication available",
    "The .grad attribute of a Tensor that is not a leaf",  # its compiler hides it from users
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    sampled: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample") is not None:
            sampled.setdefault(item.nodeid.partition("[")[0], []).append(item)
        if item.get_closest_marker("gpu") is not None:
            for words in SAID_ON_A_GPU:
                item.add_marker(pytest.mark.filterwarnings(f"ignore:{words}"))
    for cases in sampled.values():
        mark = cases[0].get_closest_marker("sample")
        assert mark is not None
        chosen = {i * len(cases) // mark.args[0] for i in range(mark.args[0])}
        for i, case in enumerate(cases):
            if i not in chosen:
                case.add_marker(pytest.mark.slow)


gc.disable()  # until the tests are collected: a third of that time went into finding no garbage


def pytest_collection_finish() -> None:
    """Spare every later collection of garbage the million objects that imports have made."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def without_waiting_for_the_disk() -> Iterator[None]:
    """No power fails here, and a run of a dozen steps would wait for the disk 60 times.

    Tests of what is flushed, and in which order, put their own `os.fsync` in place.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that is marked `gpu` needs one."""
    if item.get_closest_marker("gpu") is None:
        return
    import torch  # some runs of tests need none

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    from tamatch.settings.hardware import set_up_torch

    set_up_torch("fp32")  # whatever the test before has left
