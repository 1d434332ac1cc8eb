"""Triton's language by NumPy: the kernels on a CPU, with every address they touch checked.

`install` puts it in the place of Triton, which has no build for most machines and is a gigabyte on
the others. Programs run one after the other. A load or store outside of its tensor is an error,
and so is an index beyond a histogram; what no kernel has written is NaN.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from functools import partial
from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import torch

DTYPES = {
    **{name: np.dtype(name) for name in ("float32", "float64", "int32", "int64", "uint8")},
    "uint32": np.dtype("uint32"), "bfloat16": np.dtype(ml_dtypes.bfloat16),
}  # fmt: skip
Array = np.ndarray[Any, np.dtype[Any]]
grid: dict[str, tuple[int, ...]] = {}  # the program that runs, and how many there are


class OutOfBounds(AssertionError):
    """A kernel has left a tensor."""


class Block:
    """Numbers that a program computes with; a scalar has no axis."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, data: Any) -> None:
        self.data: Array = np.asarray(data)
        self.dtype = self.data.dtype

    def __getitem__(self, index: Any) -> Block:
        return Block(self.data[index])

    def __index__(self) -> int:
        return int(self.data.item())

    def __bool__(self) -> bool:
        return bool(self.data.item())

    def to(self, dtype: np.dtype[Any]) -> Block:
        with np.errstate(invalid="ignore"):  # positions that are masked may hold anything
            return Block(self.data.astype(dtype))


def is_float(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "f" or dtype == DTYPES["bfloat16"]


def common(one: Any, other: Any) -> tuple[Array, Array]:
    """Both in the type in which Triton computes: a Python number takes that of the block."""
    blocks = [value.data.dtype for value in (one, other) if isinstance(value, Block)]
    floats = [dtype for dtype in blocks if is_float(dtype)]
    dtype = np.result_type(*(floats or blocks))
    if not floats and any(isinstance(value, float) for value in (one, other)):
        dtype = DTYPES["float32"]
    elif {*blocks} == {DTYPES["uint32"], DTYPES["int32"]}:
        dtype = DTYPES["uint32"]
    values = (value.data if isinstance(value, Block) else value for value in (one, other))
    one, other = (np.asarray(value).astype(dtype) for value in values)
    return one, other


def binary(function: Callable[..., Any], one: Any, other: Any) -> Block:
    with np.errstate(all="ignore"):  # words wrap around, and so may what is masked
        return Block(function(*common(one, other)))


def divide(one: Array, other: Array) -> Array:
    whole = not is_float(one.dtype)
    return one.astype(np.float32) / other.astype(np.float32) if whole else one / other


OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "mod", "xor", "lt", "le")},
    **{name: getattr(operator, name) for name in ("gt", "ge", "eq", "ne", "rshift", "floordiv")},
    "and": operator.and_, "or": operator.or_, "truediv": divide,
}  # fmt: skip
for name, function in OPERATORS.items():
    there = partial(lambda function, one, other: binary(function, one, other), function)
    back = partial(lambda function, one, other: binary(function, other, one), function)
    method = lambda work: lambda self, other: work(self, other)  # noqa: E731
    setattr(Block, f"__{name}__", method(there))
    setattr(Block, f"__r{name}__", method(back))


class Pointer:
    """Places in one tensor, counted in elements from its first."""

    def __init__(self, memory: Array, at: Any = 0) -> None:
        self.memory, self.at = memory, np.asarray(at, np.int64)
        self.dtype = SimpleNamespace(element_ty=memory.dtype)

    def __add__(self, other: Any) -> Pointer:
        return Pointer(self.memory, self.at + as_array(other))

    def places(self, mask: Any) -> tuple[Array, Array]:
        """Where to read or write, and which of the places are meant."""
        at, wanted = np.broadcast_arrays(self.at, as_array(mask))
        if (outside := wanted & ((at < 0) | (at >= len(self.memory)))).any():
            raise OutOfBounds(f"{at[outside][0]} in a tensor of {len(self.memory)} elements")
        return at, wanted


def as_array(value: Any) -> Array:
    return value.data if isinstance(value, Block) else np.asarray(value)


def as_argument(value: Any) -> Any:
    """As a kernel gets it: tensors with the memory between their first and last element."""
    if isinstance(value, torch.Tensor):
        steps = zip(value.shape, value.stride(), strict=True)
        extent = 1 + sum((size - 1) * stride for size, stride in steps) if value.numel() else 0
        memory = torch.as_strided(value.detach(), (extent,), (1,), value.storage_offset())
        if memory.dtype == torch.bfloat16:
            return Pointer(memory.view(torch.uint16).numpy().view(ml_dtypes.bfloat16))
        return Pointer(memory.numpy())
    if isinstance(value, int):
        return Block(np.int32(value) if -(2**31) <= value < 2**31 else np.int64(value))
    return Block(np.float32(value)) if isinstance(value, float) else value


