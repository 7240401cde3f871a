#!/usr/bin/env python3
"""Trains weft-tiny or its twin: bf16 autocast over f32 weights, AdamW, a cosine by steps or time.

Batches come from the packed arrays of pack.py; every eighth batch holds rows of 4,096 tokens, the
others rows of 1,024. Writes checkpoint.pt (f32 weights) and train_log.json into --out.
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
BALANCE_WEIGHT = 0.01  # of experts used unevenly


class Pool:
    """Rows on the device, drawn in a new random order every epoch."""

    def __init__(self, folder: pathlib.Path, name: str, rows_per_batch: int, device, generator):
        ids = np.load(folder / f"{name}-ids.npy").astype(np.int16)
        self.ids = torch.from_numpy(ids).to(device)
        self.weights = torch.from_numpy(np.load(folder / f"{name}-weights.npy")).to(device)
        self.rows_per_batch, self.generator = rows_per_batch, generator
        self.order, self.epochs = [], -1

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
    """Weighted loss over all text, and the plain mean over written text for the log."""
    logits = F.linear(hidden, embedding).float()
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    weight = weight.flatten()
    written = (weight == 1).float()
    written_mean = (losses.detach() * written).sum() / written.sum().clamp(min=1)
    return (losses * weight).sum() / weight.sum(), written_mean


def learning_rate(progress: float, step: int, peak: float) -> float:
    """Linear warm-up over 200 steps, then a cosine down to 1%."""
    cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
    return peak * min(1.0, (step + 1) / 200) * (0.01 + 0.99 * cosine)


def optimizer_for(model, weight_decay: float):
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    fused = {"fused": True} if torch.cuda.is_available() else {}
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), eps=1e-8, **fused)


class Meter:
    """Loss curve and progress lines. The speed leaves out the first 16 steps, which compile."""

    def __init__(self):
        self.started = self.last_print = time.monotonic()
        self.curve, self._recent = [], []
        self._speed_from = None

    def seconds(self) -> float:
        return time.monotonic() - self.started

    def add(self, step: int, tokens: int, rate: float, loss) -> None:
        self._recent.append(loss.detach())
        if step == 16:
            self._speed_from = (time.monotonic(), tokens)
        if step % 50 == 0:
            self.flush(step, tokens, rate)
        if step % 50 == 0 and time.monotonic() - self.last_print > 15:
            self.last_print = time.monotonic()
            since, before = self._speed_from
            speed = (tokens - before) / (self.last_print - since)
            print(f"step {step}  loss {self.curve[-1]['loss']:.4f}  {tokens / 1e6:.0f} M tokens  "
                  f"{speed / 1e6:.2f} M tokens/s  {self.seconds():.0f} s", flush=True)

    def flush(self, step: int, tokens: int, rate: float) -> None:
        """One point of the curve: the mean since the last one."""
        if not self._recent:
            return
        mean = torch.stack(self._recent).mean().item()
        self._recent = []
        self.curve.append({"step": step, "tokens": tokens, "loss": mean, "rate": rate,
                           "seconds": self.seconds()})
        if not math.isfinite(mean):
            raise SystemExit(f"The loss is {mean} at step {step}.")


def run_steps(args, model, pools, device, meter: Meter) -> tuple[int, int]:
    """Trains until --steps or --max-seconds is reached; returns steps and tokens."""
    cos, sin = rope_tables(model.config, device)
    loss_function = loss_of
    if not args.no_compile:
        # Two shapes for each layer, should layers not share their compiled code.
        torch._dynamo.config.recompile_limit = 64
        for layer in model.model.layers:
            layer.compile(dynamic=False)
        loss_function = torch.compile(loss_of, dynamic=False)
    optimizer = optimizer_for(model, args.weight_decay)
    embedding = model.model.embed_tokens.weight
    step = tokens = 0
    rate = 0.0
    while True:
        by_time = meter.seconds() / args.max_seconds if args.max_seconds else 0.0
        progress = max(by_time, step / args.steps if args.steps else 0.0)
        if progress >= 1.0:
            meter.flush(step, tokens, rate)
            return step, tokens
        is_long = step % LONG_BATCH_EVERY == LONG_BATCH_EVERY - 1
        rate = learning_rate(progress, step, args.learning_rate)
        for group in optimizer.param_groups:
            group["lr"] = rate
        inputs, targets, weight = pools["long" if is_long else "short"].batch()
        with torch.autocast(device, dtype=torch.bfloat16):
            hidden, unbalance = model(inputs, cos, sin)
            loss, written_loss = loss_function(hidden, embedding, targets, weight)
        (loss + BALANCE_WEIGHT * unbalance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step, tokens = step + 1, tokens + inputs.numel()
        meter.add(step, tokens, rate, written_loss)
        if step % 500 == 0 and torch.is_tensor(unbalance):
            print(f"step {step}  unevenness of experts {unbalance.item():.3f}", flush=True)


def train(args) -> None:
    meter = Meter()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(args.seed)
    if device == "cuda":
        torch.set_float32_matmul_precision("high")
    generator = torch.Generator().manual_seed(args.seed)
    model = CausalLm(args.arch).to(device)
    pools = {name: Pool(args.data, name, max(1, args.batch_tokens // length), device, generator)
             for name, length in (("short", 1024), ("long", 4096))}
    parameters = sum(p.numel() for p in model.parameters())
    rows = ", ".join(f"{len(p.ids)} {name} rows" for name, p in pools.items())
    print(f"{parameters} parameters, {rows}", flush=True)

    steps, tokens = run_steps(args, model, pools, device, meter)

    args.out.mkdir(parents=True, exist_ok=True)
    state = {k: v.cpu() for k, v in model.state_dict().items()}
    torch.save({"arch": args.arch, "state": state}, args.out / "checkpoint.pt")
    summary = {
        "arch": args.arch, "parameters": parameters, "steps": steps, "tokens": tokens,
        "seconds": meter.seconds(), "epochs": pools["short"].epochs + 1,
        "corpus_tokens": sum(p.ids.numel() for p in pools.values()),
        "batch_tokens": args.batch_tokens, "learning_rate": args.learning_rate,
        "curve": meter.curve,
    }
    (args.out / "train_log.json").write_text(json.dumps(summary))
    print(f"trained {steps} steps, {tokens / 1e6:.0f} M tokens, {summary['seconds']:.0f} s, "
          f"{summary['epochs']} epochs", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, type=pathlib.Path, help="folder of pack.py")
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--arch", choices=sorted(ARCHITECTURES), default="qwen3")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--max-seconds", type=float, default=0, help="with compilation")
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
