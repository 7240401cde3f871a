// Unit tests of the web packages, run in Node: `./dev test --only web` or `npx vitest` in this
// folder. What needs a real browser is in tests/e2e.
import { defineConfig } from "vitest/config";

const kEngines = ["packages/engine/**/*.test.ts", "packages/engine-ort/**/*.test.ts"];

export default defineConfig({
  test: {
    environment: "node",
    // Two cores is the machine this must run well on.
    maxWorkers: 2,
    testTimeout: 20_000,
    passWithNoTests: true,
    projects: [
      // A device of Dawn and a heap of onnxruntime are their process's: a process for each file.
      {
        extends: true,
        test: {
          name: "engines",
          include: kEngines,
          exclude: ["**/node_modules/**", "**/gen/**"],
        },
      },
      // Most of the time of these would be spent on importing the same modules for each file.
      {
        extends: true,
        test: {
          name: "packages",
          include: ["packages/*/**/*.test.ts", "packages/*/**/*.test.tsx", "app/**/*.test.ts"],
          exclude: ["**/node_modules/**", "**/gen/**", ...kEngines],
          isolate: false,
        },
      },
    ],
  },
});
