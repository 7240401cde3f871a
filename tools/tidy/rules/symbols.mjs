// Symbols and files that comments and documents name: each must be there. A comment that names what
// was renamed sends its reader on a search for nothing.
import { languageOf, lineAt, stripSource } from "../source.mjs";

const kForeign = new Set(["std", "boost", "hwy", "google", "testing", "benchmark"]);
const kLanguages = new Set(["cxx", "ts", "wgsl", "proto", "py", "sh", "cmake"]);
const kPapers = /^(README|ARCHITECTURE|SECURITY|CONTRIBUTING)\.md$|^docs\/.*\.md$/;

// A name in its scopes; a call without arguments; a constant; a file's name with its extension.
const kScoped = /\b[A-Za-z_]\w*(?:::~?[A-Za-z_]\w*)+/g;
const kCall = /(?<![\w.:/])[A-Z][a-z0-9]+[A-Z]\w*(?=\(\))/g;
const kConstant = /(?<![\w.:/])k[A-Z]\w+/g;
const kFileName = new RegExp("(?<![\\w@*<>{}$./-])(?:[\\w.-]+/)*\\w[\\w-]*(?:\\.[\\w-]+)*" +
  "\\.(?:h|cc|cu|cuh|mjs|tsx?|wgsl|proto|py)(?![\\w*/({-]|\\.\\w)", "g");
// Placeholders such as x.h, a.cc and x_test.cc; what a build writes; a field that is called wgsl.
const kNoFile = /(^|\/)[a-z](_\w+)?(\.test)?\.\w+$|^build\/|[A-Z]\w*\.wgsl$/;

// What comments say, each on its line; undefined where nothing is said.
function commentsOf({ path, text }) {
  if (kPapers.test(path)) return text;
  const language = languageOf(path, text);
  if (!kLanguages.has(language)) return undefined;
  const code = stripSource(text, language, { keepStrings: true });
  let said = "";
  let from = 0; // of the comment that may begin here
  for (const { index, 0: run } of code.matchAll(/[^ \n]+/g)) {
    said += text.slice(from, index) + " ".repeat(run.length);
    from = index + run.length;
  }
  return said + text.slice(from);
}

// A comment may leave out the folders in front.
function addPath(paths, path) {
  for (let at = 0; at >= 0; at = path.indexOf("/", at) + 1 || -1) paths.add(path.slice(at));
}

function knownNames(files) {
  const words = new Set();
  const paths = new Set();
  for (const { path, text } of files) {
    addPath(paths, path);
    const language = languageOf(path, text);
    if (!kLanguages.has(language)) continue;
    for (const word of stripSource(text, language).match(/[A-Za-z_]\w*/g) ?? []) words.add(word);
    // What code names may be a library's or what a build writes.
    const code = stripSource(text, language, { keepStrings: true });
    for (const name of code.match(kFileName) ?? []) addPath(paths, name);
  }
  for (const path of [...paths]) {
    if (path.endsWith(".proto")) paths.add(path.replace(/\.proto$/, ".pb.h"));
  }
  return { words, paths };
}

function missingIn(said, { words, paths }) {
  const missing = [];
  const look = (pattern, isMissing) => {
    for (const match of said.matchAll(pattern)) {
      if (isMissing(match[0])) missing.push({ name: match[0], at: match.index });
    }
  };
  look(kScoped, (name) => {
    const parts = name.replace("~", "").split("::");
    return !kForeign.has(parts[0]) && parts.some((part) => !words.has(part));
  });
  look(kCall, (name) => !words.has(name));
  look(kConstant, (name) => !words.has(name));
  look(kFileName, (name) => !kNoFile.test(name) && !paths.has(name.replace(/^(\.+\/)+/, "")));
  return missing;
}

export function namedSymbols(files) {
  const known = knownNames(files.filter((file) => file.isText !== false));
  const problems = [];
  for (const file of files) {
    const said = commentsOf(file);
    if (!said) continue;
    for (const { name, at } of missingIn(said, known)) {
      problems.push({ path: file.path, line: lineAt(said, at), what: `${name} is nowhere`,
        instead: "name what is there today" });
    }
  }
  return problems;
}
