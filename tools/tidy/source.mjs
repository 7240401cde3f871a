// Reads a source file just far enough for the rules: which language it is, and its text with
// comments and the contents of strings blanked, so that a pattern never matches inside them.
// Blanking keeps every line break and column.

const kLanguages = {
  ".h": "cxx", ".cc": "cxx", ".cu": "cxx", ".cuh": "cxx",
  ".ts": "ts", ".tsx": "ts", ".js": "ts", ".mjs": "ts", ".cjs": "ts",
  ".wgsl": "wgsl", ".py": "py", ".sh": "sh", ".proto": "proto", ".css": "css",
  ".cmake": "cmake",
};

export function languageOf(path, text = "") {
  const name = path.slice(path.lastIndexOf("/") + 1);
  if (name === "CMakeLists.txt") return "cmake";
  const dot = name.lastIndexOf(".");
  const language = dot > 0 ? kLanguages[name.slice(dot)] : undefined;
  if (language) return language;
  return /^#!.*\b(ba)?sh\b/.test(text) ? "sh" : "other";
}

const blank = (text) => text.replace(/[^\n]/g, " ");

const stripped = new Map(); // several rules ask for the same text

// Text with comments blanked; strings too unless `keepStrings`.
export function stripSource(text, language, { keepStrings = false } = {}) {
  const way = `${language} ${keepStrings}`;
  if (!stripped.has(way)) stripped.set(way, new Map());
  const known = stripped.get(way);
  if (!known.has(text)) known.set(text, strip(text, language, keepStrings));
  return known.get(text);
}

function strip(text, language, keepStrings) {
  if (language === "py" || language === "sh" || language === "cmake") {
    return stripHash(text, language, keepStrings);
  }
  if (!["cxx", "ts", "wgsl", "proto", "css"].includes(language)) return text;
  const scanner = { text, language, keepStrings, out: "", at: 0 };
  const plain = /[^/"'`R]+/y;
  while (scanner.at < text.length) {
    plain.lastIndex = scanner.at;
    if (plain.test(text)) emit(scanner, plain.lastIndex, false);
    if (scanner.at < text.length) stripOne(scanner);
  }
  return scanner.out;
}

function emit(scanner, end, hide) {
  const part = scanner.text.slice(scanner.at, end);
  scanner.out += hide ? blank(part) : part;
  scanner.at = end;
}

function stripOne(scanner) {
  const { text, language, at } = scanner;
  const two = text.slice(at, at + 2);
  if (two === "//" && language !== "css") {
    const end = text.indexOf("\n", at);
    return emit(scanner, end < 0 ? text.length : end, true);
  }
  if (two === "/*") {
    const end = text.indexOf("*/", at + 2);
    return emit(scanner, end < 0 ? text.length : end + 2, true);
  }
  const raw = language === "cxx" && /^R"([^(\s]{0,16})\(/.exec(text.slice(at, at + 20));
  if (raw) {
    const end = text.indexOf(`)${raw[1]}"`, at);
    const stop = end < 0 ? text.length : end + raw[1].length + 2;
    return emit(scanner, stop, !scanner.keepStrings);
  }
  const char = text[at];
  if (char === '"' || char === "'") return stripQuoted(scanner, char);
  if (char === "`" && language === "ts") {
    return emit(scanner, endOfTemplate(text, at), !scanner.keepStrings);
  }
  if (char === "/" && language === "ts" && startsRegex(text, at)) {
    return emit(scanner, endOfRegex(text, at), !scanner.keepStrings);
  }
  emit(scanner, at + 1, false);
}

function stripQuoted(scanner, quote) {
  const { text, at, language } = scanner;
  // A digit separator (1'000'000) is no string.
  if (quote === "'" && language === "cxx" && /[0-9a-fA-F]/.test(text[at - 1] ?? "")) {
    return emit(scanner, at + 1, false);
  }
  let end = at + 1;
  while (end < text.length && text[end] !== quote && text[end] !== "\n") {
    end += text[end] === "\\" ? 2 : 1;
  }
  // An apostrophe in JSX text has no partner on its line: it is no string.
  if (text[end] !== quote) return emit(scanner, at + 1, false);
  emit(scanner, at + 1, false);
  emit(scanner, end, !scanner.keepStrings);
  emit(scanner, end + 1, false);
}

function endOfTemplate(text, start) {
  let at = start + 1;
  while (at < text.length && text[at] !== "`") {
    if (text[at] === "\\") at += 2;
    else if (text.startsWith("${", at)) at = endOfSubstitution(text, at + 2);
    else at += 1;
  }
  return Math.min(at + 1, text.length);
}

function endOfSubstitution(text, start) {
  let depth = 1;
  let at = start;
  while (at < text.length && depth > 0) {
    const char = text[at];
    if (char === "`") {
      at = endOfTemplate(text, at);
      continue;
    }
    const quoted = /^(["'])(?:\\.|(?!\1)[^\\\n])*\1/.exec(text.slice(at, at + 200));
    if (quoted) {
      at += quoted[0].length;
      continue;
    }
    if (char === "{") depth += 1;
    if (char === "}") depth -= 1;
    at += 1;
  }
  return at;
}

function startsRegex(text, at) {
  const before = text.slice(Math.max(0, at - 80), at).trimEnd();
  return /(^|[(,=:[!&|?{};+]|=>|\breturn|\btypeof|\bcase)$/.test(before);
}

function endOfRegex(text, start) {
  let inClass = false;
  for (let at = start + 1; at < text.length && text[at] !== "\n"; at += 1) {
    const char = text[at];
    if (char === "\\") at += 1;
    else if (char === "[") inClass = true;
    else if (char === "]") inClass = false;
    else if (char === "/" && !inClass) return at + 1;
  }
  return start + 1;
}

// Python, shell and CMake: '#' comments; quoted strings on one line; Python's triple quotes.
function stripHash(text, language, keepStrings) {
  let out = "";
  let at = 0;
  const take = (end, hide) => {
    const part = text.slice(at, end);
    out += hide ? blank(part) : part;
    at = end;
  };
  while (at < text.length) {
    const char = text[at];
    const triple = language === "py" && /^("""|''')/.exec(text.slice(at, at + 3));
    if (triple) {
      const end = text.indexOf(triple[1], at + 3);
      take(end < 0 ? text.length : end + 3, !keepStrings);
    } else if (char === "#" && (at === 0 || /\s/.test(text[at - 1]))) {
      const end = text.indexOf("\n", at);
      take(end < 0 ? text.length : end, true);
    } else if (language === "py" && (char === '"' || char === "'")) {
      let end = at + 1;
      while (end < text.length && text[end] !== char && text[end] !== "\n") {
        end += text[end] === "\\" ? 2 : 1;
      }
      take(Math.min(end + 1, text.length), !keepStrings);
    } else {
      take(at + 1, false);
    }
  }
  return out;
}

export function isTestFile(path) {
  return /_test\.cc$|(^|\/)test_[^/]*\.h$|\.test\.(ts|tsx|mjs)$|(^|\/)test_[^/]*\.py$/.test(path) ||
    /^(tests|bench)\//.test(path) || /\/test(s)?\//.test(path);
}

// 1-based line of a character offset.
export function lineAt(text, offset) {
  let line = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < offset; at = text.indexOf("\n", at + 1)) {
    line += 1;
  }
  return line;
}
