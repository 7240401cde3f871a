#!/usr/bin/env node
// Figures of the house: how long files and functions are, how much is said in comments, and how the
// sentences of documents and of headers read. It judges nothing and fails for nothing.
// Usage: node tools/tidy/figures.mjs [--at REV] [--each] [--json] [path prefix...]
//   --at REV  the tree of a git revision in place of the files that are there, to compare with
//   --each    a line for each document, too
//   --json    everything as JSON
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { isFragment, medianOf, paragraphsOfComments, paragraphsOfMarkdown, proseFigures,
  sentencesOf } from "./prose.mjs";
import { findFunctions } from "./rules/functions.mjs";
import { isTestFile, languageOf, stripSource } from "./source.mjs";

const kGitLimit = 1 << 28;
const kCounted = /\.(h|cc|cu|ts|tsx|mjs|wgsl|py|sh|md)$/;
// What is not written by us for people to read as code or as documents.
const kLeftOut = /^models\/|^tests\/(golden|fuzz\/corpus|data)\/|^tools\/tinymodel\/(corpus|card)/;

const isHeader = (file) => file.path.endsWith(".h");
const isSource = (file) => /\.(cc|cu)$/.test(file.path) && !isTestFile(file.path);
const isDocument = (file) => file.path.endsWith(".md");

// [{path, text}] of a revision or, without one, of the files that are there.
function readFiles(root, revision, prefixes) {
  const git = (args, input) =>
    execFileSync("git", args, { cwd: root, maxBuffer: kGitLimit, input });
  const list = revision ? git(["ls-tree", "-r", "-z", "--name-only", revision]) :
    git(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
  const paths = list.toString("utf8").split("\0").filter((path) => kCounted.test(path) &&
    !kLeftOut.test(path) &&
    (prefixes.length === 0 || prefixes.some((prefix) => path.startsWith(prefix))));
  if (!revision) {
    return paths.filter((path) => existsSync(join(root, path)))
      .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));
  }
  const names = paths.map((path) => `${revision}:${path}\n`).join("");
  return blobsOf(git(["cat-file", "--batch"], names), paths);
}

// `git cat-file --batch` answers each name with "hash type bytes", a line end, and these bytes.
function blobsOf(answer, paths) {
  let at = 0;
  return paths.map((path) => {
    const lineEnd = answer.indexOf(10, at);
    const byteCount = Number(answer.toString("utf8", at, lineEnd).split(" ")[2]);
    const text = answer.toString("utf8", lineEnd + 1, lineEnd + 1 + byteCount);
    at = lineEnd + byteCount + 2;
    return { path, text };
  });
}

const lineCountOf = (text) => text === "" ? 0 : text.replace(/\n$/, "").split("\n").length;

// Lines that hold a comment and nothing else, of all lines.
export function commentShare(files) {
  let comments = 0;
  let all = 0;
  for (const { path, text } of files) {
    const code = stripSource(text, languageOf(path), { keepStrings: true }).split("\n");
    text.split("\n").forEach((line, index) => {
      if (line.trim() !== "" && code[index].trim() === "") comments += 1;
    });
    all += lineCountOf(text);
  }
  return all === 0 ? 0 : comments / all;
}

// Texts of comments that stand behind code on its line.
export function trailingComments({ path, text }) {
  const code = stripSource(text, languageOf(path), { keepStrings: true }).split("\n");
  return text.split("\n").flatMap((line, index) => {
    const kept = code[index].trimEnd();
    const comment = /^\s*\/\/[/<]*\s*(.*)/.exec(line.slice(kept.length))?.[1];
    return kept.trim() !== "" && comment ? [comment] : [];
  });
}

export function figuresOf(files) {
  const code = files.filter((file) => !isDocument(file));
  const sizes = code.map((file) => ({ path: file.path, lines: lineCountOf(file.text) }));
  const functions = code.flatMap(({ path, text }) =>
    findFunctions(path, text).map((found) => ({ path, ...found })));
  const trailing = code.filter((file) => languageOf(file.path) === "cxx").flatMap(trailingComments);
  const most = (list, key) =>
    list.reduce((best, item) => best === null || item[key] > best[key] ? item : best, null);
  return {
    files: code.length,
    median_file_lines: medianOf(sizes.map((size) => size.lines)),
    largest_file: most(sizes, "lines"),
    longest_function: most(functions, "lineCount"),
    header_comments: commentShare(code.filter(isHeader)),
    source_comments: commentShare(code.filter(isSource)),
    trailing_comments: trailing.length,
    trailing_fragments: trailing.filter((text) => sentencesOf(text).every(isFragment)).length,
    documents: proseFigures(files.filter(isDocument)
      .flatMap((file) => paragraphsOfMarkdown(file.text))),
    headers: proseFigures(files.filter(isHeader)
      .flatMap((file) => paragraphsOfComments(file.text))),
  };
}

const percent = (share) => `${(100 * share).toFixed(1)}%`;

function proseLine(name, prose) {
  return `${name.padEnd(28)} ${String(prose.words).padStart(6)} words, ` +
    `${prose.words_a_sentence} a sentence; over 25: ${percent(prose.over_25)}, ` +
    `over 30: ${percent(prose.over_30)}; relative clauses ${prose.relative_per_100.toFixed(2)} ` +
    `a 100 words; fragments ${percent(prose.fragments)}`;
}

function print(figures) {
  const largest = figures.largest_file;
  const longest = figures.longest_function;
  console.log(`files of code                ${figures.files}, median ` +
    `${figures.median_file_lines} lines`);
  if (largest) console.log(`largest file                 ${largest.lines} lines: ${largest.path}`);
  if (longest) {
    console.log(`longest function             ${longest.lineCount} lines: ${longest.name}, ` +
      `${longest.path}:${longest.line}`);
  }
  console.log(`comment lines                headers ${percent(figures.header_comments)}, ` +
    `sources ${percent(figures.source_comments)} (tests left out)`);
  console.log(`trailing comments            ${figures.trailing_comments}, of these fragments ` +
    `${figures.trailing_fragments}`);
  console.log(proseLine("documents", figures.documents));
  console.log(proseLine("comments of headers", figures.headers));
}

function main(args) {
  const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
  const atIndex = args.indexOf("--at");
  const revision = atIndex >= 0 ? args.splice(atIndex, 2)[1] : undefined;
  const isEach = args.includes("--each");
  const isJson = args.includes("--json");
  const files = readFiles(root, revision, args.filter((word) => !word.startsWith("--")));
  const figures = figuresOf(files);
  if (isJson) return console.log(JSON.stringify(figures, null, 2));
  print(figures);
  if (!isEach) return;
  for (const file of files.filter(isDocument)) {
    console.log(proseLine(file.path, proseFigures(paragraphsOfMarkdown(file.text))));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.slice(2));
