#!/usr/bin/env python3
"""Tests of the corpus generator: same seed same text, held-out cases never in training, facts true.

Run: python3 -m unittest discover -s tools/tinymodel
"""

import pathlib
import random
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import generate
from chat_format import document_text, render
from corpus import arithmetic, facts, tasks, world
from corpus.text import expand, number_words, open_with


def plain(text: str) -> str:
    """Lower case without punctuation, operators kept: stricter than what the split compares."""
    return re.sub(r"\s+", " ", re.sub(r"[?.!,':=]", "", text.lower())).strip()


def training_questions(count: int) -> set[str]:
    """Plain forms of what users ask in `count` training documents."""
    rng = random.Random(5)
    documents = (generate.document(rng) for _ in range(count))
    return {plain(content) for d in documents for role, content in d.get("messages", [])
            if role == "user"}


class CorpusTest(unittest.TestCase):
    def test_same_seed_gives_same_documents(self):
        one, two = ([generate.document(random.Random(seed)) for seed in range(50)] for _ in "ab")
        self.assertEqual(one, two)

    def test_held_out_questions_do_not_occur_in_training(self):
        asked, built = training_questions(40000), tasks.build()
        # Where combinations are held out, two phrasings may differ in punctuation alone.
        limits = {"facts": 0.05, "facts backwards": 0.05, "facts yes-no": 0, "facts two steps": 0,
                  "one-digit +": 0.1, "one-digit -": 0.1, "one-digit *": 0.15, "two-digit +": 0,
                  "two-digit -": 0, "two-digit *": 0, "three-digit +": 0, "three-digit -": 0,
                  "weft questions": 0.08, "small talk": 0.08, "unknown people": 0,
                  "stories on request": 0, "free wording, by hand": 0}
        for task, limit in limits.items():
            cases = [plain(c["messages"][-1][1]) for c in built[task]]
            seen = [c for c in cases if c in asked]
            self.assertLessEqual(len(seen), limit * len(cases), (task, seen[:5]))

    def test_held_out_pairs_of_operands_do_not_occur_in_training(self):
        rng = random.Random(6)
        for _ in range(20000):
            text = document_text(generate.document(rng))
            for a, op, b in re.findall(r"(?<![\d.])(\d{2,3}) ([+-]) (\d{2,3}) = ", text):
                self.assertFalse(arithmetic.pair_held_out(int(a), op, int(b)), (a, op, b))

    def test_sums_are_right(self):
        rng = random.Random(7)
        for _ in range(5000):
            text = document_text(generate.document(rng))
            for a, op, b, r in re.findall(r"(?<!\d)(-?\d+) ([+*-]) (\d+) = (-?\d+)", text):
                self.assertEqual(arithmetic.result(int(a), op, int(b)), int(r))

    def test_the_world_is_closed(self):
        for p in world.PEOPLE:
            self.assertIn(p.village, world.VILLAGE)
            self.assertEqual(world.PERSON[p.friend].friend, p.name)
        for v in world.VILLAGES:
            self.assertEqual(world.PERSON[v.mayor].village, v.name)
            self.assertIn(v.neighbour, world.VILLAGE)
        self.assertEqual(len({p.pet_name for p in world.PEOPLE}), 48)

    def test_questions_have_no_open_slots(self):
        for case in facts.held_out_cases(random.Random(8), 2000):
            self.assertNotRegex(case["messages"][0][1], r"[{}\[\]|]")

    def test_text_helpers(self):
        self.assertEqual(expand("[hi|oh] you[!|]"), ["hi you!", "hi you", "oh you!", "oh you"])
        self.assertEqual(number_words(-342), "minus three hundred and forty-two")
        self.assertEqual(number_words(2009), "two thousand and nine")
        self.assertEqual(open_with("Okay, ", "Where is Mira?"), "Okay, where is Mira?")
        self.assertEqual(open_with("Okay, ", "Mira has a cat?"), "Okay, Mira has a cat?")

    def test_chat_format(self):
        self.assertEqual(render([["user", " Hi "]], True),
                         "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


if __name__ == "__main__":
    unittest.main()
