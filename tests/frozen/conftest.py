"""A small pre-trained net for the tests of what is made of frozen features."""

from __future__ import annotations

import pytest
import torch
from safetensors.torch import save_file

from tamatch import nets

NET = "vit_64x2_p8_32"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The weights of a small transformer; its values are random."""
    torch.manual_seed(1)
    file = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    save_file(nets.build(NET, 5, 32).state_dict(), file)
    return str(file)
