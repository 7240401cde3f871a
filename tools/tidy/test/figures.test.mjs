// The figures of small texts whose figures a reader can count.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { commentShare, figuresOf, trailingComments } from "../figures.mjs";
import { isFragment, medianOf, paragraphsOfComments, paragraphsOfMarkdown, proseFigures,
  sentencesOf } from "../prose.mjs";

test("sentences end with a mark before a capital, and with their paragraph", () => {
  assert.deepEqual(sentencesOf("You start it. It takes 1.5 s, e.g. Two. `weft` runs"),
    ["You start it.", "It takes 1.5 s, e.g. Two.", "\u0001 runs"]);
  assert.deepEqual(sentencesOf("**Limits.** See [the page](a.md). No"), ["See the page.", "No"]);
});

test("prose is paragraphs and list items, no tables, code or headings", () => {
  const text = "# Head\n\nOne is\nhere.\n\n| a | b |\n\n- Two is.\n\n```\ncode\n```\n";
  assert.deepEqual(paragraphsOfMarkdown(text), ["One is here.", "Two is."]);
  const comments = "// One is\n// here.\n//\n//   x | y\n// - Two is.\nint a;\n";
  assert.deepEqual(paragraphsOfComments(comments), ["One is here.", "Two is."]);
});

test("a sentence without a verb is a fragment", () => {
  for (const text of ["No cookies.", "Bytes of a row.", "The larger one, in f32."]) {
    assert.ok(isFragment(text), text);
  }
  for (const text of ["It carries two rows.", "Try this.", "That's all.", "It reaches you."]) {
    assert.ok(!isFragment(text), text);
  }
});

test("figures of prose", () => {
  const long = `It is ${"x ".repeat(29)}.`;
  const figures = proseFigures(["No rows. You see what it is, which helps.", long]);
  assert.deepEqual(figures, { words: 40, sentences: 3, words_a_sentence: 7, over_25: 1 / 3,
    over_30: 1 / 3, relative_per_100: 100 / 40, fragments: 1 / 3 });
  assert.equal(proseFigures([]).words, 0);
  assert.equal(medianOf([4, 1, 3, 2]), 2.5);
});

test("figures of code", () => {
  const file = { path: "src/base/a.cc",
    text: "// Head.\nint A() {\n  return 1;  // one row\n}\nint b = 2;  // It is two.\n" };
  assert.equal(commentShare([file]), 1 / 5);
  assert.deepEqual(trailingComments(file), ["one row", "It is two."]);
  const figures = figuresOf([file, { path: "docs/a.md", text: "It is.\n" }]);
  assert.equal(figures.files, 1);
  assert.equal(figures.median_file_lines, 5);
  assert.equal(figures.longest_function.lineCount, 3);
  assert.equal(figures.trailing_comments, 2);
  assert.equal(figures.trailing_fragments, 1);
  assert.equal(figures.documents.sentences, 1);
});

test("the command prints the figures of a revision", () => {
  const command = fileURLToPath(new URL("../figures.mjs", import.meta.url));
  const run = (...args) => JSON.parse(execFileSync("node", [command, "--json", ...args]));
  const now = run("src/base/");
  assert.ok(now.files > 10 && now.header_comments > 0 && now.headers.words > 100);
  assert.ok(run("--at", "HEAD", "src/base/").files > 10);
});
