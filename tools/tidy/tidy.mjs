#!/usr/bin/env node
// A test of the repository itself: module table, cycles, width, length, banned calls, unfinished
// work, file sizes. Usage: node tools/tidy/tidy.mjs [--json FILE] [path prefix...]
// Prints `file:line: what: instead` for every problem; exit status 1 when there is one.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { perFileRules, treeRules } from "./rules/all.mjs";

const kBinary = /\.(png|jpe?g|webp|ico|woff2?|safetensors|onnx|gguf|bin|wasm|gz|br|zip|npz|pdf)$/i;

// Tracked files and new ones that git does not ignore, as {path, text, byteCount}.
function readTree(root) {
  const list = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"],
    { cwd: root, maxBuffer: 1 << 28 });
  const files = [];
  for (const path of new Set(list.toString("utf8").split("\0").filter(Boolean))) {
    const full = join(root, path);
    if (!existsSync(full) || !statSync(full).isFile()) continue;
    const byteCount = statSync(full).size;
    const isText = !kBinary.test(path) && byteCount < (4 << 20);
    files.push({ path, byteCount, text: isText ? readFileSync(full, "utf8") : "", isText });
  }
  return files;
}

export function checkTree(files) {
  const problems = [];
  for (const rule of treeRules) {
    for (const problem of rule.run(files)) problems.push({ rule: rule.name, ...problem });
  }
  for (const file of files) {
    // Fuzz inputs and the like hold bytes, not text.
    if (!file.isText || file.text.includes("\0")) continue;
    for (const rule of perFileRules) {
      for (const problem of rule.run(file)) {
        problems.push({ rule: rule.name, path: file.path, ...problem });
      }
    }
  }
  return problems.sort((a, b) => a.path.localeCompare(b.path) || a.line - b.line);
}

function main(args) {
  const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
  const jsonAt = args.indexOf("--json");
  const jsonPath = jsonAt >= 0 ? args.splice(jsonAt, 2)[1] : undefined;
  const files = readTree(root);
  const problems = checkTree(files)
    .filter(({ path }) => args.length === 0 || args.some((prefix) => path.startsWith(prefix)));
  for (const { path, line, what, instead } of problems) {
    console.log(`${path}:${line}: ${what}: ${instead}`);
  }
  const rules = [...treeRules, ...perFileRules].map((rule) => rule.name);
  const failed = new Set(problems.map((problem) => problem.rule));
  console.log(`tidy: ${files.length} files, ${rules.length} rules, ${problems.length} problems`);
  if (jsonPath) {
    const counts = { passed: rules.length - failed.size, failed: failed.size, skipped: 0 };
    writeFileSync(jsonPath, JSON.stringify(counts));
  }
  process.exitCode = problems.length > 0 ? 1 : 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.slice(2));
