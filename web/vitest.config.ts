// Unit tests of the web packages, run in Node: `./dev test --only web` or `npx vitest` in this
// folder. What needs a real browser is in tests/e2e.
import { defineConfig } from "vitest/config";

const kNever = ["**/node_modules/**", "**/gen/**"];
const kEngine = "packages/engine/**/*.test.ts";
const kOrt = "packages/engine-ort/**/*.test.ts";

export default defineConfig({
  test: {
    environment: "node",
    // Two cores is the machine this must run well on.
    maxWorkers: 2,
    // `./dev test` gives them what browsers' tests leave of the processors.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    passWithNoTests: true,
    projects: [
      // Most of the time of these would be spent on compiling the same kernels for each file: one
      // worker runs all files, which share its device and what was compiled on it
      // (test/nodeGpu.ts). They come behind the others; the adapter itself has several threads.
      {
        extends: true,
        test: {
          name: "engine",
          include: [kEngine],
          exclude: kNever,
          isolate: false,
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
      // A heap of onnxruntime is its process's: a process for each file.
      {
        extends: true,
        test: { name: "engine-ort", include: [kOrt], exclude: kNever },
      },
      // Most of the time of these would be spent on importing the same modules for each file.
      {
        extends: true,
        test: {
          name: "packages",
          include: ["packages/*/**/*.test.ts", "packages/*/**/*.test.tsx", "app/**/*.test.ts"],
          exclude: [...kNever, kEngine, kOrt],
          isolate: false,
        },
      },
    ],
  },
});
