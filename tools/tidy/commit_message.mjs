#!/usr/bin/env node
// What a commit's message must look like: `module: imperative summary` in at most 72 columns, and a
// body where a format changes that other programs read. The hook .githooks/commit-msg runs it.
// Usage: node tools/tidy/commit_message.mjs FILE
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export const kMaxSubjectColumns = 72;

// Where the wire protocol, the program format and the package format are written down.
const kFormats = new Set(["src/wire/control.proto", "src/wire/version.h",
  "src/program/program.proto", "src/program/views.proto", "src/program/ops.json",
  "src/package/manifest.h"]);

// Git writes these itself, or takes them away when it squashes.
const kByGit = /^(Merge |Revert "|fixup! |squash! |amend! )/;
const kSubject = /^[a-z][\w/-]*(, [a-z][\w/-]*)*: (\S+)( .*)?$/;

// Words that begin no request. A name or a noun cannot be told from a verb, so it passes.
const kNoImperative = new RegExp("^(an?|the|this|that|these|those|what|which|who|how|why|when|" +
  "where|its?|we|our|some|all|no|one|two|every|each|is|are|was|\\d.*|[a-z]{2,}(ing|[^e]ed))$");
const kImperative = /^(bring|string|ring|sing|ping|swing|cling|spring|shred|embed|wed)$/;

// Sentences about what is wrong; `paths` are the files that the commit changes.
export function messageProblems(message, paths) {
  const lines = message.split("\n").filter((line) => !line.startsWith("#"));
  while (lines.length > 0 && lines[0].trim() === "") lines.shift();
  const subject = lines[0] ?? "";
  if (kByGit.test(subject)) return [];
  const problems = [];
  const width = [...subject].length;
  if (width > kMaxSubjectColumns) {
    problems.push(`the subject has ${width} columns, the limit is ${kMaxSubjectColumns}`);
  }
  const found = kSubject.exec(subject);
  if (!found) {
    problems.push("the subject is not 'module: imperative summary', like 'swarm: keep idle rows'");
  } else if (kNoImperative.test(found[2]) && !kImperative.test(found[2])) {
    problems.push(`'${found[2]}' begins no request: ` +
      "say what the commit does, like 'keep idle rows'");
  }
  if (/\.$/.test(subject)) problems.push("the subject ends with a full stop: leave it out");
  if (lines.length > 1 && lines[1].trim() !== "") {
    problems.push("the second line is not empty: the body begins behind an empty line");
  }
  const format = paths.find((path) => kFormats.has(path));
  if (format && !lines.slice(1).some((line) => line.trim() !== "")) {
    problems.push(`${format} is a format that other programs read: ` +
      "say in a body what changes and what users have to do");
  }
  return problems;
}

function main(messageFile) {
  const changed = execFileSync("git", ["diff", "--cached", "--name-only"], { encoding: "utf8" });
  const problems = messageProblems(readFileSync(messageFile, "utf8"), changed.split("\n"));
  for (const problem of problems) console.error(`commit message: ${problem}`);
  if (problems.length > 0) process.exitCode = 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv[2]);
