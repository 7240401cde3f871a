// Compares weft with the native tokenizers library on any tokenizer.json files:
//   node tools/text_oracle/compare_native.mjs WEFT TOKENIZER.json...
// Says how many of 5,000 texts differ in their ids, with or without special tokens around them, and
// ends with 1 when some do.
import { Tokenizer } from "@anush008/tokenizers";
import { spawnSync } from "node:child_process";

import { scriptTexts } from "./native_variants.mjs";
import { randomTexts } from "./random_text.mjs";

const [weft, ...files] = process.argv.slice(2);
const specials = ["<|im_end|>", "<|endoftext|>", "<bos>", "<s>", "</s>"];
const texts = [
  ...scriptTexts(3000, 99), ...randomTexts({ count: 2000, seed: 5, specials, avoid: /[]/ }),
].filter((text) => text !== "");
const input = texts.map((text) => `${JSON.stringify(text)}\n`).join("");

async function idsOf(tokenizer, text, addSpecialTokens) {
  const encoding = await tokenizer.encode(text, null, { addSpecialTokens });
  return JSON.stringify([...encoding.getIds()]);
}

let failed = 0;
for (const file of files) {
  const tokenizer = await Tokenizer.fromFile(file);
  const ours = spawnSync(weft, ["tokenize", file], { input, encoding: "utf8", maxBuffer: 2 ** 30 });
  if (ours.status !== 0) throw new Error(ours.stderr);
  const lines = ours.stdout.trim().split("\n");
  const different = [];
  for (const [i, text] of texts.entries()) {
    const ids = JSON.stringify(JSON.parse(lines[i]));
    const wanted = [await idsOf(tokenizer, text, true), await idsOf(tokenizer, text, false)];
    if (!wanted.includes(ids)) different.push(`${JSON.stringify(text)}: ${ids}, not ${wanted[1]}`);
  }
  failed += different.length;
  console.log(`${file}: ${different.length} of ${texts.length} texts differ`);
  for (const line of different.slice(0, 3)) console.log(`  ${line}`);
}
process.exit(failed > 0 ? 1 : 0);
