"""Weight files as others publish them, made from a net of ours: names and axes written by hand."""

from __future__ import annotations

from torch import Tensor

from tamatch.nets.vit import ViT

State = dict[str, Tensor]


def google(net: ViT) -> State:
    """As in Google's .npz files."""
    state, heads = net.state_dict(), net.blocks[0].attn.heads  # type: ignore[union-attr]
    width = net.width
    made = {
        "cls": state["cls_token"],
        "Transformer/posembed_input/pos_embedding": state["pos_embed"],
        "embedding/kernel": state["patch_embed.proj.weight"].permute(2, 3, 1, 0),
        "embedding/bias": state["patch_embed.proj.bias"],
        "Transformer/encoder_norm/scale": state["norm.weight"],
        "Transformer/encoder_norm/bias": state["norm.bias"],
        "pre_logits/kernel": state["head.weight"].T,
        "head/kernel": state["head.weight"].T,
        "head/bias": state["head.bias"],
    }
    for i in range(len(net.blocks)):
        block = {k.removeprefix(f"blocks.{i}."): v for k, v in state.items() if f"blocks.{i}." in k}
        there = f"Transformer/encoderblock_{i}"
        attention = f"{there}/MultiHeadDotProductAttention_1"
        for part, weight, bias in zip(
            ("query", "key", "value"),
            block["attn.qkv.weight"].chunk(3),
            block["attn.qkv.bias"].chunk(3),
            strict=True,
        ):
            made[f"{attention}/{part}/kernel"] = weight.T.reshape(width, heads, -1)
            made[f"{attention}/{part}/bias"] = bias.reshape(heads, -1)
        made[f"{attention}/out/kernel"] = block["attn.proj.weight"].T.reshape(heads, -1, width)
        made[f"{attention}/out/bias"] = block["attn.proj.bias"]
        for theirs, ours in (("LayerNorm_0", "norm1"), ("LayerNorm_2", "norm2")):
            made[f"{there}/{theirs}/scale"] = block[f"{ours}.weight"]
            made[f"{there}/{theirs}/bias"] = block[f"{ours}.bias"]
        for theirs, ours in (("Dense_0", "fc1"), ("Dense_1", "fc2")):
            made[f"{there}/MlpBlock_3/{theirs}/kernel"] = block[f"mlp.{ours}.weight"].T
            made[f"{there}/MlpBlock_3/{theirs}/bias"] = block[f"mlp.{ours}.bias"]
    return {k: v.contiguous() for k, v in made.items()}


def transformers(net: ViT, prefix: str = "vit.") -> State:
    """As the `transformers` package writes its classifiers."""
    made = {}
    for name, value in net.state_dict().items():
        first, _, rest = name.partition(".")
        if first == "blocks":
            number, _, inner = rest.partition(".")
            there = f"{prefix}encoder.layer.{number}."
            if inner.startswith("attn.qkv"):
                for part, third in zip(("query", "key", "value"), value.chunk(3), strict=True):
                    kind = inner.rpartition(".")[2]
                    made[f"{there}attention.attention.{part}.{kind}"] = third.contiguous()
                continue
            for ours, theirs in (
                ("attn.proj", "attention.output.dense"), ("norm1", "layernorm_before"),
                ("norm2", "layernorm_after"), ("mlp.fc1", "intermediate.dense"),
                ("mlp.fc2", "output.dense"),
            ):  # fmt: skip
                inner = inner.replace(ours, theirs) if inner.startswith(ours) else inner
            made[there + inner] = value
        elif first == "head":
            made[f"classifier.{rest}"] = value
        else:
            known = {
                "cls_token": "embeddings.cls_token",
                "pos_embed": "embeddings.position_embeddings",
                "patch_embed": "embeddings.patch_embeddings.projection",
                "norm": "layernorm",
            }
            rest = rest.removeprefix("proj.")
            made[prefix + known[first] + (f".{rest}" if rest else "")] = value
    return made


def transformers5(net: ViT) -> State:
    """As `state_dict` names them since version 5; its files still have the older names."""
    newer = {
        "encoder.layer": "layers", "attention.attention.query": "attention.q_proj",
        "attention.attention.key": "attention.k_proj", "attention.output.dense": "attention.o_proj",
        "attention.attention.value": "attention.v_proj", "intermediate.dense": "mlp.fc1",
        ".output.dense": ".mlp.fc2",
    }  # fmt: skip
    made = {}
    for name, value in transformers(net).items():
        for old, new in newer.items():
            name = name.replace(old, new)
        made[name] = value
    return made


def torchvision(net: ViT) -> State:
    """As torchvision's later files are; its earlier ones say `mlp.linear_1` for `mlp.0`."""
    made = {}
    for name, value in net.state_dict().items():
        first, _, rest = name.partition(".")
        if first == "blocks":
            number, _, inner = rest.partition(".")
            inner = inner.replace("attn.qkv.", "self_attention.in_proj_")
            for ours, theirs in (
                ("attn.proj", "self_attention.out_proj"), ("norm1", "ln_1"), ("norm2", "ln_2"),
                ("mlp.fc1", "mlp.0"), ("mlp.fc2", "mlp.3"),
            ):  # fmt: skip
                inner = inner.replace(ours, theirs)
            made[f"encoder.layers.encoder_layer_{number}.{inner}"] = value
        else:
            known = {
                "cls_token": "class_token",
                "pos_embed": "encoder.pos_embedding",
                "patch_embed.proj.weight": "conv_proj.weight",
                "patch_embed.proj.bias": "conv_proj.bias",
                "norm.weight": "encoder.ln.weight",
                "norm.bias": "encoder.ln.bias",
            }
            made[known.get(name, f"heads.{name}")] = value
    return made
