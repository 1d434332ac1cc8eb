"""BatchNorm of a batch that two processes share is torch's BatchNorm of the whole batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from tamatch import dist
from tamatch.errors import UsageError
from tamatch.nets.base import BatchNorm2d, share_norms
from tests.dist.pair import in_both

SHAPE = (12, 5, 4, 4)


def used(norm: nn.BatchNorm2d, dtype: torch.dtype) -> dict[str, Tensor]:
    """Outputs, gradients and statistics after two batches that are far from the origin."""
    random = torch.Generator().manual_seed(0)
    found = {}
    for step in range(2):
        whole = (3 + 10 * step + torch.randn(SHAPE, generator=random)).to(dtype)
        towards = torch.randn(SHAPE, generator=random).to(dtype)
        x = dist.mine(whole).clone().requires_grad_()
        y = norm(x)
        (y * dist.mine(towards)).mean().backward()
        assert x.grad is not None and y.dtype == dtype
        found |= {f"y{step}": dist.gather(y.detach()), f"x{step}": dist.gather(x.grad)}
    dist.mean_grads_(norm.parameters())
    found |= {n: p.grad for n, p in norm.named_parameters() if p.grad is not None}
    return {**found, **norm.state_dict()}


def made(kind: type[nn.BatchNorm2d], momentum: float) -> nn.BatchNorm2d:
    norm = kind(SHAPE[1], eps=1e-3, momentum=momentum)
    nn.init.uniform_(norm.weight, generator=torch.Generator().manual_seed(1))
    return norm


CASES = [(torch.float32, 0.1), (torch.float32, 0.0), (torch.bfloat16, 0.1)]


def work() -> list[dict[str, Tensor]]:
    return [used(made(BatchNorm2d, momentum), dtype) for dtype, momentum in CASES]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Tensor]]]:
    return in_both(work, tmp_path_factory.mktemp("pair"))


@pytest.mark.parametrize("case", range(len(CASES)))
def test_shared_equals_whole(case: int, both: list[list[dict[str, Tensor]]]) -> None:
    dtype, momentum = CASES[case]
    one = used(made(nn.BatchNorm2d, momentum), dtype)
    close = 1e-5 if dtype == torch.float32 else 2e-2
    for found in (results[case] for results in both):
        for name, value in one.items():
            scale = 2 if name in ("x0", "x1") else 1  # of a mean over half as many
            got = found[name] / scale
            torch.testing.assert_close(got, value.to(got), rtol=close, atol=close, msg=name)


def test_layers_of_other_nets_become_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Sequential(nn.Conv2d(3, 5, 1), nn.BatchNorm2d(5))
    share_norms(net)
    assert type(net[1]) is nn.BatchNorm2d  # in a process that is alone
    monkeypatch.setattr(dist, "alone", lambda: False)
    before = net.state_dict()
    share_norms(net)
    assert type(net[1]) is BatchNorm2d and net.state_dict().keys() == before.keys()
    with pytest.raises(UsageError, match="1 is a BatchNorm1d, which would normalise"):
        share_norms(nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5)))


def test_a_process_alone_computes_as_torch_does() -> None:
    ours, theirs = (used(made(kind, 0.1), torch.float32) for kind in (BatchNorm2d, nn.BatchNorm2d))
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())
