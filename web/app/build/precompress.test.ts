// The compressed forms must decompress to the asset itself (oracle: Node's own zlib).
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { afterEach, beforeEach, expect, test } from "vitest";

let dist = "";
const asset = (name: string): string => join(dist, name);
const run = (): void => {
  execFileSync("node", [join(import.meta.dirname, "precompress.mjs"), dist]);
};

beforeEach(() => {
  dist = mkdtempSync(join(tmpdir(), "weft-dist-"));
  mkdirSync(asset("assets"));
});
afterEach(() => {
  rmSync(dist, { recursive: true });
});

test("text assets in every folder get both forms, equal to the asset", () => {
  const text = "export const answer = 42;\n".repeat(100);
  writeFileSync(asset("index.html"), text);
  writeFileSync(asset("assets/a.js"), text);
  run();
  for (const name of ["index.html", "assets/a.js"]) {
    expect(brotliDecompressSync(readFileSync(asset(`${name}.br`))).toString()).toBe(text);
    expect(gunzipSync(readFileSync(asset(`${name}.gz`))).toString()).toBe(text);
  }
});

test("what compression does not help stays alone", () => {
  const noise = crypto.getRandomValues(Buffer.alloc(4096));
  writeFileSync(asset("small.js"), "x");
  writeFileSync(asset("picture.png"), Buffer.alloc(4096));
  writeFileSync(asset("assets/noise.wasm"), noise);
  run();
  for (const name of ["small.js", "picture.png", "assets/noise.wasm"]) {
    expect(existsSync(asset(`${name}.br`)), name).toBe(false);
    expect(existsSync(asset(`${name}.gz`)), name).toBe(false);
  }
});
