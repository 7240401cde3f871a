#!/usr/bin/env node
// Fills the paragraphs of Markdown files up to 100 columns; tables and code stay as they are.
// Usage: node tools/tidy/format_markdown.mjs [--check] FILE...
// --check writes nothing, names the files that would change and exits with 1 if there are any.
// (Prettier lays tables out anew and cannot be told not to, so this is a tool of our own.)
import { readFileSync, writeFileSync } from "node:fs";
import { formatMarkdown } from "./markdown.mjs";

const paths = process.argv.slice(2).filter((word) => word !== "--check");
const isCheck = paths.length < process.argv.length - 2;
for (const path of paths) {
  const text = readFileSync(path, "utf8");
  const formatted = formatMarkdown(text);
  if (formatted === text) continue;
  if (isCheck) {
    console.log(`${path}: not formatted: run ./dev fmt`);
    process.exitCode = 1;
  } else {
    writeFileSync(path, formatted);
  }
}
