// Unit tests of the web packages, run in Node: `./dev test --only web` or `npx vitest` in this
// folder. What needs a real browser is in tests/e2e.
import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["packages/*/**/*.test.ts", "packages/*/**/*.test.tsx", "app/**/*.test.ts"],
    exclude: ["**/node_modules/**", "**/gen/**"],
    environment: "node",
    // Two cores is the machine this must run well on.
    maxWorkers: 2,
    testTimeout: 20_000,
    passWithNoTests: true,
  },
});
