// The files that are made of src/program/ops.json, by language: names and texts.
import * as cpp from "./cpp.mjs";
import { readDescription } from "./description.mjs";
import { proto } from "./proto.mjs";
import * as typescript from "./typescript.mjs";

const kMakers = {
  cpp: {
    "ops.proto": proto,
    "ops.gen.h": cpp.structs,
    "op_codec.gen.h": cpp.codec,
    "op_visits.gen.h": cpp.visits,
    "op_rules.gen.h": cpp.rules,
  },
  typescript: {
    "ops.proto": proto,
    "ops.ts": typescript.types,
    "opCodec.ts": typescript.codec,
    "opRules.ts": typescript.rules,
  },
};

// [name, text] of every file in a language, from the text of ops.json.
export function filesOf(language, text) {
  const description = readDescription(text);
  return Object.entries(kMakers[language]).map(([name, make]) => [name, make(description)]);
}
