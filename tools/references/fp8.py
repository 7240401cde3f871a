"""FP8 checkpoints as registries have them: e4m3 matrices and the scales that multiply them.

A block of [rows, columns] values has one scale: 448 / max|value| of it would put the largest value
on the largest code, and `weight_scale_inv` is the inverse of that, max|value| / 448. Ministral's
files have one scale for the whole matrix, a number without dimensions.
"""
import json
import os

import torch
from safetensors.torch import load_file, save_file

LARGEST = 448.0  # of e4m3 without infinities


def quantise(matrix, block):
    """[rows, columns] -> codes of that shape, and scales for each block ([] where it has none)."""
    rows, columns = matrix.shape
    height, width = block or (rows, columns)
    tiles = matrix.float().reshape(rows // height, height, columns // width, width)
    scales = tiles.abs().amax(dim=(1, 3)).clamp(min=1e-6) / LARGEST
    codes = (tiles / scales[:, None, :, None]).reshape(rows, columns).to(torch.float8_e4m3fn)
    return codes, scales if block else scales.reshape(())


def dequantise(codes, scales, block):
    rows, columns = codes.shape
    height, width = block or (rows, columns)
    tiles = codes.float().reshape(rows // height, height, columns // width, width)
    scales = scales.reshape(rows // height, columns // width)
    return (tiles * scales[:, None, :, None]).reshape(rows, columns)


def suits(name, tensor, block):
    """The matrices of attention and of MLPs; routers, embeddings and the head stay as they are."""
    if tensor.dim() != 2 or "proj" not in name or not name.endswith(".weight"):
        return False
    return block is None or (tensor.shape[0] % block[0] == 0 and tensor.shape[1] % block[1] == 0)


def rewrite(folder, block):
    """Quantises the matrices in FOLDER/model.safetensors; config.json says so. Returns how many,
    and all tensors as f32."""
    path = os.path.join(folder, "model.safetensors")
    out, plain, kept, count = {}, {}, [], 0
    for name, tensor in load_file(path).items():
        if not suits(name, tensor, block):
            out[name] = tensor
            plain[name] = tensor.float()
            if tensor.dim() == 2:
                kept.append(name.removesuffix(".weight"))
            continue
        codes, scales = quantise(tensor, block)
        out[name], out[name + "_scale_inv"] = codes, scales
        if block is None:
            stem = name.removesuffix("weight")
            out[stem + "activation_scale"] = torch.tensor(0.01, dtype=torch.bfloat16)
        plain[name] = dequantise(codes, scales, block)
        count += 1
    save_file(out, path, metadata={"format": "pt"})
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["quantization_config"] = {
        "activation_scheme": "dynamic" if block else "static",
        "fmt": "e4m3",
        "modules_to_not_convert": sorted(kept),
        "quant_method": "fp8",
        "weight_block_size": list(block) if block else None,
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1, sort_keys=True)
        file.write("\n")
    return count, plain


def read(folder, block):
    """The model as transformers reads the folder, its matrices as f32."""
    from transformers import AutoModelForCausalLM, FineGrainedFP8Config

    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        kept = json.load(file)["quantization_config"]["modules_to_not_convert"]
    config = FineGrainedFP8Config(
        dequantize=True,
        weight_block_size=block,
        modules_to_not_convert=kept,
        activation_scheme="dynamic" if block else "static",
    )
    return AutoModelForCausalLM.from_pretrained(
        folder,
        dtype=torch.float32,
        attn_implementation="eager",
        local_files_only=True,
        quantization_config=config,
    ).eval()
