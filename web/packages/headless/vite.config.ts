// One file with all that it needs but Node and Dawn, beside the page's files.
import { join } from "node:path";

import { defineConfig } from "vite";

export default defineConfig({
  root: import.meta.dirname,
  ssr: { noExternal: true },
  build: {
    ssr: join(import.meta.dirname, "src/main.ts"),
    outDir: "../../dist/headless",
    emptyOutDir: true,
    target: "node20",
    rollupOptions: { output: { entryFileNames: "worker.mjs", codeSplitting: false } },
  },
});
