// Writes the manual and the completions: node packaging/make_texts.mjs WEFT FOLDER
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { bashCompletion, zshCompletion } from "./completions.mjs";
import { helpOf } from "./help_text.mjs";
import { manual } from "./manual.mjs";

const [weft, folder] = process.argv.slice(2);
const version = execFileSync(weft, ["--version"], { encoding: "utf8" }).trim().split(" ").at(-1);
const helps = helpOf(weft);
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, "weft.1.gz"), gzipSync(manual(helps, version)));
writeFileSync(join(folder, "weft.bash"), bashCompletion(helps));
writeFileSync(join(folder, "_weft"), zshCompletion(helps));
