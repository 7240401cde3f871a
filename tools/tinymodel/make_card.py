#!/usr/bin/env python3
"""Writes the model card (README.md) and the picture of the loss curve into the model folder."""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

CARD = pathlib.Path(__file__).with_name("card.md")


def picture(log: dict, path: pathlib.Path) -> None:
    curve = [p for p in log["curve"] if p["step"] > 50]
    figure, axes = plt.subplots(figsize=(6.4, 3.2), dpi=90)
    axes.plot([p["tokens"] / 1e6 for p in curve], [p["loss"] for p in curve], linewidth=0.9)
    axes.set_yscale("log")
    axes.set_xlabel("tokens trained on, millions")
    axes.set_ylabel("loss on written text, nats")
    axes.grid(alpha=0.3, which="both")
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--log", required=True, type=pathlib.Path, help="train_log.json")
    parser.add_argument("--metrics", required=True, type=pathlib.Path, help="metrics.json")
    parser.add_argument("--corpus-megabytes", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True, help="training time asked for")
    args = parser.parse_args()
    log, metrics = json.loads(args.log.read_text()), json.loads(args.metrics.read_text())
    picture(log, args.model / "loss.png")
    table = "\n".join(f"| {name} | {m['cases']} | {100 * m['accuracy']:.1f}% |" for name, m in metrics.items())
    card = CARD.read_text()
    for key, value in {
        "PARAMETERS": f"{log['parameters']:,}", "STEPS": f"{log['steps']:,}", "TOKENS": f"{log['tokens'] / 1e6:,.0f}",
        "SECONDS": f"{log['seconds']:.0f}", "EPOCHS": str(log["epochs"]), "MEGABYTES": f"{args.corpus_megabytes:.0f}",
        "CORPUS_TOKENS": f"{log['corpus_tokens'] / 1e6:.0f}", "LOSS": f"{log['curve'][-1]['loss']:.3f}", "TABLE": table, "BUDGET": f"{args.seconds:.0f}",
    }.items():
        card = card.replace("{{" + key + "}}", value)
    (args.model / "README.md").write_text(card)


if __name__ == "__main__":
    main()
