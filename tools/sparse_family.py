#!/usr/bin/env python3
"""Writes a checkpoint folder of a recent family's exact shape whose weights are holes in a file.

For measuring speed and memory: the weights read as zeros, but for two numbers in every matrix that
make each another blob, and take hardly any disk. Vectors are ones. Embeddings and the matrices that
choose experts are random, so that tokens choose experts as differently as those of a trained model
or more so. --like names the shape, --layers N takes its first
N layers. Heads and widths are those of the published configurations, gemma4-12b's those of Gemma 3
12B with heads of 512 columns in the layers that attend to everything. No packages beyond Python's
own are needed.
"""
import argparse
import json
import os
import random
import struct

EMBEDDED = 8192  # tokens that have a row of their own

QWEN35 = dict(
    model_type="qwen3_5_text",
    architectures=["Qwen3_5ForCausalLM"],
    head_dim=256,
    linear_num_key_heads=16,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    linear_conv_kernel_dim=4,
    partial_rotary_factor=0.25,
    rope_parameters=dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.25),
    vocab_size=248320,
)
GEMMA4 = dict(
    model_type="gemma4_text",
    architectures=["Gemma4ForCausalLM"],
    head_dim=256,
    attention_k_eq_v=True,
    hidden_activation="gelu_pytorch_tanh",
    final_logit_softcapping=30.0,
    hidden_size_per_layer_input=0,
    num_kv_shared_layers=0,
    sliding_window=1024,
    tie_word_embeddings=True,
    vocab_size=262144,
    rope_parameters=dict(
        full_attention=dict(rope_type="proportional", rope_theta=1e6, partial_rotary_factor=0.25),
        sliding_attention=dict(rope_type="default", rope_theta=1e4),
    ),
)
SHAPES = {
    "qwen3.5-9b": QWEN35
    | dict(
        hidden_size=4096,
        intermediate_size=12288,
        num_hidden_layers=32,
        num_attention_heads=16,
        num_key_value_heads=4,
        linear_num_value_heads=32,
    ),
    "qwen3.6-27b": QWEN35
    | dict(
        hidden_size=5120,
        intermediate_size=17408,
        num_hidden_layers=64,
        num_attention_heads=24,
        num_key_value_heads=4,
        linear_num_value_heads=48,
    ),
    "qwen3.6-35b-a3b": QWEN35
    | dict(
        model_type="qwen3_5_moe_text",
        architectures=["Qwen3_5MoeForCausalLM"],
        hidden_size=2048,
        intermediate_size=512,
        moe_intermediate_size=512,
        shared_expert_intermediate_size=512,
        num_experts=256,
        num_experts_per_tok=8,
        num_hidden_layers=40,
        num_attention_heads=16,
        num_key_value_heads=2,
        linear_num_value_heads=32,
    ),
    "gemma4-12b": GEMMA4
    | dict(
        hidden_size=3840,
        intermediate_size=15360,
        num_hidden_layers=48,
        num_attention_heads=16,
        num_key_value_heads=8,
        full_kv_heads=1,
    ),
    "gemma4-26b-a4b": GEMMA4
    | dict(
        hidden_size=2816,
        intermediate_size=2112,
        enable_moe_block=True,
        moe_intermediate_size=704,
        num_experts=128,
        top_k_experts=8,
        num_hidden_layers=30,
        num_attention_heads=16,
        num_key_value_heads=8,
        full_kv_heads=2,
    ),
    "glm-4.7-flash": dict(
        model_type="glm4_moe_lite",
        architectures=["Glm4MoeLiteForCausalLM"],
        hidden_size=2048,
        intermediate_size=10240,
        moe_intermediate_size=1536,
        num_hidden_layers=47,
        num_attention_heads=20,
        num_key_value_heads=20,
        q_lora_rank=768,
        kv_lora_rank=512,
        qk_nope_head_dim=192,
        qk_rope_head_dim=64,
        qk_head_dim=256,
        v_head_dim=256,
        n_routed_experts=64,
        num_experts_per_tok=4,
        n_shared_experts=1,
        first_k_dense_replace=1,
        routed_scaling_factor=1.8,
        rope_parameters=dict(rope_type="default", rope_theta=1e6),
        vocab_size=154880,
    ),
}
for name, hidden, mlp, layers, heads in (
    ("qwen3-1.7b", 2048, 6144, 28, 16),
    ("qwen3-4b", 2560, 9728, 36, 32),
    ("qwen3-8b", 4096, 12288, 36, 32),
):
    SHAPES[name] = dict(
        model_type="qwen3",
        architectures=["Qwen3ForCausalLM"],
        hidden_size=hidden,
        intermediate_size=mlp,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=128,
        rope_parameters=dict(rope_type="default", rope_theta=1e6),
        vocab_size=151936,
    )


