// Who includes whom: the module table for C++ and TypeScript; no cycles between files, rooms (a
// header and its source together) or folders.
import { posix } from "node:path";
import {
  kConfinedHeaders, kCxxFolders, kCxxModules, kCxxTestExtras, kNodePackages, kWebPackages,
} from "../modules.mjs";
import { isTestFile, lineAt, stripSource } from "../source.mjs";
import { findCycles } from "../graph.mjs";

// Highway wants its headers in quotes: its foreach_target.h includes files again by that name.
const kQuotedLibraries = /^hwy\//;
const kIsCxx = /^src\/([^/]+)\/.*\.(h|cc|cu|cuh)$/;

// [{line, path, system}] of a C++ file.
export function cxxIncludes(text) {
  const code = stripSource(text, "cxx", { keepStrings: true });
  return [...code.matchAll(/^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]/gm)].map((match) => ({
    line: lineAt(code, match.index + match[0].search(/#/)),
    path: match[2],
    system: match[1] === "<",
  }));
}

export function cxxModules(files) {
  const problems = [];
  for (const file of files) {
    const module = kIsCxx.exec(file.path)?.[1];
    if (!module) continue;
    if (!(module in kCxxModules)) {
      problems.push({ path: file.path, line: 1, what: `src/${module} is not in the module table`,
        instead: "add it to ARCHITECTURE.md and tools/tidy/modules.mjs with what it may include" });
      continue;
    }
    const folder = folderIn(module, file.path.slice("src/".length));
    if (module in kCxxFolders && !(folder in kCxxFolders[module])) {
      problems.push({ path: file.path, line: 1,
        what: `src/${module}/${folder} is not in the table of the folders of ${module}`,
        instead: "add it to tools/tidy/modules.mjs with what it may include" });
      continue;
    }
    for (const include of cxxIncludes(file.text)) {
      const isLibrary = include.system || kQuotedLibraries.test(include.path);
      const check = isLibrary ? systemInclude : ownInclude;
      const problem = check(module, file, include);
      if (problem) problems.push({ path: file.path, line: include.line, ...problem });
    }
  }
  return problems;
}

function ownInclude(module, file, include) {
  const target = include.path.split("/")[0];
  if (!include.path.includes("/") || !(target in kCxxModules)) {
    return { what: `#include "${include.path}" does not name a module`,
      instead: 'write the path from src/, as in "base/result.h", or use <> for libraries' };
  }
  if (target === module) return folderInclude(module, file, include);
  const allowed = [...kCxxModules[module]];
  if (isTestFile(file.path)) allowed.push(...(kCxxTestExtras[module] ?? []), "base");
  if (!allowed.includes("*") && !allowed.includes(target)) {
    return { what: `src/${module} includes ${include.path}, but may include only ` +
        `${allowed.join(", ") || "nothing of ours"}`,
      instead: "pass the value in, or move the code to the module that may" };
  }
  return undefined;
}

// "flow" of swarm/flow/session.h, "" of swarm/events.h.
function folderIn(module, path) {
  return posix.dirname(path).slice(module.length + 1);
}

// Tests may know everybody.
function folderInclude(module, file, include) {
  const table = kCxxFolders[module];
  if (!table || isTestFile(file.path)) return undefined;
  const from = folderIn(module, file.path.slice("src/".length));
  const to = folderIn(module, include.path);
  if (from === to || table[from].includes(to)) return undefined;
  const named = table[from].map((folder) => posix.join(module, folder));
  return { what: `src/${posix.join(module, from)} includes ${include.path}, but may include of ` +
      `${module} only ${named.join(", ") || "its own folder"}`,
    instead: "pass the value in, or move what both need down" };
}

function systemInclude(module, file, include) {
  if (isTestFile(file.path)) return undefined;
  for (const rule of kConfinedHeaders) {
    if (!rule.pattern.test(include.path)) continue;
    const allowed = rule.modules ? rule.modules.includes(module) : rule.except.includes(module);
    if (!allowed) return { what: `<${include.path}> in src/${module}`, instead: rule.instead };
  }
  return undefined;
}

// CMakeLists.txt links modules by the same table.
export function cmakeAgrees(files) {
  const cmake = files.find((file) => file.path === "CMakeLists.txt");
  if (!cmake) return [];
  const problems = [];
  for (const match of cmake.text.matchAll(/^weft_module\((\w+)\s*([^)]*)\)/gm)) {
    const [, module, rest] = match;
    const line = lineAt(cmake.text, match.index);
    const list = /\bDEPS\s+([a-z\s]+?)(?=\s+[A-Z]+\b|\s*$)/.exec(rest)?.[1].split(/\s+/) ?? [];
    const allowed = kCxxModules[module];
    const extra = allowed?.includes("*") ? [] : list.filter((dep) => !allowed?.includes(dep));
    for (const dep of extra) {
      problems.push({ path: cmake.path, line, instead: "remove the dependency",
        what: `module ${module} links ${dep} against the module table` });
    }
  }
  return problems;
}

