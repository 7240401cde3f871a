"""gpt-oss' experts as its files have them: 32 values as 16 bytes of e2m1 and one power of two."""
import json
import os

import torch
from safetensors.torch import save_file

# e2m1; the first value of a byte is in its low four bits.
VALUES = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
BLOCK_VALUES = 32
EXPONENT_BIAS = 127


def dequantise(blocks, scales):
    """[experts, rows, blocks, 16] and [experts, rows, blocks] -> [experts, rows, columns]."""
    pairs = torch.stack([VALUES[(blocks & 15).long()], VALUES[(blocks >> 4).long()]], dim=-1)
    values = pairs.flatten(-2) * torch.exp2(scales.float() - EXPONENT_BIAS)[..., None]
    return values.flatten(-2)


def random_blocks(experts, rows, columns, generator):
    shape = (experts, rows, columns // BLOCK_VALUES)
    blocks = torch.randint(0, 256, (*shape, 16), generator=generator, dtype=torch.uint8)
    scales = torch.randint(121, 125, shape, generator=generator, dtype=torch.uint8)
    # Some far below what f16 holds; their values do not matter, but must not become others.
    tiny = torch.rand(shape, generator=generator) < 0.02
    return blocks, torch.where(tiny, torch.tensor(80, dtype=torch.uint8), scales)


def theirs(blocks, scales):
    """What transformers makes of them, or None where it does not offer it without kernels."""
    try:
        from transformers.integrations.mxfp4 import convert_moe_packed_tensors

        return convert_moe_packed_tensors(blocks, scales, dtype=torch.float32)
    except Exception:
        return None


def save(model, folder, generator):
    """Replaces the experts' matrices of `model` by what random blocks mean, and writes config.json
    and model.safetensors with the blocks. Other tensors are bf16."""
    state = model.state_dict()
    out, compared = {}, 0
    for name, parameter in state.items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            out[name] = parameter.detach().to(torch.bfloat16).contiguous().clone()
            continue
        experts, columns, rows = parameter.shape  # stored as x @ matrix
        blocks, scales = random_blocks(experts, rows, columns, generator)
        matrix = dequantise(blocks, scales).transpose(1, 2).contiguous()
        check = theirs(blocks, scales)
        if check is not None:
            compared += 1
            if not torch.equal(check.float().reshape(matrix.shape), matrix):
                raise ValueError(f"{name}: transformers reads the blocks in another way")
        with torch.no_grad():
            parameter.copy_(matrix)
        out[name + "_blocks"], out[name + "_scales"] = blocks, scales
    save_file(out, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    model.config.save_pretrained(folder)
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["architectures"] = ["GptOssForCausalLM"]
    config["dtype"] = "bfloat16"
    config["quantization_config"] = {
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "model.embed_tokens",
            "lm_head",
        ],
        "quant_method": "mxfp4",
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1, sort_keys=True)
        file.write("\n")
    return f"{compared} matrices as transformers dequantises them"
