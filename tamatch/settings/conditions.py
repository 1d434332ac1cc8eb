"""What a checkpoint was made under: what may not change after it, and what is only told."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path

import torch

from .. import __version__, dist, methods, nets
from ..errors import UsageError
from ..storage.record import MACHINE
from .config import Run

LAST_BITS = "The run continues; results may differ in the last bits."
NEW_CODE = "The run continues with the new code."

Conditions = dict[str, str]


def conditions(run: Run, device: torch.device) -> Conditions:
    """The settings, the versions and the device, as a checkpoint keeps them."""
    settings = {k: v for k, v in dataclasses.asdict(run).items() if k not in MACHINE}
    net = nets.CUSTOM.own_name(run.net)
    own = {"file of the net": file_digest(net)} if nets.is_user_code(run.net) else {}
    cuda = device.type == "cuda"
    return {
        "settings": json.dumps(settings, sort_keys=True),
        "version of tamatch": __version__,
        "version of torch": str(torch.__version__),
        "device": torch.cuda.get_device_name(device) if cuda else device.type,
        "file of the method": file_digest(methods.CUSTOM.own_name(run.method)),
        **own,
        "number of processes": str(dist.world()),
    }


def file_digest(name: str) -> str:
    """Checksum of the file of FILE.py:NAME; empty for what lies in no file."""
    file = Path(name.rpartition(":")[0])
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12] if file.is_file() else ""


def changes_since(then: Conditions, now: Conditions) -> list[str]:
    """What has changed since a checkpoint, in words; an error if it is a setting of the run."""
    old, new = json.loads(then["settings"]), json.loads(now["settings"])
    other = [f"{k} was {v!r}, now it is {new.get(k)!r}" for k, v in old.items() if v != new.get(k)]
    if other:
        raise UsageError(
            f"the settings in run.json differ from those of the checkpoint: {'; '.join(other)}. "
            "Change them back, or start a new run with a different --out."
        )
    return [
        f"The {name} has changed since the checkpoint, from {then[name] or 'no file'} to "
        f"{now[name] or 'no file'}. {NEW_CODE if name.startswith('file') else LAST_BITS}"
        for name in now
        if name != "settings" and then[name] != now[name]
    ]
