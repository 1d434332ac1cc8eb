"""Vision transformers with timm's parameter names, so that its weight files fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import dist
from ..errors import UsageError
from ..machine.gpu import own_kernels
from ..types import Out
from .base import Net, Recomputing

SHAPES = {"tiny": (192, 12, 3), "small": (384, 12, 6), "base": (768, 12, 12)}
HEAD = 64  # numbers of a head in all of these, and in others named WIDTHxDEPTH
MAX_DROP = 0.2  # rate of stochastic depth in the last block; 0 in the first, linear between;
# USB has 0.1 for its ViT-Tiny, which no recipe of the paper uses, and 0.2 for the others
SCALE = 1e-5  # of a branch before training, where there is a LayerScale


@dataclass(frozen=True)
class Style:
    """What the nets of a publisher compute differently from Google's transformers."""

    layer_scale: bool = False  # each branch of a block is multiplied by learnt factors
    registers: int = 0  # more tokens like the class token; with them, none of these has a position
    pre_norm: bool = False  # a norm before the first block, and patches without a bias
    quick_gelu: bool = False  # x · sigmoid(1.702 x) as the activation
    eps: float = 1e-6  # of every norm
    normalise: str = "half"  # the colours that the published weights expect


STYLES = {
    "vit": Style(),
    "dinov2": Style(layer_scale=True, normalise="imagenet"),
    "dinov2reg": Style(layer_scale=True, registers=4, normalise="imagenet"),
    "clip": Style(pre_norm=True, quick_gelu=True, eps=1e-5, normalise="clip"),
}


def build(name: str, classes: int, size: int) -> ViT:
    """Build `STYLE_SHAPE_pPATCH_SIZE` for images of `size`, the one in its name or another."""
    style, shape, side, _ = name.split("_")
    patch = int(side.removeprefix("p"))
    if patch < 1 or size % patch:
        raise UsageError(
            f"{name} splits images into patches of {patch} × {patch} pixels, which do not divide "
            f"{size} × {size} evenly. Choose an image size that is a multiple of {patch}."
        )
    if shape in SHAPES:
        width, depth, heads = SHAPES[shape]
    else:
        width, depth = map(int, shape.split("x"))
        heads = width // HEAD
        if not (heads and depth and width % HEAD == 0):
            raise UsageError(f"{name}: the width must be a multiple of {HEAD}, and the depth ≥ 1.")
    of = STYLES[style]
    return ViT(classes, size=size, patch=patch, width=width, depth=depth, heads=heads, style=of)


