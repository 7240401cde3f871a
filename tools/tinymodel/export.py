#!/usr/bin/env python3
"""Turns checkpoint.pt into the Hugging Face folder: float16 weights and configuration.

transformers writes the files and must agree with our own implementation of the architecture.
"""

import argparse
import json
import pathlib

import torch
import transformers

from model import ARCHITECTURES, CausalLm, rope_tables

END_ID, END_OF_TEXT_ID = 2, 0


def hugging_face_model(arch: str, state: dict):
    """transformers' model in float16 with our weights; tied, so without an lm_head of its own."""
    settings, _, (config_class, model_class) = ARCHITECTURES[arch]
    config = getattr(transformers, config_class)(
        **settings, tie_word_embeddings=True, bos_token_id=None, eos_token_id=END_ID,
        pad_token_id=END_OF_TEXT_ID,
        attention_bias=False, hidden_act="silu", use_cache=True,
    )
    model = getattr(transformers, model_class)(config)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model.to(torch.float16)


def check(arch: str, folder: pathlib.Path, state: dict) -> float:
    """Largest difference between logits of transformers (the folder, in f32) and our own module."""
    model_class = getattr(transformers, ARCHITECTURES[arch][2][1])
    theirs = model_class.from_pretrained(folder, dtype=torch.float32).eval()
    ours = CausalLm(arch).eval()
    ours.load_state_dict({k: v.half().float() for k, v in state.items()})
    ids = torch.randint(0, 4096, (2, 200), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(ids).logits
        hidden, _ = ours(ids, *rope_tables(ours.config, "cpu"))
        got = ours.logits(hidden)
    return (expected - got).abs().max().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True, type=pathlib.Path)
    parser.add_argument(
        "--out", required=True, type=pathlib.Path,
        help="model folder that holds tokenizer.json already",
    )
    args = parser.parse_args()
    saved = torch.load(args.checkpoint, map_location="cpu")
    hugging_face_model(saved["arch"], saved["state"]).save_pretrained(args.out)

    config = json.loads((args.out / "config.json").read_text())
    # Where readers older than transformers 5 look for it.
    config["rope_theta"] = ARCHITECTURES[saved["arch"]][0]["rope_theta"]
    (args.out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    generation = {"bos_token_id": None, "do_sample": True, "eos_token_id": [END_ID, END_OF_TEXT_ID],
                  "pad_token_id": END_OF_TEXT_ID, "temperature": 0.6, "top_k": 20, "top_p": 0.9,
                  "transformers_version": transformers.__version__}
    (args.out / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")

    difference = check(saved["arch"], args.out, saved["state"])
    weight_bytes = (args.out / "model.safetensors").stat().st_size
    print(f"export: {weight_bytes} bytes, logits differ by {difference:.2e}")
    assert difference < 1e-2, difference


if __name__ == "__main__":
    main()
