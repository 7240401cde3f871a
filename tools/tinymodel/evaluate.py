#!/usr/bin/env python3
"""Held-out accuracy of a model folder per task, by greedy decoding; and sample conversations.

Writes metrics.json ({task: {"cases", "correct", "accuracy"}}), failures.txt and samples.md.
"""

import argparse
import json
import pathlib

from chat_format import TEMPLATE, render
from corpus import tasks
from decode import Decoder
from judge import is_right, reply_length
from samples import CONVERSATIONS


def check_template() -> None:
    """The Jinja template and render() must agree."""
    import jinja2

    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(TEMPLATE)
    for messages in (
        [["user", " Hi "]],
        [["system", "Be kind."], ["user", "a"], ["assistant", "b\n\nc"], ["user", "d"]],
    ):
        named = [{"role": r, "content": c} for r, c in messages]
        for prompt in (False, True):
            rendered = template.render(messages=named, add_generation_prompt=prompt)
            assert rendered == render(messages, prompt)


def evaluate(decoder: Decoder, scale: float):
    metrics, failures = {}, []
    for name, cases in tasks.build(scale=scale).items():
        prompts = [c.get("raw") or c["messages"] for c in cases]
        correct = 0
        for case, reply in zip(cases, decoder.replies(prompts, reply_length(name, cases[0]))):
            right = is_right(case, reply)
            correct += right
            if not right and sum(f.startswith(name) for f in failures) < 12:
                asked = case.get("raw") or " / ".join(m[1] for m in case["messages"])
                wanted = case.get("number", case.get("want") or case.get("any"))
                failures.append(f"{name}: {asked!r} -> {reply!r}, wanted {wanted}")
        metrics[name] = {"cases": len(cases), "correct": correct, "accuracy": correct / len(cases)}
    return metrics, failures


def sample_conversations(decoder: Decoder) -> str:
    """The scripted users of samples.py, answered turn by turn."""
    chats = [[list(m) for m in script[:1] if m[0] == "system"] for script in CONVERSATIONS]
    users = [[content for role, content in script if role == "user"] for script in CONVERSATIONS]
    for turn in range(max(len(u) for u in users)):
        active = [i for i in range(len(chats)) if turn < len(users[i])]
        for i in active:
            chats[i].append(["user", users[i][turn]])
        for i, reply in zip(active, decoder.replies([chats[i] for i in active], 330)):
            chats[i].append(["assistant", reply])
    texts = ["\n\n".join(f"**{role}**: {content}" for role, content in chat) for chat in chats]
    return "\n\n---\n\n".join(texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the cases")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    check_template()
    decoder = Decoder(args.model)
    metrics, failures = evaluate(decoder, args.scale)
    samples = sample_conversations(decoder)
    (args.out / "metrics.json").write_text(json.dumps(metrics, indent=1))
    (args.out / "failures.txt").write_text("\n".join(failures) + "\n")
    (args.out / "samples.md").write_text(samples + "\n")
    for name, m in metrics.items():
        print(f"{name:26s} {m['correct']:5d} / {m['cases']:<5d} {100 * m['accuracy']:6.1f}%")


if __name__ == "__main__":
    main()
