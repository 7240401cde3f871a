#!/usr/bin/env python3
"""Writes tiny random checkpoints with what transformers computes from them, to test weft with.

Every model of models.py becomes OUT/NAME with config.json, safetensors as transformers writes them
and reference.safetensors: input_ids i64 [n], logits f32 [n, vocab], greedy_ids i64 [24],
greedy_margin f32 [24] (best minus second best logit). Weights are rounded to the file's dtype, the
reference is computed from them in float32 with eager attention, from the files as they were written
wherever transformers can read them back. The tests that use a selection of them are in
tests/conformance.

Needs PyTorch, transformers 5 and safetensors; no network.
"""
import argparse
import copy
import json
import os
import shutil
import sys
import tempfile
import traceback
import zlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

import fp8
import mxfp4
import seeded
from models import MODELS

GREEDY_COUNT = 24
# The first prompts of these have a row so near a tie between two experts that keys in f16 send it
# to the other one.
OTHER_PROMPTS = {"nemotron-h": 4, "glm4-moe-lite": 4}
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def randomise(model, dtype, generator):
    """Every parameter telling: norms that are not one, biases and sinks that are not zero."""
    for name, parameter in model.named_parameters():
        shape = parameter.shape
        values = torch.randn(shape, generator=generator)
        if "norm" in name and name.endswith("weight"):
            # Gemma's norms multiply by 1 + weight, and are zero where others are one.
            values = values * 0.2 + (0.0 if model.config.model_type.startswith("gemma") else 1.0)
        elif len(shape) == 1 or name.endswith("bias"):
            values = values * 0.3
        elif "embed_tokens" in name:
            values = values * 0.5
        else:
            values = values * (1.2 / shape[-1] ** 0.5)
        with torch.no_grad():
            parameter.copy_(values.to(dtype).float())


def build(spec, seed):
    config = AutoConfig.for_model(spec["model_type"], **spec["config"])
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    model.tie_weights()
    randomise(model, DTYPES[spec["dtype"]], torch.Generator().manual_seed(seed))
    return plain_experts(model)


def plain_experts(model):
    """The plain loop over experts, where transformers offers other ways."""
    try:
        model.set_experts_implementation("eager")
    except (AttributeError, ValueError, KeyError):
        pass
    return model


def older_config(config, spec):
    """config.json as transformers 4 wrote it, and as most files on registries are."""
    rope = config.pop("rope_parameters")
    if "full_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    rope = dict(rope)
    config["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    if rope.get("rope_type") == "longrope":
        # What Phi-3's files have: the original context stands beside it.
        rope = {"type": "longrope", **{k: rope[k] for k in ("short_factor", "long_factor")}}
    default = rope.get("rope_type", rope.get("type")) == "default"
    config["rope_scaling"] = None if default else rope
    config["torch_dtype"] = config.pop("dtype", "float32")
    for name in spec.get("without", []):
        config.pop(name, None)
    config.update(spec.get("older", {}))


def rewrite_config(folder, change):
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    change(config)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1, sort_keys=True)
        file.write("\n")


def save(model, spec, folder):
    # A copy, since the buffers of rotations would be rounded too.
    rounded = copy.deepcopy(model).to(DTYPES[spec["dtype"]])
    rounded.save_pretrained(folder, max_shard_size=spec.get("shard_bytes", 1 << 30))
    generation = os.path.join(folder, "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)
    if "older" in spec:
        rewrite_config(folder, lambda config: older_config(config, spec))


def logits_of(model, ids):
    with torch.no_grad():
        return model(input_ids=ids[None], use_cache=False).logits[0].float()


def reference(model, prompt):
    """No cache: every greedy token is computed from the whole text, so that rotations that depend
    on its length are those of that length."""
    logits = logits_of(model, prompt)
    ids, greedy, margins, last = prompt, [], [], logits[-1]
    for _ in range(GREEDY_COUNT):
        best = torch.topk(last, 2)
        greedy.append(best.indices[0])
        margins.append(best.values[0] - best.values[1])
        ids = torch.cat([ids, best.indices[:1]])
        last = logits_of(model, ids)[-1]
    return {
        "input_ids": prompt,
        "logits": logits.contiguous(),
        "greedy_ids": torch.stack(greedy),
        "greedy_margin": torch.stack(margins),
    }


def read_back(folder):
    return plain_experts(
        AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", local_files_only=True
        ).eval()
    )


