"""Self-attention over a few hundred tokens, forward and back by one kernel each.

Torch's kernels cut the tokens into tiles of 64 or 128; the 257 of a 32-pixel image leave most of
the last tile empty, in both directions of the square. Here the rest has a small tile of its own.
Queries, keys and values are read where one linear layer wrote them, and their gradients written
where its backward pass reads them.

Tokens are masked wherever one is read or written. The WIDTH columns of a head need no mask: it is
a power of two (`fits`), and heads lie side by side.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 64  # tokens in a full tile
LEAST = 16  # tokens that the tensor cores take
MOST = 1024  # tokens that were thought of
HEADS = 2**16 - 1  # of all images together: programs along the second axis of a grid
WARPS, STAGES = 4, 2


def fits(width: int, tokens: int) -> bool:
    """Whether these kernels do attention with heads of this width, in half precision."""
    return tokens <= MOST and LEAST <= width <= 128 and width & (width - 1) == 0


@triton.jit
def _rows(start, first, tokens, stride, WIDTH: tl.constexpr, SIZE: tl.constexpr):
    """Tokens `first` and on of one head: where they are, and which of them exist."""
    token = first + tl.arange(0, SIZE)
    column = tl.arange(0, WIDTH)
    return start + token[:, None] * stride + column[None, :], (token < tokens)[:, None]


@triton.jit
def _look(
    q, best, total, seen, k, v, first, tokens, stride, scale,
    WIDTH: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Let queries see `SIZE` more keys; best and total are of powers of two."""
    at, there = _rows(k, first, tokens, stride, WIDTH, SIZE)
    keys = tl.load(at, there, 0.0)
    at, there = _rows(v, first, tokens, stride, WIDTH, SIZE)
    values = tl.load(at, there, 0.0)
    score = tl.dot(q, tl.trans(keys)) * scale
    score = tl.where((first + tl.arange(0, SIZE) < tokens)[None, :], score, float("-inf"))
    better = tl.maximum(best, tl.max(score, 1))
    p, fade = tl.exp2(score - better[:, None]), tl.exp2(best - better)
    seen = tl.dot(p.to(values.dtype), values, seen * fade[:, None])
    return better, total * fade + tl.sum(p, 1), seen


@triton.jit
def _attend_from(
    q, k, v, out, level, first, tokens, stride, out_stride, scale,
    WIDTH: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr,
    TAIL: tl.constexpr,
):  # fmt: skip
    """The output of `SIZE` queries, and log2 Σ 2^score of each."""
    at, there = _rows(q, first, tokens, stride, WIDTH, SIZE)
    query = tl.load(at, there, 0.0)
    best = tl.full((SIZE,), float("-inf"), tl.float32)
    total = tl.zeros((SIZE,), tl.float32)
    seen = tl.zeros((SIZE, WIDTH), tl.float32)
    for i in range(FULL):
        best, total, seen = _look(
            query, best, total, seen, k, v, i * BLOCK, tokens, stride, scale, WIDTH, BLOCK
        )
    if TAIL > 0:
        best, total, seen = _look(
            query, best, total, seen, k, v, FULL * BLOCK, tokens, stride, scale, WIDTH, TAIL
        )
    at, there = _rows(out, first, tokens, out_stride, WIDTH, SIZE)
    tl.store(at, (seen / total[:, None]).to(out.dtype.element_ty), there)
    token = first + tl.arange(0, SIZE)
    tl.store(level + token, best + tl.log2(total), token < tokens)


