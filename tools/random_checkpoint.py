#!/usr/bin/env python3
"""Writes a checkpoint folder of a model's exact shape with random bf16 weights.

For measuring size and speed: the text such a model writes is noise. The defaults are the shape of
Qwen3-0.6B (1.2 GB); --like names others. --experts makes a Qwen3-MoE; gpt-oss-20b has its experts
in MXFP4. --sparse leaves the weights out: files of the full length with holes, which read as zeros
and take no disk. --shards cuts the weights into several files with an index, as large models come.
With --tokenizer FILE that file becomes its tokenizer.json, and the tokenizer_config.json beside it
comes along, so that it can be served. --untied gives the head weights of its own, as mixtures have
them anyway: where it reads the embedding, random layers repeat one token for ever.
No packages beyond Python's own are needed.
"""
import argparse
import json
import math
import os
import random
import shutil
import struct

# High bytes of bf16 numbers of magnitude 0.008 to 0.03: what trained matrices of this width hold.
HIGH_BYTES = bytes((0x3C, 0xBC)[i & 1] for i in range(256))

SHAPES = {
    "qwen3-0.6b": dict(layers=28, hidden=1024, mlp=3072, heads=16, kv_heads=8),
    "qwen3-4b": dict(layers=36, hidden=2560, mlp=9728, heads=32, kv_heads=8),
    "qwen3-30b-a3b": dict(
        layers=48,
        hidden=2048,
        mlp=6144,
        heads=32,
        kv_heads=4,
        experts=128,
        chosen=8,
        expert_columns=768,
    ),
    "gpt-oss-20b": dict(
        layers=24,
        hidden=2880,
        mlp=2880,
        heads=64,
        kv_heads=8,
        experts=32,
        chosen=4,
        expert_columns=2880,
    ),
}


def random_bf16(generator, count):
    values = bytearray(2 * count)
    values[0::2] = generator.randbytes(count)
    values[1::2] = generator.randbytes(count).translate(HIGH_BYTES)
    return values


def is_gpt_oss(args):
    return args.like == "gpt-oss-20b"