def save_fp8(model, spec, folder):
    """Returns a note and the model of the values that the file has. Where transformers dequantises
    to other values, or does not read the file, they are those of fp8.py."""
    save(model, spec, folder)
    block = None if spec["fp8"] == "matrix" else spec["fp8"]
    count, plain = fp8.rewrite(folder, block)
    note = f"{count} matrices in FP8"
    try:
        theirs = fp8.read(folder, block)
    except Exception as error:
        theirs = None
        note += f", not read back: {type(error).__name__}: {str(error)[:200]}"
    with tempfile.TemporaryDirectory() as copy_of:
        save_file(plain, os.path.join(copy_of, "model.safetensors"), metadata={"format": "pt"})
        shutil.copy(os.path.join(folder, "config.json"), copy_of)
        rewrite_config(copy_of, lambda config: config.pop("quantization_config"))
        ours = read_back(copy_of)
    if theirs is not None:
        values = theirs.state_dict()
        same = [torch.equal(values[name].float(), value.float())
                for name, value in ours.state_dict().items()]
        note += f", {sum(same)} of {len(same)} tensors as transformers dequantises them"
        if all(same):
            return note, theirs
    return note, ours


def make(spec, folder, seed):
    model = build(spec, seed)
    note, reader = "", model
    if spec.get("fp8"):
        note, reader = save_fp8(model, spec, folder)
        model = reader
    elif spec.get("mxfp4"):
        note = mxfp4.save(model, folder, torch.Generator().manual_seed(seed + 1))
        if "older" in spec:
            rewrite_config(folder, lambda config: older_config(config, spec))
    else:
        save(model, spec, folder)
        try:
            reader = read_back(folder)
        except Exception as error:  # the model in memory is the same one
            reader = model
            note = f"not read back: {type(error).__name__}: {str(error)[:120]}"
    vocab = spec["config"]["vocab_size"]
    worst = 0.0
    for name, count in spec.get("prompts", {"reference": 40}).items():
        prompt = torch.randint(
            0, vocab, (count,), generator=torch.Generator().manual_seed(seed + count)
        )
        tensors = reference(reader, prompt)
        if reader is not model:
            difference = (logits_of(model, prompt) - tensors["logits"]).abs().max().item()
            worst = max(worst, difference)
        save_file(tensors, os.path.join(folder, name + ".safetensors"))
    largest = tensors["logits"].abs().max().item()
    sure = int((tensors["greedy_margin"] > 1e-3).sum())
    size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
    text = f"{size >> 10:5} KiB  logits to {largest:6.2f}  {sure:2} sure  read back {worst:.0e}"
    return f"{text}  {note}", size


def read(folder):
    """Writes the reference of a checkpoint that is there; a wrapped model's is its text model's."""
    checked = seeded.check_folder(folder) if os.path.exists(f"{folder}/runs.json") else 0
    model = read_back(folder.removesuffix("-wrapped"))
    name = os.path.basename(folder.removesuffix("-wrapped"))
    seed = zlib.crc32(name.encode()) + OTHER_PROMPTS.get(name, 0)
    generator = torch.Generator().manual_seed(seed)
    prompt = torch.randint(0, model.config.vocab_size, (40,), generator=generator)
    tensors = reference(model, prompt)
    save_file(tensors, os.path.join(folder, "reference.safetensors"))
    largest = tensors["logits"].abs().max().item()
    sure = int((tensors["greedy_margin"] > 1e-3).sum())
    return f"{checked:4} runs as the rule says  logits to {largest:6.2f}  {sure:2} sure"


def read_all(out, only):
    failed = 0
    for name in sorted(os.listdir(out)):
        if only not in name:
            continue
        try:
            print(f"{name:28} {read(os.path.join(out, name))}", flush=True)
        except Exception as error:
            failed += 1
            print(f"{name:28} FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", help="the folder to write to")
    parser.add_argument("--only", help="a part of the names of the models to make", default="")
    parser.add_argument(
        "--read", help="only write the references of the checkpoints in OUT", action="store_true"
    )
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(4)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    if args.read:
        return read_all(args.out, args.only)
    failed, total = 0, 0
    for name, spec in MODELS.items():
        if args.only not in name:
            continue
        folder = os.path.join(args.out, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        try:
            text, size = make(spec, folder, zlib.crc32(name.encode()))
            total += size
            print(f"{name:28} {text}", flush=True)
        except Exception:
            failed += 1
            shutil.rmtree(folder, ignore_errors=True)
            lines = traceback.format_exc().strip().splitlines()
            print(f"{name:28} FAILED\n    " + "\n    ".join(lines[-6:]), flush=True)
    print(f"{total / 1e6:.2f} MB, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