@triton.jit
def _attend(
    qkv, out, levels, tokens, heads, scale,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """A program for each tile of queries of each head of each image."""
    tile, head = tl.program_id(0), tl.program_id(1)
    image = (head // heads).to(tl.int64)
    row = heads * WIDTH  # of the output; a row of qkv has three
    q = qkv + image * tokens * 3 * row + (head % heads) * WIDTH
    o = out + image * tokens * row + (head % heads) * WIDTH
    level = levels + head.to(tl.int64) * tokens
    if tile < FULL:
        _attend_from(
            q, q + row, q + 2 * row, o, level, tile * BLOCK, tokens, 3 * row, row, scale,
            WIDTH, BLOCK, BLOCK, FULL, TAIL,
        )  # fmt: skip
    elif TAIL > 0:
        _attend_from(
            q, q + row, q + 2 * row, o, level, FULL * BLOCK, tokens, 3 * row, row, scale,
            WIDTH, TAIL, BLOCK, FULL, TAIL,
        )  # fmt: skip


@triton.jit
def _of_keys(
    query, go, delta, level, dq, k, v, first, tokens, stride, scale,
    WIDTH: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Add what `SIZE` keys contribute to the gradient of queries."""
    at, there = _rows(k, first, tokens, stride, WIDTH, SIZE)
    keys = tl.load(at, there, 0.0)
    at, there = _rows(v, first, tokens, stride, WIDTH, SIZE)
    values = tl.load(at, there, 0.0)
    p = tl.exp2(tl.dot(query, tl.trans(keys)) * scale - level[:, None])
    p = tl.where((first + tl.arange(0, SIZE) < tokens)[None, :], p, 0.0)
    ds = p * (tl.dot(go, tl.trans(values)) - delta[:, None])
    return tl.dot(ds.to(keys.dtype), keys, dq)


@triton.jit
def _back_to_queries(
    q, k, v, o, grad, level, dq, first, tokens, stride, out_stride, scale, natural,
    WIDTH: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr,
    TAIL: tl.constexpr,
):  # fmt: skip
    query, go, delta, levels = _query_side(
        q, o, grad, level, first, tokens, stride, out_stride, WIDTH, SIZE
    )
    total = tl.zeros((SIZE, WIDTH), tl.float32)
    for i in range(FULL):
        total = _of_keys(
            query, go, delta, levels, total, k, v, i * BLOCK, tokens, stride, scale, WIDTH, BLOCK
        )
    if TAIL > 0:
        total = _of_keys(
            query, go, delta, levels, total, k, v, FULL * BLOCK, tokens, stride, scale, WIDTH, TAIL
        )
    at, there = _rows(dq, first, tokens, stride, WIDTH, SIZE)
    tl.store(at, (total * natural).to(dq.dtype.element_ty), there)


@triton.jit
def _query_side(
    q, o, grad, level, first, tokens, stride, out_stride,
    WIDTH: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """`SIZE` queries, their output's gradient, its product with the output, and their levels."""
    at, there = _rows(q, first, tokens, stride, WIDTH, SIZE)
    query = tl.load(at, there, 0.0)
    at, there = _rows(grad, first, tokens, out_stride, WIDTH, SIZE)
    go = tl.load(at, there, 0.0)
    at, there = _rows(o, first, tokens, out_stride, WIDTH, SIZE)
    delta = tl.sum(go.to(tl.float32) * tl.load(at, there, 0.0).to(tl.float32), 1)
    token = first + tl.arange(0, SIZE)
    return query, go, delta, tl.load(level + token, token < tokens, 0.0)


@triton.jit
def _of_queries(
    keys, values, dk, dv, q, o, grad, level, first, tokens, stride, out_stride, scale,
    WIDTH: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Add what `SIZE` queries contribute to the gradients of keys and values."""
    query, go, delta, levels = _query_side(
        q, o, grad, level, first, tokens, stride, out_stride, WIDTH, SIZE
    )
    p = tl.exp2(tl.dot(keys, tl.trans(query)) * scale - levels[None, :])
    dv = tl.dot(p.to(go.dtype), go, dv)  # queries that do not exist have no gradient
    ds = p * (tl.dot(values, tl.trans(go)) - delta[None, :])
    return tl.dot(ds.to(query.dtype), query, dk), dv


@triton.jit
def _back_to_keys(
    q, k, v, o, grad, level, dk, dv, first, tokens, stride, out_stride, scale, natural,
    WIDTH: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr,
    TAIL: tl.constexpr,
):  # fmt: skip
    at, there = _rows(k, first, tokens, stride, WIDTH, SIZE)
    keys = tl.load(at, there, 0.0)
    at, there = _rows(v, first, tokens, stride, WIDTH, SIZE)
    values = tl.load(at, there, 0.0)
    total_k = tl.zeros((SIZE, WIDTH), tl.float32)
    total_v = tl.zeros((SIZE, WIDTH), tl.float32)
    for i in range(FULL):
        total_k, total_v = _of_queries(
            keys, values, total_k, total_v, q, o, grad, level, i * BLOCK, tokens, stride,
            out_stride, scale, WIDTH, BLOCK,
        )  # fmt: skip
    if TAIL > 0:
        total_k, total_v = _of_queries(
            keys, values, total_k, total_v, q, o, grad, level, FULL * BLOCK, tokens, stride,
            out_stride, scale, WIDTH, TAIL,
        )  # fmt: skip
    at, there = _rows(dk, first, tokens, stride, WIDTH, SIZE)
    tl.store(at, (total_k * natural).to(dk.dtype.element_ty), there)
    at, there = _rows(dv, first, tokens, stride, WIDTH, SIZE)
    tl.store(at, total_v.to(dv.dtype.element_ty), there)


@triton.jit
def _attend_backward(
    qkv, out, grad, levels, dqkv, tokens, heads, scale, natural,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, FULL: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """The first programs of each head are for tiles of keys, the others for tiles of queries."""
    head, tiles = tl.program_id(1), tl.num_programs(0) // 2
    image = (head // heads).to(tl.int64)
    row = heads * WIDTH
    q = qkv + image * tokens * 3 * row + (head % heads) * WIDTH
    dq = dqkv + image * tokens * 3 * row + (head % heads) * WIDTH
    o = out + image * tokens * row + (head % heads) * WIDTH
    g = grad + image * tokens * row + (head % heads) * WIDTH
    level = levels + head.to(tl.int64) * tokens
    tile = tl.program_id(0) % tiles
    if tl.program_id(0) < tiles:
        if tile < FULL:
            _back_to_keys(
                q, q + row, q + 2 * row, o, g, level, dq + row, dq + 2 * row, tile * BLOCK, tokens,
                3 * row, row, scale, natural, WIDTH, BLOCK, BLOCK, FULL, TAIL,
            )  # fmt: skip
        elif TAIL > 0:
            _back_to_keys(
                q, q + row, q + 2 * row, o, g, level, dq + row, dq + 2 * row, FULL * BLOCK, tokens,
                3 * row, row, scale, natural, WIDTH, TAIL, BLOCK, FULL, TAIL,
            )  # fmt: skip
    else:
        if tile < FULL:
            _back_to_queries(
                q, q + row, q + 2 * row, o, g, level, dq, tile * BLOCK, tokens, 3 * row, row,
                scale, natural, WIDTH, BLOCK, BLOCK, FULL, TAIL,
            )  # fmt: skip
        elif TAIL > 0:
            _back_to_queries(
                q, q + row, q + 2 * row, o, g, level, dq, FULL * BLOCK, tokens, 3 * row, row,
                scale, natural, WIDTH, TAIL, BLOCK, FULL, TAIL,
            )  # fmt: skip


def tiles(tokens: int) -> dict[str, int]:
    """Full tiles and the size of the last one, 0 if all are full."""
    full, rest = divmod(tokens, BLOCK)
    tail = max(LEAST, triton.next_power_of_2(rest)) if rest else 0
    return {"BLOCK": BLOCK, "FULL": full, "TAIL": tail, "num_warps": WARPS, "num_stages": STAGES}


def scales(width: int) -> tuple[float, float]:
    """1/√d for powers of two, and as it is."""
    natural = 1 / math.sqrt(width)
    return natural * math.log2(math.e), natural


@torch.library.custom_op("tamatch::attend", mutates_args=())
def attend(qkv: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    """(N, T, 3·heads·d) to the attention's output (N, T, heads·d), and a number a query."""
    count, tokens, row = qkv.shape
    width = row // (3 * heads)
    out = qkv.new_empty(count, tokens, heads * width)
    levels = qkv.new_empty(count, heads, tokens, dtype=torch.float32)
    sizes = tiles(tokens)
    grid = (sizes["FULL"] + (sizes["TAIL"] > 0), count * heads)
    _attend[grid](qkv, out, levels, tokens, heads, scales(width)[0], WIDTH=width, **sizes)
    return out, levels


@torch.library.custom_op("tamatch::attend_backward", mutates_args=())
def attend_backward(grad: Tensor, qkv: Tensor, out: Tensor, levels: Tensor, heads: int) -> Tensor:
    """The gradient of `qkv`."""
    count, tokens, row = qkv.shape
    dqkv, sizes = torch.empty_like(qkv), tiles(tokens)
    grid = (2 * (sizes["FULL"] + (sizes["TAIL"] > 0)), count * heads)
    width = row // (3 * heads)
    _attend_backward[grid](
        qkv, out, grad, levels, dqkv, tokens, heads, *scales(width), WIDTH=width, **sizes
    )
    return dqkv


@attend.register_fake
def _(qkv: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    count, tokens, row = qkv.shape
    levels = qkv.new_empty(count, heads, tokens, dtype=torch.float32)
    return qkv.new_empty(count, tokens, row // 3), levels


@attend_backward.register_fake
def _(grad: Tensor, qkv: Tensor, out: Tensor, levels: Tensor, heads: int) -> Tensor:
    return torch.empty_like(qkv)


def _remember(ctx: Any, inputs: tuple[Tensor, int], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(inputs[0], *output)
    ctx.heads = inputs[1]


def _back(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None]:
    qkv, out, levels = ctx.saved_tensors
    return attend_backward(grad.contiguous(), qkv, out, levels, ctx.heads), None


attend.register_autograd(_back, setup_context=_remember)


def attention(qkv: Tensor, heads: int) -> Tensor:
    """softmax(QKᵀ/√d)·V of each head, from the output of one linear layer."""
    if len(qkv) * heads > HEADS:
        return torch.cat([attention(part, heads) for part in qkv.split(HEADS // heads)])
    out: Tensor = attend(qkv.contiguous(), heads)[0]
    return out
