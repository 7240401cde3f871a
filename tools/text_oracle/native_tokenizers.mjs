// Writes what the native tokenizers library (npm @anush008/tokenizers) makes of generated
// tokenizer.json files and texts, for tokenizer/native_oracle_test.cc:
//   node tools/text_oracle/native_tokenizers.mjs [FOLDER]
import { Tokenizer } from "@anush008/tokenizers";
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";

import { nativeVariants, scriptTexts } from "./native_variants.mjs";

const root = path.resolve(import.meta.dirname, "../..");
const folder = path.resolve(process.argv[2] ?? path.join(root, "build/text-oracle"));
const texts = scriptTexts(Number(process.env.WEFT_NATIVE_TEXTS ?? 500), 38);

const cases = [];
for (const { name, json } of nativeVariants()) {
  const tokenizer = Tokenizer.fromString(JSON.stringify(json));
  const answers = [];
  for (const text of texts) {
    const encoding = await tokenizer.encode(text, null, { addSpecialTokens: false });
    const ids = [...encoding.getIds()];
    const decoded = ids.length === 0 ? "" : await tokenizer.decode(ids, false);
    answers.push([ids, decoded]);
  }
  cases.push({ name, json, answers });
}
await mkdir(folder, { recursive: true });
await writeFile(path.join(folder, "native-tokenizers.json"), JSON.stringify({ texts, cases }));
console.log(`native library: ${cases.length} tokenizers, ${texts.length} texts each`);