def is_full(config, layer):
    every = 6 if config["model_type"].startswith("gemma4") else 4
    return (layer + 1) % every == 0


def mlp(prefix, hidden, width):
    return {
        f"{prefix}gate_proj.weight": [width, hidden],
        f"{prefix}up_proj.weight": [width, hidden],
        f"{prefix}down_proj.weight": [hidden, width],
    }


def experts(prefix, count, hidden, width):
    return {
        f"{prefix}experts.gate_up_proj": [count, 2 * width, hidden],
        f"{prefix}experts.down_proj": [count, hidden, width],
    }


def attention(c, heads_of_keys, columns, has_values=True, has_gate=False, has_norms=True):
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    rows = heads * columns * (2 if has_gate else 1)
    out = {
        "self_attn.q_proj.weight": [rows, hidden],
        "self_attn.k_proj.weight": [heads_of_keys * columns, hidden],
        "self_attn.o_proj.weight": [hidden, heads * columns],
    }
    if has_values:
        out["self_attn.v_proj.weight"] = [heads_of_keys * columns, hidden]
    if has_norms:
        out |= {"self_attn.q_norm.weight": [columns], "self_attn.k_norm.weight": [columns]}
    return out


def delta_net(c):
    hidden, values = c["hidden_size"], c["linear_num_value_heads"]
    keys = c["linear_num_key_heads"] * c["linear_key_head_dim"]
    width = values * c["linear_value_head_dim"]
    path = "linear_attn."
    return {
        f"{path}A_log": [values],
        f"{path}dt_bias": [values],
        f"{path}conv1d.weight": [2 * keys + width, 1, c["linear_conv_kernel_dim"]],
        f"{path}in_proj_a.weight": [values, hidden],
        f"{path}in_proj_b.weight": [values, hidden],
        f"{path}in_proj_qkv.weight": [2 * keys + width, hidden],
        f"{path}in_proj_z.weight": [width, hidden],
        f"{path}norm.weight": [c["linear_value_head_dim"]],
        f"{path}out_proj.weight": [hidden, width],
    }


def latent(c):
    hidden, heads = c["hidden_size"], c["num_attention_heads"]
    nope, rope, value = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    return {
        "self_attn.q_a_proj.weight": [c["q_lora_rank"], hidden],
        "self_attn.q_a_layernorm.weight": [c["q_lora_rank"]],
        "self_attn.q_b_proj.weight": [heads * (nope + rope), c["q_lora_rank"]],
        "self_attn.kv_a_proj_with_mqa.weight": [c["kv_lora_rank"] + rope, hidden],
        "self_attn.kv_a_layernorm.weight": [c["kv_lora_rank"]],
        "self_attn.kv_b_proj.weight": [heads * (nope + value), c["kv_lora_rank"]],
        "self_attn.o_proj.weight": [hidden, heads * value],
    }


def layer_tensors(c, layer):
    hidden, kind = c["hidden_size"], c["model_type"]
    norms = ["input_layernorm", "post_attention_layernorm"]
    if kind.startswith("qwen3_5"):
        full = is_full(c, layer)
        mixer = attention(c, c["num_key_value_heads"], 256, has_gate=True) if full else delta_net(c)
        if "num_experts" not in c:
            block = mlp("mlp.", hidden, c["intermediate_size"])
        else:
            block = experts("mlp.", c["num_experts"], hidden, c["moe_intermediate_size"])
            shared = c["shared_expert_intermediate_size"]
            block |= mlp("mlp.shared_expert.", hidden, shared)
            block["mlp.gate.weight"] = [c["num_experts"], hidden]
            block["mlp.shared_expert_gate.weight"] = [1, hidden]
    elif kind == "gemma4_text":
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        if is_full(c, layer):
            mixer = attention(c, c["full_kv_heads"], 512, has_values=False)
        else:
            mixer = attention(c, c["num_key_value_heads"], 256)
        block = mlp("mlp.", hidden, c["intermediate_size"]) | {"layer_scalar": [1]}
        if c.get("enable_moe_block"):
            norms += ["post_feedforward_layernorm_1", "pre_feedforward_layernorm_2"]
            norms += ["post_feedforward_layernorm_2"]
            block |= experts("", c["num_experts"], hidden, c["moe_intermediate_size"])
            block["router.proj.weight"] = [c["num_experts"], hidden]
            block["router.scale"] = [hidden]
            block["router.per_expert_scale"] = [c["num_experts"]]
    elif kind == "glm4_moe_lite":
        mixer = latent(c)
        if layer < c["first_k_dense_replace"]:
            block = mlp("mlp.", hidden, c["intermediate_size"])
        else:
            width = c["moe_intermediate_size"]
            block = experts("mlp.", c["n_routed_experts"], hidden, width)
            block |= mlp("mlp.shared_experts.", hidden, width)
            block["mlp.gate.weight"] = [c["n_routed_experts"], hidden]
            block["mlp.gate.e_score_correction_bias"] = [c["n_routed_experts"]]
    else:
        mixer = attention(c, c["num_key_value_heads"], c["head_dim"])
        block = mlp("mlp.", hidden, c["intermediate_size"])
    return mixer | block | {f"{norm}.weight": [hidden] for norm in norms}


