// Packages of the tiny checkpoints of 2026 (the "twins" of published models), for servers.
import { execFileSync } from "node:child_process";
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { data, weft } from "./weft.mjs";

export const checkpoints = join(data, "checkpoints-2026");

// The character that stands for a byte in byte-level vocabularies: itself where it can be seen,
// else one from U+0100 on.
function byteCharacters() {
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => {
    const isSeen = (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
    return String.fromCodePoint(isSeen ? byte : next++);
  });
}

// Three special tokens, one for each byte, and words up to the 320 rows of the twins' tables.
function tokenizer() {
  const special = ["<pad>", "<s>", "</s>"];
  const words = Array.from({ length: 320 - 259 }, (_, i) => `Ġword${i}`);
  const vocabulary = [...special, ...byteCharacters(), ...words];
  return {
    version: "1.0",
    added_tokens: special.map((content, id) => ({
      id, content, special: true, single_word: false, lstrip: false, rstrip: false,
      normalized: false,
    })),
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true,
      use_regex: true },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE", vocab: Object.fromEntries(vocabulary.map((token, id) => [token, id])),
      merges: [],
    },
  };
}

// A package of the twin in the folder, in f32, with a tokenizer, which it comes without.
export function packageOfTwin(folder, name) {
  const source = join(folder, name);
  cpSync(join(checkpoints, name), source, { recursive: true });
  writeFileSync(join(source, "tokenizer.json"), JSON.stringify(tokenizer()));
  writeFileSync(join(source, "tokenizer_config.json"), JSON.stringify({
    eos_token: "</s>",
    chat_template: "{% for message in messages %}{{ message.content }}{% endfor %}",
  }));
  const target = join(folder, `${name}-package`);
  execFileSync(weft, ["convert", source, target, "--quant", "f32"], { stdio: "pipe" });
  return target;
}
