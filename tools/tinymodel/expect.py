#!/usr/bin/env python3
"""Writes expected.json: greedy continuations by transformers in float32 from the float16 weights,
an oracle for engines.

greedy_margin is the distance between the best two logits of each step; where it is tiny, another
engine may rightly choose differently. Decoding goes on for the full length, past stop ids; text
ends before the first stop id.
"""

import argparse
import json
import pathlib

from chat_format import render
from decode import STOP_IDS, Decoder
from samples import EXPECTED

NEW_TOKENS = 48


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    args = parser.parse_args()
    decoder = Decoder(args.model)
    cases = []
    for case in EXPECTED:
        prompt = case if isinstance(case, str) else render(case, True)
        ids = decoder.encode(prompt)
        greedy, margins = decoder.greedy([ids], NEW_TOKENS, stop=False)[0]
        cases.append({"prompt": prompt, "prompt_ids": ids, "greedy_ids": greedy,
                      "greedy_margin": [round(m, 4) for m in margins],
                      "text": decoder.text(greedy)})
    body = ",\n".join(json.dumps(c) for c in cases)
    head = {
        "made_by": "tools/tinymodel/expect.py", "dtype": "float32 from float16 weights",
        "stop_ids": list(STOP_IDS),
    }
    (args.model / "expected.json").write_text(
        json.dumps(head)[:-1] + ', "cases": [\n' + body + "\n]}\n"
    )
    smallest = min(min(c["greedy_margin"]) for c in cases)
    print(f"expected.json: {len(cases)} cases, smallest margin {smallest}")


if __name__ == "__main__":
    main()
