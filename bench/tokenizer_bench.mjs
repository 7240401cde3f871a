// Text to ids, weft against the native tokenizers library, in turn in one run:
//   node bench/tokenizer_bench.mjs --weft build/release/weft [--mb 8] [--rounds 3] [FILE...]
// A FILE is a tokenizer.json; without one: those of the reference data, and a Unigram vocabulary.
// The text is that of docs/ over and over, in lines of 20 kB. weft's time is that of `weft
// tokenize` without the time of a run on nothing: it reads the text as JSON and writes the ids,
// which the library does not. Both use one thread.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { nativeVariants } from "../tools/text_oracle/native_variants.mjs";

const root = join(import.meta.dirname, "..");
const { Tokenizer } = createRequire(join(root, "tools/package.json"))("@anush008/tokenizers");
const kLineChars = 20_000;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    weft: { type: "string" },
    mb: { type: "string", default: "8" },
    rounds: { type: "string", default: "3" },
  },
});
const work = mkdtempSync(join(tmpdir(), "weft-tokenizer-bench-"));

function lines(byteCount) {
  const docs = readdirSync(join(root, "docs")).filter((name) => name.endsWith(".md")).sort();
  const text = docs.map((name) => readFileSync(join(root, "docs", name), "utf8")).join("\n");
  const made = [];
  for (let at = 0, left = byteCount; left > 0; at = (at + kLineChars) % text.length) {
    const line = text.slice(at, at + kLineChars);
    made.push(line);
    left -= Buffer.byteLength(line);
  }
  return made;
}

function filesGiven() {
  if (positionals.length > 0) return positionals;
  const data = process.env.WEFT_DATA ?? join(root, "build/test-data");
  const made = nativeVariants().find(({ name }) => name.endsWith("unigram bytes"));
  const unigram = join(work, "unigram.json");
  writeFileSync(unigram, JSON.stringify(made.json));
  return [join(data, "tokenizers/gpt2/tokenizer.json"),
    join(data, "tokenizers/phi3/tokenizer.json"), unigram];
}

// Seconds, and how many ids came out.
function weft(file, input) {
  const began = performance.now();
  const done = spawnSync(values.weft, ["tokenize", file],
    { input, encoding: "utf8", maxBuffer: 2 ** 31 - 1 });
  if (done.status !== 0) throw new Error(done.stderr);
  return { seconds: (performance.now() - began) / 1000, ids: done.stdout.split(",").length };
}

async function library(tokenizer, texts) {
  const began = performance.now();
  for (const text of texts) await tokenizer.encode(text, null, { addSpecialTokens: false });
  return (performance.now() - began) / 1000;
}

const texts = lines(Number(values.mb) * 1e6);
const input = texts.map((text) => `${JSON.stringify(text)}\n`).join("");
try {
  for (const file of filesGiven()) {
    const tokenizer = await Tokenizer.fromFile(file);
    const times = { weft: [], library: [] };
    let ids = 0;
    for (let round = 0; round < Number(values.rounds); ++round) {
      const nothing = weft(file, "");
      const all = weft(file, input);
      ids = all.ids;
      times.weft.push(all.seconds - nothing.seconds);
      times.library.push(await library(tokenizer, texts));
    }
    const rate = (list) => ids / Math.min(...list) / 1e6;
    console.log(`${file}: weft ${rate(times.weft).toFixed(2)}, library ` +
      `${rate(times.library).toFixed(2)} million ids/s, ${ids} ids`);
  }
} finally {
  rmSync(work, { recursive: true });
}
