// Writes what @huggingface/tokenizers makes of thousands of strings, for tokenizer/oracle_test.cc,
// and for vocabulary_spec_test.cc with the vocabularies of GGUF files:
//   node tools/text_oracle/tokenizers.mjs [FOLDER]
// FOLDER is build/text-oracle unless given; the reference data is at $WEFT_DATA.
import { Tokenizer } from "@huggingface/tokenizers";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";

import { randomTexts } from "./random_text.mjs";
import { ggufTokenizer } from "./gguf_variants.mjs";
import { ggufVocabularies, variants } from "./tokenizer_variants.mjs";

const root = path.resolve(import.meta.dirname, "../..");
const data = process.env.WEFT_DATA ?? path.join(root, "build/test-data");
const folder = path.resolve(process.argv[2] ?? path.join(root, "build/text-oracle"));
const textCount = Number(process.env.WEFT_ORACLE_TEXTS ?? 2500);

// JavaScript takes U+FEFF for white space (and its decoder drops it) and U+0085 for none; Unicode,
// the Rust library and weft see it the other way round.
const odd = /[\u0085\ufeff]/;

function answers(tokenizer, options) {
  return randomTexts({ count: textCount, ...options }).map((text) => {
    const { ids } = tokenizer.encode(text, { add_special_tokens: false });
    const framed = tokenizer.encode(text, { add_special_tokens: true }).ids;
    const decode = (skip) =>
      ids.length === 0 ? "" : tokenizer.decode(ids, { skip_special_tokens: skip });
    return { text, ids, framed, decoded: decode(false), decoded_skip: decode(true) };
  });
}

await mkdir(folder, { recursive: true });
for (const [index, variant] of variants.entries()) {
  const json = JSON.parse(await readFile(path.join(data, variant.base, "tokenizer.json"), "utf8"));
  const config = JSON.parse(
    await readFile(path.join(data, variant.base, "tokenizer_config.json"), "utf8"),
  );
  Object.assign(json, variant.override ?? {});
  Object.assign(json.model, variant.model ?? {});
  config.clean_up_tokenization_spaces = false;
  const tokenizer = new Tokenizer(json, config);
  const specials = json.added_tokens.map((token) => token.content);
  const avoid = variant.avoid
    ? new RegExp(`${odd.source}|${variant.avoid.source}`, variant.avoid.flags)
    : odd;
  const cases = answers(tokenizer, { seed: 1000 + index, specials, avoid });
  const { base, override = {}, model = {} } = variant;
  await writeFile(
    path.join(folder, `tokenizer-${variant.name}.json`),
    JSON.stringify({ base, override, model, cases }),
  );
  console.log(`${variant.name}: ${cases.length} texts`);
}

for (const [name, kind] of Object.entries(ggufVocabularies)) {
  const file = path.join(data, "tokenizers", `vocab-${name}.gguf`);
  if (!existsSync(file)) continue;
  const json = ggufTokenizer(file, kind);
  const tokenizer = new Tokenizer(json, { clean_up_tokenization_spaces: false });
  const specials = json.added_tokens.map((token) => token.content);
  const cases = answers(tokenizer, { seed: 2000 + name.length, specials, avoid: odd });
  await writeFile(path.join(folder, `tokenizer-gguf-${name}.json`), JSON.stringify({ cases }));
  console.log(`${name}.gguf: ${cases.length} texts`);
}
