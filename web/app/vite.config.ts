// One page, one worker, hashed assets and nothing inline: what the server's Content-Security-Policy
// (default-src 'self'; script-src 'self' 'wasm-unsafe-eval') allows.
import { defineConfig } from "vite";

export default defineConfig({
  root: import.meta.dirname,
  base: "/",
  // A worker is a module of its own, so that its imports can be lazy (onnxruntime-web is large).
  worker: { format: "es" },
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    target: "es2023",
    // A data: URL would be refused by the policy above.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1500,
  },
  server: {
    // `npm run dev` shows the page from its sources; everything else comes from a running weft.
    proxy: {
      "/api": "http://127.0.0.1:8080",
      "/v1": "http://127.0.0.1:8080",
      "/package": "http://127.0.0.1:8080",
      "/probe": "http://127.0.0.1:8080",
      "/worker": { target: "ws://127.0.0.1:8080", ws: true },
    },
  },
});
