// Who a worker is when it starts again, and beside others.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";

import { takeWorkerId } from "./workerId.ts";

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "weft-id-"))));
afterEach(() => rmSync(folder, { recursive: true }));

it("the same after a process that ended, another beside one that runs", () => {
  const gone = execFileSync("sh", ["-c", "echo $$"], { encoding: "utf8" });
  writeFileSync(join(folder, "gpu-worker-id-0"), "12".repeat(16));
  writeFileSync(join(folder, "gpu-worker-id-0.taken"), gone);
  expect(takeWorkerId(folder, 0)).toBe("12".repeat(16));
  const second = takeWorkerId(folder, 0); // this process has the first one
  expect(second).toMatch(/^[0-9a-f]{32}$/);
  expect(second).not.toBe("12".repeat(16));
  expect(readFileSync(join(folder, "gpu-worker-id-0-2"), "utf8")).toBe(second);
  expect(takeWorkerId(folder, 1)).not.toBe(second);
});

it("a new one where nothing can be kept", () => {
  writeFileSync(join(folder, "file"), "");
  const ids = [0, 1].map(() => takeWorkerId(join(folder, "file"), 0));
  expect(ids[0]).toMatch(/^[0-9a-f]{32}$/);
  expect(ids[0]).not.toBe(ids[1]);
});
