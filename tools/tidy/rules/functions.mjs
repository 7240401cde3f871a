// Length of functions, found by counting braces in text whose comments and strings are blanked
// (Python: by indentation). Only the outermost function counts: a lambda belongs to its function.
import { languageOf, stripSource } from "../source.mjs";

export const kMaxFunctionLines = 70;
export const kMaxKernelLines = 120;

function limitFor(path) {
  const isKernel = /^src\/kernels\//.test(path) || path.endsWith(".wgsl") ||
    path.endsWith(".cu") || /\/kernels\//.test(path);
  return isKernel ? kMaxKernelLines : kMaxFunctionLines;
}

export function functionLengths(file) {
  const limit = limitFor(file.path);
  return findFunctions(file.path, file.text)
    .filter((found) => found.lineCount > limit)
    .map((found) => ({
      line: found.line,
      what: `function ${found.name} of ${found.lineCount} lines, the limit is ${limit}`,
      instead: "give its steps names: one function each",
    }));
}

// [{name, line, lineCount}] of every outermost function.
export function findFunctions(path, text) {
  const language = languageOf(path, text);
  if (language === "py") return findPython(text);
  if (language === "sh") return findShell(text);
  if (!["cxx", "ts", "wgsl"].includes(language)) return [];
  let code = stripSource(text, language);
  if (language === "cxx") code = blankDirectives(code);
  return findBraced(code, language);
}

function blankDirectives(code) {
  return code.replace(/^[ \t]*#(?:[^\n]*\\\n)*[^\n]*/gm, (part) => part.replace(/[^\n]/g, " "));
}

// `header` is what stands before a brace, back to the last statement or scope boundary.
function kindOfBrace(header, language) {
  const text = header.trim();
  if (language === "cxx") return kindInCxx(text.replace(/\btemplate\s*<[^{}]*?>\s*(?=\w)/g, ""));
  if (language === "wgsl") return /\bfn\s+\w+/.test(text) ? "function" : "scope";
  return kindInTypeScript(text);
}

function kindInCxx(text) {
  const typeOrNamespace =
    /^((inline|static|typedef|constexpr)\s+)*(namespace|class|struct|union|enum|extern)\b/;
  if (typeOrNamespace.test(text) && !/\)\s*(const\s*)?$/.test(text)) return "scope";
  if (!text.includes("(")) return "initializer";
  if (/\)\s*((const|noexcept|override|final|mutable|try|&&?)\s*)*$/.test(text)) return "function";
  if (/\)\s*(const\s*)?(noexcept\s*)?->[^;{}]*$/.test(text)) return "function";
  if (/\)\s*(const\s*)?requires\b/s.test(text)) return "function";
  // After a constructor's `a_{1}` initializer.
  return /\}$/.test(text) && /\)\s*(noexcept\s*)?:/.test(text) ? "function" : "initializer";
}

function kindInTypeScript(text) {
  if (/\bdescribe(\.\w+)?\s*\([^)]*$|\bdescribe(\.\w+)?\(.*=>$/s.test(text)) return "scope";
  if (/\b(class|interface|namespace|enum)\b[^()]*$/.test(text)) return "scope";
  if (/=>$/.test(text)) return "function";
  if (/\b(if|for|while|switch|catch|with)\s*(await\s*)?\(.*\)$/s.test(text)) return "block";
  if (/\)\s*(:\s*[^;={}]+)?$/s.test(text)) return "function";
  return "scope";
}

function nameFrom(header) {
  const text = header.trim();
  const test = /\b(TEST\w*)\s*\(\s*(\w+)\s*,\s*(\w+)/.exec(text);
  if (test) return `${test[2]}.${test[3]}`;
  const named = /(?:function\*?|fn|const|let)\s+(\w+)/.exec(text) ?? /([\w:~]+)\s*\(/.exec(text);
  return named ? named[1] : "(unnamed)";
}

function findBraced(code, language) {
  const found = [];
  const stack = [];
  let header = "";
  let headerLine = 1;
  let line = 1;
  let functionDepth = 0;
  for (const char of code) {
    if (char === "{") {
      const kind = functionDepth > 0 ? "block" : kindOfBrace(header, language);
      if (kind === "function") functionDepth += 1;
      stack.push({ kind, header, headerLine, line });
      if (kind !== "initializer") header = "";
      else header += "{";
    } else if (char === "}") {
      const opened = stack.pop();
      if (!opened) return found;
      if (opened.kind === "function") {
        functionDepth -= 1;
        found.push({
          name: nameFrom(opened.header),
          line: opened.headerLine,
          lineCount: line - opened.headerLine + 1,
        });
      }
      header = opened.kind === "initializer" ? `${opened.header}{}` : "";
      if (header) headerLine = opened.headerLine;
    } else if (char === ";" && !/\bfor\s*\([^)]*$/.test(header)) {
      header = "";
    } else {
      if (header === "" && /\S/.test(char)) headerLine = line;
      if (header !== "" || /\S/.test(char)) header += char;
    }
    if (char === "\n") line += 1;
  }
  return found;
}

function findPython(text) {
  const lines = stripSource(text, "py").split("\n");
  const found = [];
  for (let at = 0; at < lines.length; at += 1) {
    const start = /^(\s*)(?:async\s+)?def\s+(\w+)/.exec(lines[at]);
    if (!start) continue;
    let headerEnd = at;
    while (headerEnd < lines.length - 1 && !/:\s*$/.test(lines[headerEnd])) headerEnd += 1;
    let last = headerEnd;
    for (let next = headerEnd + 1; next < lines.length; next += 1) {
      if (lines[next].trim() === "") continue;
      if (/^\s*/.exec(lines[next])[0].length <= start[1].length) break;
      last = next;
    }
    found.push({ name: start[2], line: at + 1, lineCount: last - at + 1 });
    at = last;
  }
  return found;
}

function findShell(text) {
  const lines = text.split("\n");
  const found = [];
  for (let at = 0; at < lines.length; at += 1) {
    const start = /^(?:function\s+)?([\w-]+)\s*\(\)\s*\{\s*$/.exec(lines[at]);
    if (!start) continue;
    const end = lines.indexOf("}", at);
    if (end > 0) found.push({ name: start[1], line: at + 1, lineCount: end - at + 1 });
  }
  return found;
}