class ViT(Net):
    """Pre-norm transformer over patches; the class token after the last norm is the feature."""

    independent = True
    repaid = 8_000  # its blocks are compiled once for all: some 20 s, for 2 to 4 ms of each step

    def __init__(
        self,
        classes: int,
        *,
        size: int,
        patch: int,
        width: int,
        depth: int,
        heads: int,
        style: Style = STYLES["vit"],
    ) -> None:
        super().__init__(classes=classes, width=width, map_width=width)
        self.style = style
        patches = (size // patch) ** 2
        self.cls_token = nn.Parameter(torch.empty(1, 1, width))
        if style.registers:
            self.reg_token = nn.Parameter(torch.empty(1, style.registers, width))
            nn.init.trunc_normal_(self.reg_token, std=0.02)
        self.pos_embed = nn.Parameter(torch.empty(1, patches + (not style.registers), width))
        self.patch_embed = PatchEmbed(patch, width, bias=not style.pre_norm)
        if style.pre_norm:
            self.norm_pre = nn.LayerNorm(width, eps=style.eps)
        self.blocks = nn.ModuleList(
            TransformerBlock(width, heads, MAX_DROP * i / max(depth - 1, 1), style)
            for i in range(depth)
        )
        self.norm = nn.LayerNorm(width, eps=style.eps)
        self.head = nn.Linear(width, classes)
        self.tokens = 1 + style.registers + patches
        # The reference leaves both at 0, where the first LayerNorm has a slope of 1000 for the
        # class token: harmless under loaded weights, which replace them, but not without.
        nn.init.trunc_normal_(self.cls_token, std=0.02)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)

    def forward(self, images: Tensor) -> Out:
        """Classify (N, 3, size, size) images."""
        x = self._embed(images)
        for block in self.blocks[:-1]:
            x = block(x)
        x = self.blocks[-1](x, 1)  # of the last block only the class token is read
        features = self.norm(x[:, 0])
        return self.finish(features, features)

    @property
    def frozen_width(self) -> int:
        """The length of four tokens."""
        return 4 * self.width

    @property
    def frozen_upper(self) -> int:
        """That of the two after the last block."""
        return 2 * self.width

    def frozen_features(self, images: Tensor) -> Tensor:
        """The class token and the mean of the patches' tokens.

        Behind these, the latter after a quarter and a half of the blocks.
        """
        x, patches, means = self._embed(images), 1 + self.style.registers, []
        below = [max(1, len(self.blocks) * part // 4) for part in (1, 2)]
        for count, block in enumerate(self.blocks, start=1):
            x = block(x)
            if count in below:
                mean = F.layer_norm(x[:, patches:].float(), (self.width,)).mean(1)
                means += [mean] * below.count(count)
        x = self.norm(x).float()
        return torch.cat([x[:, 0], x[:, patches:].mean(1), *means], dim=1)

    def _embed(self, images: Tensor) -> Tensor:
        """The tokens that enter the first block: class, registers, patches."""
        x = self.patch_embed(images)
        first = self.cls_token.expand(images.shape[0], -1, -1)
        if self.style.registers:
            registers = self.reg_token.expand(images.shape[0], -1, -1)
            x = torch.cat([first, registers, x + self.pos_embed], dim=1)
        else:
            x = torch.cat([first, x], dim=1) + self.pos_embed
        return self.norm_pre(x) if self.style.pre_norm else x

    def accelerate(self, *, compiling: bool = True, kernels: bool = True) -> None:
        """Compile the blocks, all at once: they are the same code on other tensors.

        Combined kernels, which do many small things, pay where weights are small.
        """
        if own_kernels(kernels):
            from .kernels.attention import attention, fits

            for layer in (m for m in self.modules() if isinstance(m, Attention)):
                if fits(self.width // layer.heads, self.tokens):
                    layer.attention = attention
        self.rehearsable = not compiling
        if compiling:
            combined = self.width < SHAPES["base"][0]
            for block in self.blocks:
                block.compile(dynamic=False, options={"combo_kernels": combined})

    def depth_of(self, parameter: str) -> tuple[int, int]:
        """Tokens and patches 0, then a layer per block; the last norm goes with the last block."""
        blocks = len(self.blocks)
        part, *rest = parameter.split(".")
        names = ("cls_token", "reg_token", "pos_embed", "patch_embed", "norm_pre")
        stem = dict.fromkeys(names, 0)
        layer = {**stem, "norm": blocks}.get(part, blocks + 1)
        if part == "blocks":
            layer = 1 + int(rest[0])
        return layer, blocks + 1


class PatchEmbed(nn.Module):
    """One token per patch, a linear function of its pixels."""

    def __init__(self, patch: int, width: int, *, bias: bool = True) -> None:
        super().__init__()
        self.proj = nn.Conv2d(3, width, patch, stride=patch, bias=bias)

    def forward(self, images: Tensor) -> Tensor:
        """Map (N, 3, H, W) to (N, patches, width)."""
        # As one matrix product: cuDNN has no fast convolution for three channels.
        count, colours, height, width = images.shape
        side = self.proj.stride[0]
        grid = images.reshape(count, colours, height // side, side, width // side, side)
        rows = grid.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
        return F.linear(rows, self.proj.weight.flatten(1), self.proj.bias)


class TransformerBlock(Recomputing):
    """x + attention, then x + MLP; in training either may be dropped for a whole sample."""

    keep: Tensor  # share of the samples whose branch is not dropped

    def __init__(self, width: int, heads: int, drop: float, style: Style = STYLES["vit"]) -> None:
        super().__init__()
        # a tensor: compiled code is shared by blocks that differ in nothing but tensors
        self.register_buffer("keep", torch.tensor(1 - drop), persistent=False)
        self.drops = drop > 0
        self.norm1 = nn.LayerNorm(width, eps=style.eps)
        self.attn = Attention(width, heads)
        self.ls1 = LayerScale(width) if style.layer_scale else nn.Identity()
        self.norm2 = nn.LayerNorm(width, eps=style.eps)
        self.mlp = Mlp(width, quick_gelu=style.quick_gelu)
        self.ls2 = LayerScale(width) if style.layer_scale else nn.Identity()

    def forward(self, x: Tensor, first: int | None = None) -> Tensor:
        """Map (N, tokens, width) to the same, or to the `first` tokens alone."""
        x = x[:, :first] + self._maybe_drop(self.keep_or_recompute(self._attend, x, first))
        return x + self._maybe_drop(self.keep_or_recompute(self._feed_forward, x))

    def _attend(self, x: Tensor, first: int | None) -> Tensor:
        return cast(Tensor, self.ls1(self.attn(self.norm1(x), first)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.ls2(self.mlp(self.norm2(x))))

    def _maybe_drop(self, branch: Tensor) -> Tensor:
        if not (self.training and self.drops):
            return branch
        draws = torch.rand(dist.world() * branch.shape[0], 1, 1, device=branch.device)
        kept = dist.mine(draws) < self.keep  # processes must not drop alike
        return branch * (kept / self.keep).to(branch.dtype)


class Attention(nn.Module):
    """Multi-head self-attention by torch's fused kernel, or by one of our own."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention: Callable[[Tensor, int], Tensor] | None = None  # by a kernel of our own
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor, first: int | None = None) -> Tensor:
        """Let the `first` tokens, or all, look at all tokens."""
        qkv = self.qkv(x)
        if self.attention is not None and first is None and qkv.element_size() == 2:
            return cast(Tensor, self.proj(self.attention(qkv, self.heads)))
        q, k, v = qkv.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = attended(q[:, :, :first], k, v)
        return cast(Tensor, self.proj(seen.transpose(1, 2).flatten(2)))


def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """softmax(q·kᵀ / √width)·v, of (N, heads, tokens, width)."""
    if q.device.type != "cpu" or q.dtype != torch.bfloat16:
        return F.scaled_dot_product_attention(q, k, v)
    # on a CPU torch's fused kernel takes twice as long in bfloat16 as the products themselves
    queries, keys, values = (part.flatten(0, 1) for part in (q, k, v))
    none = queries.new_zeros(())
    scores = torch.baddbmm(none, queries, keys.mT, beta=0, alpha=q.shape[-1] ** -0.5)
    return torch.bmm(scores.softmax(-1), values).view(q.shape)


class LayerScale(nn.Module):
    """A learnt factor for each number of a token."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((width,), SCALE))

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., width) to the same shape."""
        return x * self.gamma


class Mlp(nn.Module):
    """Two linear layers with four times the width between them."""

    def __init__(self, width: int, *, quick_gelu: bool = False) -> None:
        super().__init__()
        self.quick_gelu = quick_gelu
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., width) to the same shape."""
        h = self.fc1(x)
        h = h * torch.sigmoid(1.702 * h) if self.quick_gelu else F.gelu(h)
        return cast(Tensor, self.fc2(h))