const kImport = new RegExp([
  /\b(?:import|export)\b[^;'"()]*?\bfrom\s*["']([^"']+)["']/,
  /\bimport\s*\(\s*["']([^"']+)["']\s*\)/,
  /\bimport\s*["']([^"']+)["']/,
  /\bnew\s+URL\(\s*["'](\.[^"']+\.tsx?)["']/,
].map((pattern) => pattern.source).join("|"), "g");

// [{line, path}] of a TypeScript file: static, type-only, dynamic, re-exports, import() types.
export function typeScriptImports(text) {
  const code = stripSource(text, "ts", { keepStrings: true });
  return [...code.matchAll(kImport)].map((match) => ({
    line: lineAt(code, match.index),
    path: match.slice(1).find((group) => group !== undefined),
  }));
}

function webFolderOf(path) {
  const match = /^web\/(?:packages\/([^/]+)|(app))\//.exec(path);
  return match ? { name: match[1] ?? match[2], root: match[0] } : undefined;
}

export function webModules(files) {
  const problems = [];
  const manifests = new Map(files
    .filter((file) => /^web\/(packages\/[^/]+|app)\/package\.json$/.test(file.path))
    .map((file) => [webFolderOf(file.path).name, JSON.parse(file.text)]));
  for (const file of files) {
    const folder = webFolderOf(file.path);
    if (!folder || !/\/src\/.*\.tsx?$/.test(file.path)) continue;
    if (!(folder.name in kWebPackages)) {
      problems.push({ path: file.path, line: 1, what: `${folder.root} is not in the module table`,
        instead: "add it to tools/tidy/modules.mjs with what it may import" });
      continue;
    }
    for (const item of typeScriptImports(file.text)) {
      const problem = webImport(folder, manifests.get(folder.name), file, item);
      if (problem) problems.push({ path: file.path, line: item.line, ...problem });
    }
  }
  return problems;
}

function webImport(folder, manifest, file, item) {
  if (item.path.startsWith(".")) {
    const target = posix.join(posix.dirname(file.path), item.path);
    if (target.startsWith(folder.root) || isTestFile(file.path)) return undefined;
    return { what: `import of ${item.path} leaves the package`, instead: "import @weft/<package>" };
  }
  const own = /^@weft\/([^/]+)/.exec(item.path)?.[1];
  if (own) {
    const allowed = kWebPackages[folder.name];
    if (own === folder.name || allowed.includes("*") || allowed.includes(own)) return undefined;
    return { what: `${folder.name} imports @weft/${own}, but may import only ` +
        `${allowed.join(", ") || "nothing of ours"}`,
      instead: "pass the value in, or declare the interface here" };
  }
  if (isTestFile(file.path)) return undefined;
  if (item.path.startsWith("node:") && kNodePackages.includes(folder.name)) return undefined;
  const name = item.path.split("/").slice(0, item.path.startsWith("@") ? 2 : 1).join("/");
  if (manifest?.dependencies?.[name]) return undefined;
  return { what: `import of ${name}, which is not a dependency of this package`,
    instead: `add it to ${folder.root}package.json (reason in docs/decisions), or do without` };
}

export function cycles(files) {
  const paths = new Set(files.map((file) => file.path));
  const edges = new Map();
  for (const file of files) {
    if (kIsCxx.test(file.path)) {
      edges.set(file.path, cxxIncludes(file.text).filter((item) => !item.system)
        .map((item) => `src/${item.path}`).filter((path) => paths.has(path)));
    } else if (webFolderOf(file.path) && /\.tsx?$/.test(file.path)) {
      edges.set(file.path, typeScriptImports(file.text)
        .map((item) => resolveWeb(file.path, item.path, paths)).filter(Boolean));
    }
  }
  const fileCycles = findCycles(edges).map((cycle) => ({
    path: cycle[0], line: 1, what: `include cycle: ${[...cycle, cycle[0]].join(" -> ")}`,
    instead: "move what both need into a third file",
  }));
  const roomCycles = findCycles(mergedEdges(edges, roomOf)).map((cycle) => ({
    path: pathOf(cycle[0], paths), line: 1,
    what: `header and source of these include each other: ${[...cycle, cycle[0]].join(" -> ")}`,
    instead: "put the types that both need into a header of their own",
  }));
  const folderCycles = findCycles(mergedEdges(edges, posix.dirname)).map((cycle) => ({
    path: cycle[0], line: 1,
    what: `folders include each other: ${[...cycle, cycle[0]].join(" -> ")}`,
    instead: "choose which is the lower one and move what it needs down",
  }));
  // A circle of files is one of rooms, too: it is named once.
  return [...fileCycles, ...(fileCycles.length > 0 ? [] : roomCycles), ...folderCycles];
}

function resolveWeb(from, path, paths) {
  const packaged = /^@weft\/([^/]+)(?:\/(.*))?$/.exec(path);
  let base;
  if (packaged) base = `web/packages/${packaged[1]}/src/${packaged[2] ?? "index.ts"}`;
  else if (path.startsWith(".")) base = posix.join(posix.dirname(from), path);
  else return undefined;
  return [base, `${base}.ts`, `${base}.tsx`, base.replace(/\.js$/, ".ts"), `${base}/index.ts`]
    .find((candidate) => paths.has(candidate));
}

// a.h and a.cc are one room: whoever includes the one needs the other when it links.
const roomOf = (path) => path.replace(/\.(h|cc)$/, "");
const pathOf = (room, paths) => [`${room}.h`, `${room}.cc`, room].find((path) => paths.has(path));

// The same edges between what `merge` makes of each path, those inside one left out. Tests do not
// count: they may know everybody.
function mergedEdges(edges, merge) {
  const merged = new Map();
  for (const [from, targets] of edges) {
    if (isTestFile(from)) continue;
    const source = merge(from);
    for (const to of targets) {
      const target = merge(to);
      if (source === target) continue;
      if (!merged.has(source)) merged.set(source, []);
      merged.get(source).push(target);
    }
  }
  return merged;
}