def completed(config):
    """The configuration with its lists of layers."""
    layers = range(config["num_hidden_layers"])
    common = dict(rms_norm_eps=1e-6, max_position_embeddings=32768, tie_word_embeddings=False)
    config = common | dict(hidden_act="silu", dtype="bfloat16") | config
    if config["model_type"].startswith("qwen3_5"):
        kinds = ["full_attention" if is_full(config, i) else "linear_attention" for i in layers]
        config["layer_types"] = kinds
    if config["model_type"] == "gemma4_text":
        kinds = ["full_attention" if is_full(config, i) else "sliding_attention" for i in layers]
        config["layer_types"] = kinds
        own = dict(head_dim=512, num_key_value_heads=config["full_kv_heads"])
        config["per_layer_config"] = {str(i): own for i in layers if is_full(config, i)}
    return config


def matrices(header):
    """Where the matrices begin, those of an expert each, and their bytes."""
    for tensor in header.values():
        shape, (first, end) = tensor["shape"], tensor["data_offsets"]
        if len(shape) < 2:
            continue
        count = shape[0] if len(shape) == 3 and shape[1] > 1 else 1
        size = (end - first) // count
        for i in range(count):
            yield first + i * size, size


def random_values(count, seed):
    """bf16 of 0.0078 to 0.0156 with random signs."""
    raw = int.from_bytes(random.Random(seed).randbytes(2 * count), "little")
    keep = int.from_bytes(b"\x7f\x80" * count, "little")
    base = int.from_bytes(b"\x00\x3c" * count, "little")
    return (raw & keep | base).to_bytes(2 * count, "little")


def filled(name, shape):
    """What stands at the beginning of a tensor, as bytes; nothing: a hole."""
    count = 1
    for dimension in shape:
        count *= dimension
    if len(shape) == 1:
        return struct.pack("<H", 0x3F80) * count
    if name.endswith(("mlp.gate.weight", "router.proj.weight")):
        return random_values(count, name)
    if name.endswith("embed_tokens.weight"):
        return random_values(min(count, EMBEDDED * shape[1]), name)
    return b""


def write(folder, config):
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    tensors = {"model.embed_tokens.weight": [vocabulary, hidden], "model.norm.weight": [hidden]}
    if not config["tie_word_embeddings"]:
        tensors["lm_head.weight"] = [vocabulary, hidden]
    for layer in range(config["num_hidden_layers"]):
        for name, shape in layer_tensors(config, layer).items():
            tensors[f"model.layers.{layer}.{name}"] = shape
    header, at = {}, 0
    for name, shape in tensors.items():
        size = 2
        for dimension in shape:
            size *= dimension
        header[name] = dict(dtype="BF16", shape=shape, data_offsets=[at, at + size])
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
        for number, (first, size) in enumerate(matrices(header)):
            # Numbers of 0.008 to 0.03 that tell which matrix it is: each the largest of its block.
            for block in range(min(2, size // 64)):
                file.seek(8 + len(text) + first + 64 * block)
                file.write(struct.pack("<H", 0x3C00 + (number >> (8 * block) & 0xFF)))
        for name, tensor in header.items():
            file.seek(8 + len(text) + tensor["data_offsets"][0])
            file.write(filled(name, tensor["shape"]))
    print(f"{folder}: {len(tensors)} tensors, {at / 1e9:.1f} GB, most of it holes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--like", choices=SHAPES, required=True)
    parser.add_argument("--layers", type=int, help="the first so many of them")
    parser.add_argument("folder")
    args = parser.parse_args()
    config = dict(SHAPES[args.like])
    if args.layers:
        config["num_hidden_layers"] = min(args.layers, config["num_hidden_layers"])
    write(args.folder, completed(config))


if __name__ == "__main__":
    main()
