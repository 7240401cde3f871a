// Every rule with its name. A tree rule sees all files at once and names the path of each problem;
// a file rule sees one file. A problem is {line, what, instead}.
import { bannedCalls } from "./banned.mjs";
import { fileHead, repositoryFiles } from "./files.mjs";
import { functionLengths } from "./functions.mjs";
import { layout } from "./layout.mjs";
import { cmakeAgrees, cxxModules, cycles, webModules } from "./modules.mjs";
import { namedSymbols } from "./symbols.mjs";
import { unusedNames } from "./unused.mjs";
import { words } from "./words.mjs";

export const treeRules = [
  { name: "repository-files", run: repositoryFiles },
  { name: "cxx-modules", run: cxxModules },
  { name: "cmake-modules", run: cmakeAgrees },
  { name: "web-modules", run: webModules },
  { name: "cycles", run: cycles },
  { name: "unused-names", run: unusedNames },
  { name: "named-symbols", run: namedSymbols },
];

export const perFileRules = [
  { name: "layout", run: layout },
  { name: "functions", run: functionLengths },
  { name: "banned", run: bannedCalls },
  { name: "words", run: words },
  { name: "file-head", run: fileHead },
];
