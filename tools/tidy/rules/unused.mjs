// Names that the product declares and does not use: what only tests and benches reach is not in the
// product. Names count as text, whatever scope they are of, so that this finds less than there is
// and blames nothing that is used.
import { filesOf } from "../../ops/files.mjs";
import { declarationsOf } from "../declarations.mjs";
import { isTestFile, stripSource } from "../source.mjs";

const kCxx = /^src\/.*\.(h|cc|cu|cuh)$/;
const kWeb = /^web\/(packages|app)\/.*\.tsx?$/;
const kTestSupport = /_testing(_\w+)?\.(h|cc)$/;
// Called by the language, or found by Beast where it asks for them.
const kCalledByLibraries =
  /^(begin|end|swap|what|iterator|(\w+_)?type|async_teardown|teardown|beast_close_socket)$/;

// Verbs that only tests have a use for, each with why they cannot do without it.
const kForTests = new Map([
  ["ExportKv", "engines are compared by the keys and values that they hold"],
  ["ImportKv", "one engine goes on with what another one held"],
  ["LoadModelFromBytes", "what a fuzzer gives is in no file"],
  ["encodeFork", "tests of tabs speak for the server"],
]);

const kOps = "src/program/ops.json";

const isProduct = (path) => !isTestFile(path) && !kTestSupport.test(path);

function count(counts, name, times) {
  counts.set(name, (counts.get(name) ?? 0) + times);
}

function countWords(counts, code) {
  for (const [word] of code.matchAll(/[A-Za-z_]\w*/g)) count(counts, word, 1);
}

// Code that the build makes uses names, too.
function countGenerated(counts, files, language) {
  const ops = files.find(({ path }) => path === kOps);
  if (ops) for (const [, text] of filesOf(language, ops.text)) countWords(counts, text);
}

function problem({ path, line, kind, name }) {
  return {
    path, line, what: `the ${kind} ${name} is used nowhere outside tests and benches`,
    instead: "remove it with what says that it is there, or use it",
  };
}

function unusedCxx(files) {
  const uses = new Map();
  countGenerated(uses, files, "cpp");
  const candidates = [];
  for (const file of files) {
    if (!kCxx.test(file.path) || !isProduct(file.path)) continue;
    const code = stripSource(file.text, "cxx");
    countWords(uses, code);
    for (const found of declarationsOf(code)) {
      count(uses, found.name, -1);
      for (const extra of found.extra) count(uses, extra, -1);
      if (found.kind === "constructor") continue;
      if (file.path.endsWith(".h")) candidates.push({ path: file.path, ...found });
    }
  }
  return candidates.filter(({ name, isOverride }) => uses.get(name) <= 0 && !isOverride &&
    !kForTests.has(name) && !kCalledByLibraries.test(name));
}

const kExport = new RegExp("\\bexport\\s+(?:default\\s+)?(?:abstract\\s+)?(?:async\\s+)?" +
  "(function\\*?|const|let|class|interface|type|enum)\\s+([A-Za-z_$][\\w$]*)", "g");
// Names on their way through; `as` gives them another one, which is a use.
const kPassing = /\b(import|export)\s+(?:type\s+)?(?:[\w$]+\s*,\s*)?\{([^}]*)\}(?:\s*from\b)?/g;

function unusedWeb(files) {
  const uses = new Map();
  countGenerated(uses, files, "typescript");
  const candidates = [];
  for (const file of files) {
    if (!kWeb.test(file.path) || !isProduct(file.path)) continue;
    const code = stripSource(file.text, "ts", { keepStrings: true });
    countWords(uses, code);
    for (const match of code.matchAll(kPassing)) {
      for (const item of match[2].split(",")) {
        const name = /^\s*(?:type\s+)?([\w$]+)\s*$/.exec(item)?.[1];
        if (name) count(uses, name, -1);
      }
    }
    for (const match of code.matchAll(kExport)) {
      count(uses, match[2], -1);
      const at = match.index + match[0].lastIndexOf(match[2]);
      const line = code.slice(0, at).split("\n").length;
      candidates.push({ path: file.path, line, kind: match[1], name: match[2] });
    }
  }
  return candidates.filter(({ name }) => uses.get(name) <= 0 && !kForTests.has(name));
}

export function unusedNames(files) {
  return [...unusedCxx(files), ...unusedWeb(files)].map(problem);
}
