#!/usr/bin/env python3
"""Writes a checkpoint folder of a model's exact shape with random bf16 weights.

For measuring size and speed: the text such a model writes is noise. The defaults are the shape of
Qwen3-0.6B (1.2 GB). With --tokenizer FILE that file becomes its tokenizer.json, so that it can be
served. No packages beyond Python's own are needed.
"""
import argparse
import json
import os
import random
import shutil
import struct

# High bytes of bf16 numbers of magnitude 0.008 to 0.03: what trained matrices of this width hold.
HIGH_BYTES = bytes((0x3C, 0xBC)[i & 1] for i in range(256))


def random_bf16(generator, count):
    values = bytearray(2 * count)
    values[0::2] = generator.randbytes(count)
    values[1::2] = generator.randbytes(count).translate(HIGH_BYTES)
    return values


def tensor_shapes(args):
    q, kv = args.heads * args.head_dim, args.kv_heads * args.head_dim
    shapes = {
        "model.embed_tokens.weight": [args.vocab, args.hidden],
        "model.norm.weight": [args.hidden],
    }
    for layer in range(args.layers):
        prefix = f"model.layers.{layer}."
        for name, shape in {
            "input_layernorm.weight": [args.hidden],
            "self_attn.q_proj.weight": [q, args.hidden],
            "self_attn.k_proj.weight": [kv, args.hidden],
            "self_attn.v_proj.weight": [kv, args.hidden],
            "self_attn.q_norm.weight": [args.head_dim],
            "self_attn.k_norm.weight": [args.head_dim],
            "self_attn.o_proj.weight": [args.hidden, q],
            "post_attention_layernorm.weight": [args.hidden],
            "mlp.gate_proj.weight": [args.mlp, args.hidden],
            "mlp.up_proj.weight": [args.mlp, args.hidden],
            "mlp.down_proj.weight": [args.hidden, args.mlp],
        }.items():
            shapes[prefix + name] = shape
    return shapes


def write_weights(path, shapes, generator):
    header, offset = {}, 0
    for name, shape in shapes.items():
        count = 1
        for dimension in shape:
            count *= dimension
        end = offset + 2 * count
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, entry in header.items():
            left = (entry["data_offsets"][1] - entry["data_offsets"][0]) // 2
            while left > 0:
                count = min(left, 1 << 22)
                file.write(random_bf16(generator, count))
                left -= count


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    for name, default in {
        "layers": 28,
        "hidden": 1024,
        "mlp": 3072,
        "heads": 16,
        "kv-heads": 8,
        "head-dim": 128,
        "vocab": 151936,
    }.items():
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--tokenizer")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    config = {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
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
        "tie_word_embeddings": True,
        "hidden_act": "silu",
    }
    with open(os.path.join(args.folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)
    path = os.path.join(args.folder, "model.safetensors")
    write_weights(path, tensor_shapes(args), random.Random(1))
    if args.tokenizer:
        shutil.copy(args.tokenizer, os.path.join(args.folder, "tokenizer.json"))


if __name__ == "__main__":
    main()
