"""Batched greedy decoding with transformers' model in float32.

No cache, whole sequences every step: slow and hard to get wrong.
"""

import json
import pathlib

import torch
import transformers
from tokenizers import Tokenizer

from chat_format import render

STOP_IDS = (0, 2)


class Decoder:
    """A model folder, loaded for greedy decoding. float32 with full-precision matrix products."""

    def __init__(self, folder: pathlib.Path):
        torch.set_float32_matmul_precision("highest")
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
        model_class = getattr(transformers, architecture)
        self.model = model_class.from_pretrained(folder, dtype=torch.float32).to(self.device).eval()
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).ids

    def text(self, ids) -> str:
        """Decoded reply up to the first stop id."""
        ids = list(ids)
        for i, token in enumerate(ids):
            if token in STOP_IDS:
                return self.tokenizer.decode(ids[:i])
        return self.tokenizer.decode(ids)

    @torch.no_grad()
    def greedy(self, prompts: list[list[int]], new_tokens: int, stop: bool = True):
        """[(ids, margins)] per prompt: greedy ids, and how far apart the two best logits were.

        Rows are padded on the right; a causal model's earlier positions do not see the padding.
        """
        lengths = torch.tensor([len(p) for p in prompts], device=self.device)
        width = max(len(p) for p in prompts) + new_tokens
        ids = torch.zeros((len(prompts), width), dtype=torch.long, device=self.device)
        for row, prompt in enumerate(prompts):
            ids[row, :len(prompt)] = torch.tensor(prompt)
        rows = torch.arange(len(prompts), device=self.device)
        done = torch.zeros(len(prompts), dtype=torch.bool, device=self.device)
        margins = []
        for step in range(new_tokens):
            used = int(lengths.max()) + step
            hidden = self.model.model(input_ids=ids[:, :used], use_cache=False).last_hidden_state
            logits = self.model.lm_head(hidden[rows, lengths + step - 1])
            best = logits.topk(2, dim=-1)
            ids[rows, lengths + step] = best.indices[:, 0]
            margins.append(best.values[:, 0] - best.values[:, 1])
            for token in STOP_IDS:
                done |= best.indices[:, 0] == token
            if stop and bool(done.all()):
                break
        count = len(margins)
        margins = torch.stack(margins, dim=1).tolist()
        return [(ids[r, n:n + count].tolist(), margins[r]) for r, n in enumerate(lengths.tolist())]

    def replies(self, conversations, new_tokens: int, batch: int = 256) -> list[str]:
        """Greedy replies to conversations ([[role, content], ...]) or to raw text (a string)."""
        prompts = [self.encode(c if isinstance(c, str) else render(c, True)) for c in conversations]
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))  # like lengths together
        out = [""] * len(prompts)
        for start in range(0, len(order), batch):
            chosen = order[start:start + batch]
            for i, (ids, _) in zip(chosen, self.greedy([prompts[i] for i in chosen], new_tokens)):
                out[i] = self.text(ids)
        return out
