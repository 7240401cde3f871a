// Writes a .br and a .gz beside every text or wasm asset of web/dist, so that the server never
// compresses. Run after `vite build`. Files that would not get smaller are left alone.
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { extname, join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const kCompressible = new Set([".html", ".js", ".mjs", ".css", ".svg", ".json", ".wasm", ".map"]);
// Quality 11 takes half a minute on onnxruntime's wasm; 9 is a little larger and ten times faster.
const kLargeFileBytes = 1 << 20;

function* filesUnder(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) yield* filesUnder(path);
    else yield path;
  }
}

function brotli(bytes) {
  const quality = bytes.length > kLargeFileBytes ? 9 : 11;
  return brotliCompressSync(bytes, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: quality,
      [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
    },
  });
}

const dist = process.argv[2] ?? new URL("../../dist", import.meta.url).pathname;
let fileCount = 0;
let rawBytes = 0;
let brotliBytes = 0;
for (const path of [...filesUnder(dist)]) {
  if (!kCompressible.has(extname(path)) || statSync(path).size < 512) continue;
  const bytes = readFileSync(path);
  const compressed = brotli(bytes);
  if (compressed.length >= bytes.length) continue;
  writeFileSync(`${path}.br`, compressed);
  writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
  fileCount += 1;
  rawBytes += bytes.length;
  brotliBytes += compressed.length;
}
const mib = (count) => (count / (1 << 20)).toFixed(2);
console.log(
  `precompressed ${fileCount} files: ${mib(rawBytes)} MiB -> ${mib(brotliBytes)} MiB (br)`,
);
