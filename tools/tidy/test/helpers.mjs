// A file as the rules see it, and the shortest way to say what a rule must find in it.
import assert from "node:assert/strict";
import { checkTree } from "../tidy.mjs";

export function fakeFile(path, text) {
  return { path, text, byteCount: Buffer.byteLength(text), isText: true };
}

// The problems of one rule in a tree given as {path: text}.
export function problemsOf(rule, tree) {
  const files = Object.entries(tree).map(([path, text]) => fakeFile(path, text));
  return checkTree(files).filter((problem) => problem.rule === rule);
}

// REQUIRES exactly one problem, at that place, whose text matches.
export function assertCaught(rule, tree, place, pattern) {
  const problems = problemsOf(rule, tree);
  assert.equal(problems.length, 1, JSON.stringify(problems));
  assert.equal(`${problems[0].path}:${problems[0].line}`, place);
  assert.match(problems[0].what, pattern);
  assert.ok(problems[0].instead.length > 0, "a problem says what to do instead");
}

export function assertClean(rule, tree) {
  assert.deepEqual(problemsOf(rule, tree), []);
}
