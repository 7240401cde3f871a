// Writes what src/program/ops.json describes into a folder of the build:
//   node generate.mjs cpp|typescript OPS OUT
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { filesOf } from "./files.mjs";

const [language, source, out] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
for (const [name, text] of filesOf(language, readFileSync(source, "utf8"))) {
  writeFileSync(join(out, name), text);
}
