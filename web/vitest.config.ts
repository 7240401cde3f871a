// Unit tests of the web packages, run in Node: `./dev test --only web` or `npx vitest` in this
// folder. What needs a real browser is in tests/e2e.
import { defineConfig } from "vitest/config";

const kNever = ["**/node_modules/**", "**/gen/**"];

export default defineConfig({
  test: {
    environment: "node",
    // Two cores is the machine this must run well on.
    maxWorkers: 2,
    testTimeout: 20_000,
    passWithNoTests: true,
    projects: [
      {
        extends: true,
        test: {
          name: "engine",
          include: ["packages/engine/**/*.test.ts"],
          exclude: kNever,
          // The files of a worker share a device and what was compiled on it (test/nodeGpu.ts).
          isolate: false,
        },
      },
      {
        extends: true,
        test: {
          name: "web",
          include: ["packages/*/**/*.test.ts", "packages/*/**/*.test.tsx", "app/**/*.test.ts"],
          exclude: [...kNever, "packages/engine/**"],
        },
      },
    ],
  },
});
