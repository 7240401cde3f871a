// Writes what the native tokenizers library (npm @anush008/tokenizers) makes of texts, with
// generated tokenizer.json files and those of models, for tokenizer/native_oracle_test.cc:
//   node tools/text_oracle/native_tokenizers.mjs [FOLDER]
// FOLDER is build/text-oracle unless given; the reference data is at $WEFT_DATA.
import { Tokenizer } from "@anush008/tokenizers";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";

import { kHardTexts, nativeVariants, normalFormTexts, scriptTexts } from "./native_variants.mjs";

const root = path.resolve(import.meta.dirname, "../..");
const folder = path.resolve(process.argv[2] ?? path.join(root, "build/text-oracle"));
const texts = [...scriptTexts(Number(process.env.WEFT_NATIVE_TEXTS ?? 500), 38), ...kHardTexts];

const formTexts = normalFormTexts();

const data = process.env.WEFT_DATA ?? path.join(root, "build/test-data");
const kModels = {
  gpt2: path.join(data, "tokenizers/gpt2"),
  phi3: path.join(data, "tokenizers/phi3"),
  stories260K: path.join(data, "stories260K"),
  "weft-tiny": path.join(root, "models/weft-tiny"),
};

// [ids, text of them, ids with what is put around them], or null for an error.
async function answerOf(tokenizer, text, frame) {
  const idsOf = async (addSpecialTokens) => (
    [...(await tokenizer.encode(text, null, { addSpecialTokens })).getIds()]);
  try {
    const ids = await idsOf(false);
    const decoded = ids.length === 0 ? "" : await tokenizer.decode(ids, false);
    return frame ? [ids, decoded, await idsOf(true)] : [ids, decoded];
  } catch {
    return null;
  }
}

const cases = [];
const files = nativeVariants();
for (const [name, place] of Object.entries(kModels)) {
  const file = path.join(place, "tokenizer.json");
  files.push({ name, file, json: JSON.parse(await readFile(file, "utf8")) });
}
for (const { name, json, file } of files) {
  const tokenizer = Tokenizer.fromString(JSON.stringify(json));
  const answers = [];
  // What is said of the common texts, and of those that are for normal forms.
  const more = /"(NFK?[CD]|StripAccents)"/.test(JSON.stringify(json.normalizer)) ? formTexts : [];
  for (const text of [...texts, ...more]) {
    answers.push(await answerOf(tokenizer, text, json.post_processor));
  }
  cases.push(file ? { name, file, answers } : { name, json, answers });
}
await mkdir(folder, { recursive: true });
await writeFile(path.join(folder, "native-tokenizers.json"),
  JSON.stringify({ texts, formTexts, cases }));
console.log(`native library: ${cases.length} tokenizers, ${texts.length} texts each`);
