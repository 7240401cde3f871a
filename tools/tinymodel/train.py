#!/usr/bin/env python3
"""Trains weft-tiny: bf16 autocast over f32 weights, AdamW, cosine schedule over steps or over wall-clock seconds.

Batches come from the packed arrays of pack.py; every eighth batch holds rows of 4,096 tokens, the others rows of 1,024.
Writes checkpoint.pt (f32 weights) and train_log.json into --out.
"""

import argparse
import json
import math
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F

from model import ARCHITECTURES, CausalLm, rope_tables

READ_WEIGHT = 0.1  # loss weight of text that the model only reads (users, system prompts, markup)
LONG_BATCH_EVERY = 8


class Pool:
    """Rows on the device, drawn in a new random order every epoch."""

    def __init__(self, folder: pathlib.Path, name: str, rows_per_batch: int, device, generator):
        self.ids = torch.from_numpy(np.load(folder / f"{name}-ids.npy").astype(np.int16)).to(device)
        self.weights = torch.from_numpy(np.load(folder / f"{name}-weights.npy")).to(device)
        self.rows_per_batch, self.generator, self.order, self.epochs = rows_per_batch, generator, [], -1

    def batch(self):
        """inputs and targets [rows, length] int64, loss weights [rows, length] f32."""
        if len(self.order) < self.rows_per_batch:
            self.order = torch.randperm(len(self.ids), generator=self.generator).tolist()
            self.epochs += 1
            while len(self.order) < self.rows_per_batch:  # only with a toy corpus
                self.order += self.order
        rows = torch.tensor(self.order[:self.rows_per_batch], device=self.ids.device)
        del self.order[:self.rows_per_batch]
        ids, weight = self.ids[rows].long(), self.weights[rows][:, 1:].float()
        weight = (weight >= 10).float() + (weight == 1).float() * READ_WEIGHT
        return ids[:, :-1], ids[:, 1:], weight


def loss_of(hidden, embedding, targets, weight):
    logits = F.linear(hidden, embedding).float()
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    weight = weight.flatten()
    written = (weight == 1).float()
    return (losses * weight).sum() / weight.sum(), (losses.detach() * written).sum() / written.sum().clamp(min=1)


def learning_rate(progress: float, step: int, peak: float) -> float:
    """Linear warm-up over 200 steps, then a cosine down to 1%."""
    return peak * min(1.0, (step + 1) / 200) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def optimizer_for(model, weight_decay: float):
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    fused = {"fused": True} if torch.cuda.is_available() else {}
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), eps=1e-8, **fused)


def train(args) -> None:
    started = time.monotonic()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    if device == "cuda":
        torch.set_float32_matmul_precision("high")
    generator = torch.Generator().manual_seed(args.seed)
    model = CausalLm(args.arch).to(device)
    cos, sin = rope_tables(model.config, device)
    tokens = args.batch_tokens
    pools = {"short": Pool(args.data, "short", max(1, tokens // 1024), device, generator),
             "long": Pool(args.data, "long", max(1, tokens // 4096), device, generator)}
    loss_function = loss_of
    if not args.no_compile:
        torch._dynamo.config.recompile_limit = 64  # two shapes for each layer, should layers not share their code
        for layer in model.model.layers:
            layer.compile(dynamic=False)
        loss_function = torch.compile(loss_of, dynamic=False)
    optimizer = optimizer_for(model, args.weight_decay)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{parameters} parameters, {len(pools['short'].ids)} short and {len(pools['long'].ids)} long rows", flush=True)

    log, step, seen, recent, last_print = [], 0, 0, [], time.monotonic()
    training_started = None
    while True:
        now = time.monotonic()
        by_time = (now - started) / args.max_seconds if args.max_seconds else 0.0
        by_step = step / args.steps if args.steps else 0.0
        progress = max(by_time, by_step)
        if progress >= 1.0:
            break
        pool = pools["long" if step % LONG_BATCH_EVERY == LONG_BATCH_EVERY - 1 else "short"]
        rate = learning_rate(progress, step, args.learning_rate)
        for group in optimizer.param_groups:
            group["lr"] = rate
        inputs, targets, weight = pool.batch()
        with torch.autocast(device, dtype=torch.bfloat16):
            hidden = model(inputs, cos, sin)
            loss, written_loss = loss_function(hidden, model.model.embed_tokens.weight, targets, weight)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step, seen = step + 1, seen + inputs.numel()
        recent.append(written_loss.detach())
        if step == 16:  # both shapes are compiled by now
            training_started, seen_before = time.monotonic(), seen
        if step % 50 == 0 or step == args.steps:
            mean = torch.stack(recent).mean().item()
            log.append({"step": step, "tokens": seen, "loss": mean, "rate": rate, "seconds": time.monotonic() - started})
            recent = []
            if time.monotonic() - last_print > 15 or step == args.steps:
                last_print = time.monotonic()
                speed = (seen - seen_before) / (last_print - training_started) if training_started else 0
                print(f"step {step}  loss {mean:.4f}  {seen / 1e6:.0f} M tokens  {speed / 1e6:.2f} M tokens/s  "
                      f"{last_print - started:.0f} s", flush=True)
            if not math.isfinite(mean):
                raise SystemExit(f"The loss is {mean} at step {step}.")

    if recent:
        log.append({"step": step, "tokens": seen, "loss": torch.stack(recent).mean().item(), "rate": rate,
                    "seconds": time.monotonic() - started})
    args.out.mkdir(parents=True, exist_ok=True)
    torch.save({"arch": args.arch, "state": {k: v.cpu() for k, v in model.state_dict().items()}}, args.out / "checkpoint.pt")
    summary = {"arch": args.arch, "parameters": parameters, "steps": step, "tokens": seen, "seconds": time.monotonic() - started,
               "epochs": pools["short"].epochs + 1, "corpus_tokens": sum(p.ids.numel() for p in pools.values()),
               "batch_tokens": tokens, "learning_rate": args.learning_rate, "curve": log}
    (args.out / "train_log.json").write_text(json.dumps(summary))
    print(f"trained {step} steps, {seen / 1e6:.0f} M tokens, {summary['seconds']:.0f} s, {summary['epochs']} epochs", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, type=pathlib.Path, help="folder written by pack.py")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--arch", choices=sorted(ARCHITECTURES), default="qwen3")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--max-seconds", type=float, default=0, help="wall clock, compilation included")
    parser.add_argument("--batch-tokens", type=int, default=65536)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    if not args.steps and not args.max_seconds:
        parser.error("give --steps or --max-seconds")
    train(args)


if __name__ == "__main__":
    main()
