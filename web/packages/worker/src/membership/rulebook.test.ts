// The rules of docs/protocol.md for workers, case by case: tests/conformance/membership. The same
// ones run through src/worker/membership_rulebook_test.cc.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

import { expect, it } from "vitest";

import { runCase } from "../test/rulebook.ts";
import type { Case } from "../test/rulebook.ts";

const folder = join(import.meta.dirname, "../../../../../tests/conformance/membership");
const files = readdirSync(folder).filter((name) => name.endsWith(".json")).sort();

it("there are cases", () => expect(files.length).toBeGreaterThan(50));

it.each(files)("%s", (file) => {
  runCase(JSON.parse(readFileSync(join(folder, file), "utf8")) as Case);
});
