"""Tensor names of vision transformers from other libraries, translated to timm's, which are ours.

Google publishes `.npz` files of its JAX nets, the Hugging Face hub has those of the `transformers`
package, torchvision has a third kind, and CLIP a fourth. The computation is the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

Tensors = dict[str, Tensor]
Names = tuple[tuple[str, str], ...]  # patterns, and what replaces them

GOOGLE: Names = (
    (r"^cls$", "cls_token"),
    (r"^Transformer/posembed_input/pos_embedding$", "pos_embed"),
    (r"^embedding/", "patch_embed.proj."),
    (r"^Transformer/encoder_norm/", "norm."),
    (r"^Transformer/encoderblock_(\d+)/", r"blocks.\1."),
    (r"LayerNorm_0/", "norm1."),
    (r"LayerNorm_2/", "norm2."),
    (r"MultiHeadDotProductAttention_1/(query|key|value)/", r"attn.\1."),
    (r"MultiHeadDotProductAttention_1/out/", "attn.proj."),
    (r"MlpBlock_3/Dense_0/", "mlp.fc1."),
    (r"MlpBlock_3/Dense_1/", "mlp.fc2."),
    (r"(/|\.)(kernel|scale)$", ".weight"),
    (r"/", "."),
)
TRANSFORMERS: Names = (  # in files, and in the memory of version 5
    (r"^vit\.", ""),
    (r"^embeddings\.cls_token$", "cls_token"),
    (r"^embeddings\.position_embeddings$", "pos_embed"),
    (r"^embeddings\.patch_embeddings\.projection\.", "patch_embed.proj."),
    (r"^layernorm\.", "norm."),
    (r"^(?:encoder\.layer|layers)\.(\d+)\.", r"blocks.\1."),
    (r"\.layernorm_before\.", ".norm1."),
    (r"\.layernorm_after\.", ".norm2."),
    (r"\.attention\.attention\.(query|key|value)\.", r".attn.\1."),
    (r"\.attention\.q_proj\.", ".attn.query."),
    (r"\.attention\.k_proj\.", ".attn.key."),
    (r"\.attention\.v_proj\.", ".attn.value."),
    (r"\.attention\.(output\.dense|o_proj)\.", ".attn.proj."),
    (r"\.intermediate\.dense\.", ".mlp.fc1."),
    (r"\.output\.dense\.", ".mlp.fc2."),
)
TORCHVISION: Names = (
    (r"^class_token$", "cls_token"),
    (r"^encoder\.pos_embedding$", "pos_embed"),
    (r"^conv_proj\.", "patch_embed.proj."),
    (r"^heads\.", "head."),
    (r"^encoder\.ln\.", "norm."),
    (r"^encoder\.layers\.encoder_layer_(\d+)\.", r"blocks.\1."),
    (r"\.ln_([12])\.", r".norm\1."),
    (r"\.self_attention\.in_proj_", ".attn.qkv."),
    (r"\.self_attention\.out_proj\.", ".attn.proj."),
    (r"\.mlp\.(linear_1|0)\.", ".mlp.fc1."),
    (r"\.mlp\.(linear_2|3)\.", ".mlp.fc2."),
)
CLIP: Names = (  # of OpenAI and OpenCLIP; the image tower alone
    (r"^visual\.class_embedding$", "cls_token"),
    (r"^visual\.positional_embedding$", "pos_embed"),
    (r"^visual\.proj$", "head.weight"),
    (r"^visual\.conv1\.", "patch_embed.proj."),
    (r"^visual\.ln_pre\.", "norm_pre."),
    (r"^visual\.ln_post\.", "norm."),
    (r"^visual\.transformer\.resblocks\.(\d+)\.", r"blocks.\1."),
    (r"\.ln_([12])\.", r".norm\1."),
    (r"\.attn\.in_proj_", ".attn.qkv."),
    (r"\.attn\.out_proj\.", ".attn.proj."),
    (r"\.mlp\.c_fc\.", ".mlp.fc1."),
    (r"\.mlp\.c_proj\.", ".mlp.fc2."),
)
FORMATS = {  # by a tensor name that only this format has
    "embedding/kernel": GOOGLE,
    "embeddings.cls_token": TRANSFORMERS,
    "vit.embeddings.cls_token": TRANSFORMERS,
    "conv_proj.weight": TORCHVISION,
    "visual.class_embedding": CLIP,
}
PARTS = ("query", "key", "value")


def to_timm_names(tensors: Mapping[str, Tensor]) -> Tensors:
    """The tensors under timm's names and in torch's order of axes; others are left as they are."""
    names = next((names for key, names in FORMATS.items() if key in tensors), None)
    if names is None:
        return dict(tensors)
    if names is CLIP:
        tower = {k: v for k, v in tensors.items() if k.startswith("visual.")}
        return {renamed(k, names): with_batch(k, v) for k, v in tower.items()}
    layout = to_torch_layout if names is GOOGLE else lambda _, tensor: tensor
    return fused_qkv({renamed(k, names): layout(k, v) for k, v in tensors.items()})


def renamed(name: str, names: Names) -> str:
    for pattern, ours in names:
        name = re.sub(pattern, ours, name)
    return name


def with_batch(name: str, tensor: Tensor) -> Tensor:
    """Of CLIP's tensors, tokens and positions lack the axes that timm's have in front."""
    if name.endswith("_embedding"):
        return tensor.reshape(1, -1, tensor.shape[-1])
    return tensor


def to_torch_layout(name: str, tensor: Tensor) -> Tensor:
    """JAX has outputs last, and the heads of attention on an axis of their own."""
    kind = name.rpartition("/")[2]
    if kind == "bias":
        return tensor.flatten()
    if kind != "kernel":
        return tensor
    if name == "embedding/kernel":
        return tensor.permute(3, 2, 0, 1)
    return tensor.flatten(0, -2).T if name.endswith("/out/kernel") else tensor.flatten(1).T


def fused_qkv(tensors: Tensors) -> Tensors:
    """Queries, keys and values as one tensor, where they are three."""
    found = {}
    for name, tensor in tensors.items():
        if f".{PARTS[0]}." in name:
            three = [tensors.get(name.replace(PARTS[0], part), tensor) for part in PARTS]
            found[name.replace(PARTS[0], "qkv")] = torch.cat(three)
        elif not any(f".{part}." in name for part in PARTS):
            found[name] = tensor
    return found
