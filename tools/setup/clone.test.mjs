import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { differences, importsOf, missingImports } from "./clone.mjs";

function inFolder(body) {
  const folder = mkdtempSync(join(tmpdir(), "weft-clone-"));
  try {
    body(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("imports by relative path are found in each spelling", () => {
  const lines = ['import { a } from "./a.mjs";', "import '../b.ts';", 'import fs from "node:fs";',
    "import {", "  c,", '} from "../../c.ts";', 'export * from "./d.ts";', 'const e = "./e.ts";'];
  assert.deepEqual(importsOf(lines.join("\n")), ["./a.mjs", "../b.ts", "../../c.ts", "./d.ts"]);
});

test("an import of a file that is not there is named", () => {
  inFolder((folder) => {
    writeFileSync(join(folder, "a.mjs"), 'import "node:fs";\nimport { b } from "./b.mjs";');
    const both = 'import { a } from "./a.mjs";\nimport { d } from "./d.ts";';
    writeFileSync(join(folder, "c.ts"), both);
    assert.deepEqual(missingImports(folder).sort(), [
      "a.mjs imports ./b.mjs",
      "c.ts imports ./d.ts",
    ]);
  });
});

test("files that differ or are in one folder only", () => {
  inFolder((folder) => {
    for (const [path, text] of [["x/same", "1"], ["y/same", "1"], ["x/other", "1"],
      ["y/other", "2"], ["x/alone", "1"]]) {
      mkdirSync(join(folder, path, ".."), { recursive: true });
      writeFileSync(join(folder, path), text);
    }
    assert.deepEqual(differences(join(folder, "x"), join(folder, "y")).sort(), ["alone", "other"]);
  });
});
