// What files may be there, how large they are, and how they begin.
import { isTestFile, languageOf } from "../source.mjs";

export const kMaxFileBytes = 512 * 1024;
const kRequired = [
  "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE",
  "dev", ".ci/run",
];
const kBuilt = new RegExp([
  "(^|/)node_modules/", "^web/dist/", "^build/", "^packages/", "(^|/)__pycache__/",
  "^web/packages/[^/]+/gen/",
].join("|"));

export function repositoryFiles(files) {
  const problems = [];
  const paths = new Set(files.map((file) => file.path));
  for (const path of kRequired) {
    if (paths.has(path)) continue;
    problems.push({ path, line: 1, what: "this file is missing", instead: "write it" });
  }
  for (const file of files) {
    if (kBuilt.test(file.path)) {
      problems.push({ path: file.path, line: 1, what: "a built file in git",
        instead: "git rm --cached it; it is made by ./dev" });
    }
    if (file.byteCount > kMaxFileBytes && !file.path.startsWith("models/")) {
      const kib = Math.ceil(file.byteCount / 1024);
      problems.push({ path: file.path, line: 1, what: `file of ${kib} KiB, the limit is 512 KiB`,
        instead: "make it by a script, or shrink it" });
    }
  }
  return problems;
}

export function fileHead(file) {
  const language = languageOf(file.path, file.text);
  if (!["cxx", "ts", "wgsl", "py", "sh", "proto"].includes(language)) return [];
  const problems = [];
  // Highway includes an -inl.h once for every vector target, guarded by its own macros.
  const isOnce = /^#pragma once$/m.test(file.text) || file.path.endsWith("-inl.h");
  if (file.path.endsWith(".h") && !isOnce) {
    problems.push({ line: 1, what: "header without #pragma once",
      instead: "add it after the head comment" });
  }
  if (!hasHeadComment(file, language)) {
    problems.push({ line: 1, what: "no comment at the head of the file",
      instead: "say in 2 to 8 lines what this is and what it is not" });
  }
  return problems;
}

function hasHeadComment(file, language) {
  const text = file.text.replace(/^#!.*\n/, "").trimStart();
  if (text === "") return /__init__\.py$/.test(file.path);
  if (/^export \{\};\s*$/.test(text)) return true;
  if (language === "py") return /^(#|"""|''')/.test(text);
  if (language === "sh") return /^#/.test(text);
  if (/^(\/\/|\/\*)/.test(text)) return true;
  if (language === "ts" && isTestFile(file.path)) return true;
  // x.cc and x_test.cc are described by x.h, which they include.
  const stem = /([^/]+?)(_test)?\.cc$/.exec(file.path)?.[1];
  if (!stem) return false;
  const own = file.path.replace(/^src\//, "").replace(/[^/]+$/, `${stem}.h`);
  return text.includes(`#include "${own}"`);
}
