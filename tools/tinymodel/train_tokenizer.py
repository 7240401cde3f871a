#!/usr/bin/env python3
"""Trains the byte-level BPE tokenizer of weft-tiny on the corpus: exactly 4,096 ids, digits one by
one.

The pieces are those of the Qwen tokenizers (NFC, a splitting pattern, byte-level BPE), so one
implementation reads both.
"""

import argparse
import json
import pathlib

from tokenizers import (
    Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers)

from chat_format import END, END_OF_TEXT, SPECIAL_TOKENS, TEMPLATE

VOCABULARY = 4096
# Contractions; words with one leading non-letter; single digits; punctuation; line breaks; spaces.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def contents(folder: pathlib.Path, byte_count: int):
    """Texts of the corpus, shard after shard, about `byte_count` bytes in all; and the role
    names."""
    yield from ["user\n", "assistant\n", "system\n"] * 200
    shards = sorted(folder.glob("shard-*.jsonl"))
    for shard in shards:
        left = byte_count // len(shards)
        with open(shard, encoding="utf-8") as lines:
            for line in lines:
                document = json.loads(line)
                if "text" in document:
                    yield document["text"]
                else:
                    yield from (content for _, content in document["messages"])
                left -= len(line)
                if left < 0:
                    break


def train(folder: pathlib.Path, byte_count: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL_TOKENS, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(contents(folder, byte_count), trainer)
    assert tokenizer.get_vocab_size() == VOCABULARY, tokenizer.get_vocab_size()
    assert [tokenizer.token_to_id(t) for t in SPECIAL_TOKENS] == [0, 1, 2]
    return tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path, help="model folder")
    parser.add_argument(
        "--megabytes", type=float, default=40, help="how much of the corpus to look at",
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer = train(args.corpus, int(args.megabytes * 1e6))
    tokenizer.save(str(args.out / "tokenizer.json"), pretty=False)
    stored = json.loads((args.out / "tokenizer.json").read_text())
    # unused here, stated as Qwen does
    plain = {"add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    for part in (
        stored["post_processor"], stored["decoder"], stored["pre_tokenizer"]["pretokenizers"][1],
    ):
        part.update(plain)
    compact = json.dumps(stored, ensure_ascii=False, separators=(",", ":"))
    (args.out / "tokenizer.json").write_text(compact, encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(args.out / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 4096,
        "add_bos_token": False, "bos_token": None,
        "eos_token": END, "pad_token": END_OF_TEXT, "unk_token": None,
        "clean_up_tokenization_spaces": False,
        "chat_template": TEMPLATE,
    }
    (args.out / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    sample = "Where does Mira live? 12 + 30 = 42"
    print("tokenizer:", tokenizer.encode(sample).tokens)


if __name__ == "__main__":
    main()
