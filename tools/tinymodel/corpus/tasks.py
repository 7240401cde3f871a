"""The held-out evaluation: for each task a list of cases with the rule that a right reply obeys.

Case: "messages" (or "raw" text to continue), and any of: "want" (all must be in the reply), "any" (one must be), "avoid"
(none may be), "number" with "words" (the last number of the reply, in digits or words), "words" [min, max] count.
"""

import random

from . import (arithmetic, conversation, fact_inverse, fact_more, facts, intents, outside, raw, stories,
               unseen)
from .text import typing_noise


def build(seed: int = 1, scale: float = 1.0) -> dict[str, list[dict]]:
    """All tasks; `scale` shrinks the number of cases for a quick look."""
    rng = random.Random(seed)

    def n(count):
        return max(8, int(count * scale))

    tasks = {
        "facts": facts.held_out_cases(rng, n(1000)),
        "facts backwards": fact_inverse.held_out_cases(rng, n(400)),
        "facts yes-no": facts.yes_no_cases(rng, n(300)),
        "facts two steps": fact_more.hop_cases(rng, n(300)),
        "facts follow-up": conversation.follow_up_cases(rng, n(300)),
    }
    for size, op, name in (("one", "+", "one-digit +"), ("one", "-", "one-digit -"), ("one", "*", "one-digit *"),
                           ("two", "+", "two-digit +"), ("two", "-", "two-digit -"), ("two", "*", "two-digit *"),
                           ("three", "+", "three-digit +"), ("three", "-", "three-digit -")):
        tasks[name] = arithmetic.held_out_cases(rng, size, op, n(300))
    tasks |= {
        "weft questions": intents.held_out_cases(rng, intents.WEFT, n(400)),
        "small talk": intents.held_out_cases(rng, intents.SMALL, n(400)),
        "outside the world": outside.world_cases(rng, n(200)),
        "unknown people": outside.stranger_cases(rng, n(200)),
        "name memory": conversation.memory_cases(rng, n(200)),
        "long conversation": conversation.long_cases(rng, n(60)),
        "stories on request": stories.held_out_cases(rng, n(100)),
        "plain text": raw.continuation_cases(rng, n(100)),
    }
    tasks["facts, hurried typing"] = [_noisy(rng, c) for c in tasks["facts"][:n(400)]]
    tasks["free wording, by hand"] = unseen.cases()
    return tasks


def _noisy(rng, case: dict) -> dict:
    role, content = case["messages"][-1]
    return {**case, "messages": [[role, typing_noise(rng, content)]]}
