// Every case of tests/conformance through the engine on whatever WebGPU device Node has: several
// rows together and one by one, which must give the same bits.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import type { ConformanceCase } from "./test/caseInputs.ts";
import { openNodeGpu } from "./test/nodeGpu.ts";
import { runCase } from "./test/runCase.ts";

const folder = join(import.meta.dirname, "../../../../tests/conformance");
const gpu = await openNodeGpu();

// penalize runs on the server, which samples.
const files = readdirSync(folder).filter(
  (name) => name.endsWith(".json") && name !== "penalize.json",
);

describe.skipIf(!gpu)("conformance on WebGPU", () => {
  for (const file of files) {
    const cases = JSON.parse(readFileSync(join(folder, file), "utf8")) as ConformanceCase[];
    it(`${file}: ${cases.length} cases`, { timeout: 240_000 }, async () => {
      for (const c of cases) {
        const got = await runCase(gpu!, c, 1000);
        const where = `${c.op} ${c.name}`;
        // A vocabulary of one token has no runner-up.
        const isShort = c.op === "argmax" && got.length === 2;
        expect(got.length, where).toBe(isShort ? 2 : c.expected.length);
        for (const [i, value] of got.entries()) {
          const wanted = c.expected[i]!;
          const most = c.tolerance * Math.max(1, Math.abs(wanted));
          if (!(Math.abs(value - wanted) <= most)) {
            expect.fail(`${where}: element ${i} is ${value}, expected ${wanted}`);
          }
        }
        expect(await runCase(gpu!, c, 1), `${where}, row by row`).toEqual(got);
      }
    });
  }
});