class Kernel:
    """A function with a decorator: called by another one, or started on a grid of programs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *given: Any) -> Any:
        return self.function(*given)

    def __getitem__(self, shape: tuple[int, ...]) -> Callable[..., None]:
        def start(*given: Any, **constants: Any) -> None:
            for name in ("num_warps", "num_stages", "enable_fp_fusion"):
                constants.pop(name, None)
            arguments = [as_argument(value) for value in given]
            for program in product(*map(range, shape)):
                grid.update(program=(*program, 0, 0), shape=(*shape, 1, 1))
                self.function(*arguments, **constants)

        return start


def jit(function: Callable[..., Any] | None = None, **_: Any) -> Any:
    return Kernel if function is None else Kernel(function)


def load(pointer: Pointer, mask: Any = True, other: Any = 0) -> Block:
    at, wanted = pointer.places(mask)
    values = np.full(at.shape, other, pointer.memory.dtype)
    values[wanted] = pointer.memory[at[wanted]]
    return Block(values)


def store(pointer: Pointer, value: Any, mask: Any = True) -> None:
    at, wanted = pointer.places(mask)
    pointer.memory[at[wanted]] = np.broadcast_to(as_array(value), at.shape)[wanted]


def where(condition: Any, one: Any, other: Any) -> Block:
    if isinstance(one, Block) or isinstance(other, Block):
        one, other = common(one, other)
    else:
        kind = np.float32 if isinstance(one, float) or isinstance(other, float) else np.int32
        one, other = kind(one), kind(other)
    return Block(np.where(as_array(condition), one, other))


def histogram(x: Block, bins: int) -> Block:
    if x.data.min() < 0 or x.data.max() >= bins:
        raise OutOfBounds(f"a number in a histogram of {bins}")
    return Block(np.bincount(x.data.ravel(), minlength=bins).astype(np.int32))


def dot(a: Block, b: Block, total: Block | None = None, input_precision: str = "") -> Block:
    """Factors in half precision have exact products, which are added up in single precision."""
    product = a.data.astype(np.float32) @ b.data.astype(np.float32)
    return Block(product if total is None else total.data + product)


def unary(function: Callable[[Array], Any]) -> Callable[[Block], Block]:
    return lambda x: Block(function(x.data))


def reduced(function: Callable[..., Any]) -> Callable[..., Block]:
    return lambda x, axis=None: Block(np.asarray(function(x.data, axis=axis), x.data.dtype))


def language() -> ModuleType:
    """The module `triton.language`."""
    tl = ModuleType("triton.language")
    for name in ("floor", "abs", "cos", "sin", "exp2", "log2", "sqrt"):
        setattr(tl, name, unary(getattr(np, name)))
    for name in ("min", "max", "sum", "cumsum"):
        setattr(tl, name, reduced(getattr(np, name)))
    for name in ("maximum", "minimum"):
        setattr(tl, name, partial(binary, getattr(np, name)))
    tl.__dict__.update(
        DTYPES,
        load=load, store=store, where=where, histogram=histogram, dot=dot,
        constexpr=lambda value: value, range=range, static_range=range,
        debug_barrier=lambda: None, trans=unary(np.transpose),
        arange=lambda first, end: Block(np.arange(first, end, dtype=np.int32)),
        zeros=lambda shape, dtype: Block(np.zeros(shape, dtype)),
        full=lambda shape, value, dtype: Block(np.full(shape, value, dtype)),
        program_id=lambda axis: Block(np.int32(grid["program"][axis])),
        num_programs=lambda axis: Block(np.int32(grid["shape"][axis])),
    )  # fmt: skip
    return tl


def install() -> None:
    """Let what is imported from here on get this in the place of Triton."""
    torch.use_deterministic_algorithms(True)  # new tensors are NaN; torch's compiler is imported
    triton, cache = ModuleType("triton"), ModuleType("triton.runtime.cache")
    triton.__dict__.update(
        jit=jit, language=language(), cdiv=lambda a, b: -(-a // b),
        next_power_of_2=lambda n: 1 << max(n - 1, 0).bit_length(),
    )  # fmt: skip
    cache.__dict__.update(get_cache_manager=None)  # for CUDA's kernels, which are not compiled here
    sys.modules.update({
        "triton": triton, "triton.language": triton.language,
        "triton.runtime": ModuleType("triton.runtime"), "triton.runtime.cache": cache,
    })  # fmt: skip


if __name__ == "__main__":
    install()
    from tests.gpu.interpreted import main

    main()
