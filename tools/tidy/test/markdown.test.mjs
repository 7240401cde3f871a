// What the Markdown formatter fills, what it leaves alone, and that a second run changes nothing.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { formatMarkdown } from "../markdown.mjs";

const kRoot = fileURLToPath(new URL("../../../", import.meta.url));

test("paragraphs and list items are filled", () => {
  assert.equal(formatMarkdown("one two\nthree\n\nfour\n", 13), "one two three\n\nfour\n");
  assert.equal(formatMarkdown("one two three\n", 9), "one two\nthree\n");
  assert.equal(formatMarkdown("- one two\n- three four five\n  six\n", 12),
    "- one two\n- three four\n  five six\n");
  assert.equal(formatMarkdown("10. one\ntwo three\n\n    four\n    five\n", 14),
    "10. one two\n    three\n\n    four five\n");
});

test("tables, code, headings, quotes and hard breaks stay", () => {
  for (const text of ["| a | b |\n|---|---|\n| c d e | f |\n", "```\none\ntwo three\n```\n",
    "    one\n    two\n", "# one two three four\n", "> one\n> two\n", "one  \ntwo\n", "<p>\none\n",
    "[name]: https://example.org/a-long-address\n", "---\n"]) {
    assert.equal(formatMarkdown(text, 10), text);
  }
});

test("a command is not broken, and no line begins as something else", () => {
  assert.equal(formatMarkdown("see `weft serve --plan`.\n", 20), "see\n`weft serve --plan`.\n");
  assert.equal(formatMarkdown("`weft serve --plan x`\n", 16), "`weft serve\n--plan x`\n");
  assert.equal(formatMarkdown("one two - three\n", 8), "one\ntwo -\nthree\n");
  assert.equal(formatMarkdown("in the year 2024. A\n", 13), "in the\nyear 2024. A\n");
});

test("every document is the same after a second run, with every word of before", () => {
  const paths = execFileSync("git", ["ls-files", "*.md"], { cwd: kRoot, encoding: "utf8" });
  for (const path of paths.split("\n").filter(Boolean)) {
    const text = readFileSync(join(kRoot, path), "utf8");
    const once = formatMarkdown(text);
    assert.equal(formatMarkdown(once), once, path);
    assert.deepEqual(once.split(/\s+/), text.split(/\s+/), path);
  }
});
