"""Random numbers without a generator: each is a hash of where it is used."""

from typing import TypeVar

import torch
from torch import Tensor

_LOW = 0xFFFFFFFF  # all arithmetic is modulo 2^32
_GOLDEN = 0x9E3779B9  # 2^32 divided by the golden ratio: spreads neighbouring draw numbers
_Word = TypeVar("_Word", int, Tensor)


def _mix(x: _Word) -> _Word:
    """A bijection of 32-bit words in which every input bit flips every output bit half the time.

    The second factor stands for 0x846CA68B; written as a negative number it keeps every product
    inside 63 bits, so that nothing overflows and all devices agree.
    """
    x = (x ^ (x >> 16)) * 0x7FEB352D & _LOW
    x = (x ^ (x >> 15)) * (0x846CA68B - 2**32) & _LOW
    return x ^ (x >> 16)


def keys(seed: int, stream: int) -> tuple[int, int]:
    """The two hash keys of a stream; with one, two streams could have the same rows reordered."""
    key = _mix(_mix(_mix(seed & _LOW) ^ (seed >> 32 & _LOW)) + stream & _LOW)
    return key, _mix(key + _GOLDEN & _LOW)


def uniform(seed: int, step: Tensor, slot: Tensor, stream: int, count: int) -> Tensor:
    """Numbers in [0, 1), float32 (N, count): entry (i, j) depends on nothing but its address.

    The address is (seed, step, slot[i], stream, j), with `step` a 0-dim int64 tensor and `slot`
    int64 (N,), both below 2^32. Multiples of 2^-24, bit-identical on every device.
    """
    key, second_key = keys(seed, stream)
    batch = _mix(step & _LOW ^ key) ^ second_key
    rows = _mix(slot & _LOW ^ batch)
    draws = torch.arange(count, device=slot.device) * _GOLDEN & _LOW
    words = _mix(rows[:, None] ^ draws)
    return (words >> 8).to(torch.float32) * 2.0**-24
