// What a C++ file declares: names of types, functions, methods, constants and fields, with every
// token that only declares them. It reads code without comments and strings, and knows scopes well
// enough for this repository's style; it is no parser of C++.

const kToken = /[A-Za-z_]\w*|::|->|\d[\w.']*|[^\s\w]/g;
const kIsName = /^[A-Za-z_]\w*$/;
const kNoName = new Set(["public", "private", "protected", "operator", "override", "const",
  "noexcept", "final", "default", "delete", "decltype", "alignas", "requires", "if", "while", "for",
  "switch", "return", "static_assert", "__attribute__", "asm"]);

// [{name, kind, line, isOverride, extra}]; `extra`: other tokens that belong to the declaration and
// use nothing, such as a constructor's name or the class in front of a method's definition.
export function declarationsOf(code) {
  const plain = code.replace(/^[ \t]*#(?:[^\n\\]|\\\n|\\.)*/gm,
    (directive) => directive.replace(/[^\n]/g, " "));
  const reader = { tokens: [], at: 0, found: [] };
  for (const { index, 0: text } of plain.matchAll(kToken)) reader.tokens.push({ text, at: index });
  readScope(reader, "namespace", "");
  return withLines(reader.found, plain);
}

function withLines(found, text) {
  let line = 1;
  let from = 0;
  for (const declaration of found.sort((a, b) => a.at - b.at)) {
    for (; from < declaration.at; from += 1) if (text[from] === "\n") line += 1;
    declaration.line = line;
  }
  return found;
}

// Up to the brace that closes it.
function readScope(reader, kind, owner) {
  let statement = [];
  while (reader.at < reader.tokens.length) {
    const token = reader.tokens[reader.at];
    reader.at += 1;
    if (token.text === "}") return;
    if (token.text === ";") {
      noteStatement(reader, statement, kind, owner);
      statement = [];
    } else if (token.text === ":" && statement.length === 1 &&
        /^(public|private|protected)$/.test(statement[0].text)) {
      statement = [];
    } else if (token.text === "{") {
      statement = openBrace(reader, statement, kind, owner);
    } else {
      statement.push(token);
    }
  }
}

// What is left of the statement behind the brace's end.
function openBrace(reader, whole, kind, owner) {
  const statement = withoutTemplate(whole);
  const words = statement.map((token) => token.text);
  if (words.includes("namespace") || words[0] === "extern") {
    readScope(reader, "namespace", "");
    return [];
  }
  if (words[0] === "enum") {
    // A plain enum may be there for its enumerators.
    if (/^(class|struct)$/.test(words[1])) noteType(reader, statement, "type");
    skipBraces(reader);
    return [];
  }
  if (/^(class|struct|union)$/.test(words[0]) && !words.includes("(")) {
    const name = noteType(reader, statement, "type");
    readScope(reader, "class", name);
    return [{ text: "}", at: 0 }]; // a variable may follow: it is no declaration of ours
  }
  const paren = callParenthesis(statement);
  const isBody = paren >= 0 && !isInitializer(words, paren);
  skipBraces(reader);
  if (!isBody) return whole;
  noteStatement(reader, whole, kind, owner);
  return [];
}

// Whether the brace behind these words gives a member or a variable its value.
function isInitializer(words, paren) {
  if (words.slice(0, paren).includes("=")) return true;
  let depth = 0;
  for (let i = paren; i < words.length; i += 1) {
    if (words[i] === "(") depth += 1;
    if (words[i] === ")") depth -= 1;
    // Behind the parameters: a list of members, each with its value in brackets.
    if (depth === 0 && words[i] === ":") return kIsName.test(words.at(-1)) || words.at(-1) === ">";
  }
  return false;
}

function skipBraces(reader) {
  for (let depth = 1; depth > 0 && reader.at < reader.tokens.length; reader.at += 1) {
    const { text } = reader.tokens[reader.at];
    if (text === "{") depth += 1;
    if (text === "}") depth -= 1;
  }
}

function withoutTemplate(statement) {
  let rest = statement;
  for (;;) {
    if (rest[0]?.text === "template") {
      let depth = 0;
      let end = 1;
      for (; end < rest.length; end += 1) {
        if (rest[end].text === "<") depth += 1;
        if (rest[end].text === ">" && (depth -= 1) === 0) break;
      }
      rest = rest.slice(end + 1);
    } else if (rest[0]?.text === "[" && rest[1]?.text === "[") {
      rest = rest.slice(rest.findIndex((token) => token.text === "]") + 2);
    } else {
      return rest;
    }
  }
}

// Where a function's parameters begin; -1: it is none.
function callParenthesis(statement) {
  let depth = 0;
  for (let i = 0; i < statement.length; i += 1) {
    const { text } = statement[i];
    if (text === "operator") return -1;
    if (text === "=" && depth === 0) return -1;
    if (text === "<") depth += 1;
    if (text === ">") depth -= 1;
    if (text !== "(" || depth !== 0 || i === 0) continue;
    const before = statement[i - 1].text;
    if (kIsName.test(before) && !kNoName.has(before)) return i;
  }
  return -1;
}

function noteType(reader, statement, kind) {
  let i = 1;
  if (/^(class|struct)$/.test(statement[i]?.text)) i += 1;
  while (statement[i]?.text === "[" || statement[i]?.text === "alignas") {
    const close = statement[i].text === "[" ? "]" : ")";
    while (statement[i] && statement[i].text !== close) i += 1;
    i += close === "]" ? 2 : 1;
  }
  while (statement[i + 1]?.text === "::") i += 2;
  const token = statement[i];
  if (!token || !kIsName.test(token.text)) return "";
  reader.found.push({ name: token.text, kind, at: token.at, isOverride: false, extra: [] });
  return token.text;
}

function noteStatement(reader, whole, kind, owner) {
  const statement = withoutTemplate(whole);
  const first = statement[0]?.text;
  if (!first || first === "}" || /^(friend|typedef|extern|static_assert)$/.test(first)) return;
  if (first === "using") {
    if (statement[2]?.text === "=") note(reader, statement[1], "type", statement);
    return;
  }
  if (/^(class|struct|union|enum)$/.test(first) && callParenthesis(statement) < 0 &&
      statement.length <= 5) {
    noteType(reader, statement, "type");
    return;
  }
  if (statement.some((token) => token.text === "operator")) return;
  const paren = callParenthesis(statement);
  if (paren > 0) return noteFunction(reader, statement, paren, owner);
  noteVariable(reader, statement, kind);
}

function noteFunction(reader, statement, paren, owner) {
  const name = statement[paren - 1];
  // A macro's call, as HWY_EXPORT(Name) is: what it names is used.
  if (/^[A-Z][A-Z0-9_]+$/.test(name.text)) return;
  const extra = [];
  for (let i = paren - 2; statement[i]?.text === "::"; i -= 2) extra.push(statement[i - 1].text);
  if (name.text === owner || extra[0] === name.text) {
    // A constructor or destructor declares nothing, and uses nothing.
    const found = { name: name.text, kind: "constructor", at: name.at, isOverride: false, extra };
    reader.found.push(found);
    return;
  }
  if (paren === 1) return;
  const isOverride = statement.some((token) => token.text === "override");
  reader.found.push({ name: name.text, kind: "function", at: name.at, isOverride, extra });
}

function noteVariable(reader, statement, kind) {
  let end = statement.findIndex((token) => token.text === "=");
  if (end < 0) end = statement.length;
  while (statement[end - 1]?.text === "]") {
    while (end > 0 && statement[end - 1].text !== "[") end -= 1;
    end -= 1;
  }
  const name = statement[end - 1];
  if (!name || end < 2 || statement[end - 2].text === "::") return;
  note(reader, name, kind === "class" && !/^k[A-Z]/.test(name.text) ? "field" : "constant");
}

function note(reader, token, kind) {
  if (!kIsName.test(token.text) || kNoName.has(token.text)) return;
  reader.found.push({ name: token.text, kind, at: token.at, isOverride: false, extra: [] });
}