# MXFP4: two values a byte, one exponent for 32.
def mxfp4_shapes(args):
    experts, width, hidden = args.experts, args.expert_columns, args.hidden
    prefix = "mlp.experts."
    return {
        "self_attn.q_proj.bias": [args.heads * args.head_dim],
        "self_attn.k_proj.bias": [args.kv_heads * args.head_dim],
        "self_attn.v_proj.bias": [args.kv_heads * args.head_dim],
        "self_attn.o_proj.bias": [hidden],
        "self_attn.sinks": [args.heads],
        "mlp.router.weight": [experts, hidden],
        "mlp.router.bias": [experts],
        prefix + "gate_up_proj_blocks": [experts, 2 * width, hidden // 32, 16],
        prefix + "gate_up_proj_scales": [experts, 2 * width, hidden // 32],
        prefix + "gate_up_proj_bias": [experts, 2 * width],
        prefix + "down_proj_blocks": [experts, hidden, width // 32, 16],
        prefix + "down_proj_scales": [experts, hidden, width // 32],
        prefix + "down_proj_bias": [experts, hidden],
    }


def mlp_shapes(args):
    def gated(prefix, width):
        return {
            prefix + "gate_proj.weight": [width, args.hidden],
            prefix + "up_proj.weight": [width, args.hidden],
            prefix + "down_proj.weight": [args.hidden, width],
        }

    if is_gpt_oss(args):
        return mxfp4_shapes(args)
    if not args.experts:
        return gated("mlp.", args.mlp)
    shapes = {"mlp.gate.weight": [args.experts, args.hidden]}
    for expert in range(args.experts):
        shapes.update(gated(f"mlp.experts.{expert}.", args.expert_columns))
    return shapes


def tensor_shapes(args):
    q, kv = args.heads * args.head_dim, args.kv_heads * args.head_dim
    shapes = {"model.embed_tokens.weight": [args.vocab, args.hidden]}
    for layer in range(args.layers):
        prefix = f"model.layers.{layer}."
        for name, shape in {
            "input_layernorm.weight": [args.hidden],
            "self_attn.q_proj.weight": [q, args.hidden],
            "self_attn.k_proj.weight": [kv, args.hidden],
            "self_attn.v_proj.weight": [kv, args.hidden],
            **(
                {}
                if is_gpt_oss(args)
                else {
                    "self_attn.q_norm.weight": [args.head_dim],
                    "self_attn.k_norm.weight": [args.head_dim],
                }
            ),
            "self_attn.o_proj.weight": [args.hidden, q],
            "post_attention_layernorm.weight": [args.hidden],
            **mlp_shapes(args),
        }.items():
            shapes[prefix + name] = shape
    shapes["model.norm.weight"] = [args.hidden]
    if args.untied:
        shapes["lm_head.weight"] = [args.vocab, args.hidden]
    return shapes


def is_bytes(name):
    return name.endswith(("_blocks", "_scales"))


def byte_count(name, shape):
    return (1 if is_bytes(name) else 2) * math.prod(shape)


def random_values(generator, name, count):
    if name.endswith("_scales"):  # 2^-11 to 2^-8
        return generator.randbytes(count).translate(bytes(116 + (i & 3) for i in range(256)))
    return generator.randbytes(count) if is_bytes(name) else random_bf16(generator, count)


def write_weights(path, shapes, generator):
    """`generator` None: a hole instead of weights."""
    header, offset = {}, 0
    for name, shape in shapes.items():
        end = offset + byte_count(name, shape)
        dtype = "U8" if is_bytes(name) else "BF16"
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        if generator is None:
            file.truncate(8 + len(text) + offset)
            return
        for name, shape in shapes.items():
            left = math.prod(shape)
            while left > 0:
                count = min(left, 1 << 22)
                file.write(random_values(generator, name, count))
                left -= count


def write_shards(folder, shapes, count, generator):
    """Tensors in order, in `count` files of about the same length."""
    total = sum(byte_count(name, shape) for name, shape in shapes.items())
    shards, done = [{} for _ in range(count)], 0
    for name, shape in shapes.items():
        shards[min(count - 1, done * count // total)][name] = shape
        done += byte_count(name, shape)
    weight_map = {}
    for i, shard in enumerate(shards):
        file = f"model-{i + 1:05}-of-{count:05}.safetensors"
        weight_map.update({name: file for name in shard})
        write_weights(os.path.join(folder, file), shard, generator)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump(index, file, indent=1)


def configuration(args):
    config = {
        "architectures": ["Qwen3MoeForCausalLM" if args.experts else "Qwen3ForCausalLM"],
        "model_type": "qwen3_moe" if args.experts else "qwen3",
        "hidden_size": args.hidden,
        "intermediate_size": args.mlp,
        "num_hidden_layers": args.layers,
        "num_attention_heads": args.heads,
        "num_key_value_heads": args.kv_heads,
        "head_dim": args.head_dim,
        "vocab_size": args.vocab,
        "max_position_embeddings": 40960,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000,
        "tie_word_embeddings": not args.untied,
        "hidden_act": "silu",
    }
    if is_gpt_oss(args):
        config.update(
            architectures=["GptOssForCausalLM"],
            model_type="gpt_oss",
            attention_bias=True,
            hidden_act="silu",
            num_local_experts=args.experts,
            num_experts_per_tok=args.chosen,
            sliding_window=128,
            layer_types=["sliding_attention", "full_attention"] * (args.layers // 2)
            + ["sliding_attention"] * (args.layers % 2),
            quantization_config={"quant_method": "mxfp4"},
            rms_norm_eps=1e-5,
            rope_theta=150000,
            rope_scaling={
                "rope_type": "yarn",
                "factor": 32.0,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "original_max_position_embeddings": 4096,
                "truncate": False,
            },
        )
    elif args.experts:
        config["num_experts"] = args.experts
        config["num_experts_per_tok"] = args.chosen
        config["moe_intermediate_size"] = args.expert_columns
        config["norm_topk_prob"] = True
    return config


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--like", choices=SHAPES, default="qwen3-0.6b")
    names = ["layers", "hidden", "mlp", "heads", "kv-heads", "experts", "chosen", "expert-columns"]
    for name in names:
        parser.add_argument("--" + name, type=int)
    parser.add_argument("--head-dim", type=int)
    parser.add_argument("--vocab", type=int, default=151936)
    parser.add_argument("--untied", action="store_true")
    parser.add_argument("--sparse", action="store_true")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--tokenizer")
    args = parser.parse_args()
    if args.head_dim is None:
        args.head_dim = 64 if is_gpt_oss(args) else 128
    for name in names:
        key = name.replace("-", "_")
        if getattr(args, key) is None:
            setattr(args, key, SHAPES[args.like].get(key, 0))
    args.untied = args.untied or args.experts > 0
    return args


def main():
    args = parse_arguments()
    os.makedirs(args.folder, exist_ok=True)
    with open(os.path.join(args.folder, "config.json"), "w") as file:
        json.dump(configuration(args), file, indent=1)
    generator = None if args.sparse else random.Random(1)
    shapes = tensor_shapes(args)
    if args.shards > 1:
        write_shards(args.folder, shapes, args.shards, generator)
    else:
        write_weights(os.path.join(args.folder, "model.safetensors"), shapes, generator)
    if args.tokenizer:
        shutil.copy(args.tokenizer, os.path.join(args.folder, "tokenizer.json"))
        # The chat template, without which nobody can chat with the package.
        config = os.path.join(os.path.dirname(args.tokenizer), "tokenizer_config.json")
        if os.path.exists(config):
            shutil.copy(config, args.folder)


if __name__ == "__main__":
    main()
