// Calls that have a better replacement here, looked for in code without comments and strings.
import { kCxxBans, kTypeScriptBans } from "./banned_calls.mjs";
import { isTestFile, languageOf, lineAt, stripSource } from "../source.mjs";

function appliesTo(ban, module, isTest, path) {
  if (ban.exceptFiles?.includes(path)) return false;
  if (isTest && !ban.tests) return false;
  if (ban.only && !ban.only.includes(module)) return false;
  return !ban.except?.includes(module);
}

export function bannedCalls(file) {
  const language = languageOf(file.path, file.text);
  const isTest = isTestFile(file.path);
  const cxx = /^(?:src|tests|bench)\/(?:([^/]+)\/)?/.exec(file.path);
  let bans = [];
  if (cxx && language === "cxx") {
    bans = kCxxBans.filter((ban) => appliesTo(ban, cxx[1] ?? "", isTest, file.path));
  } else if (/^web\/(packages|app)\//.test(file.path) && /\.tsx?$/.test(file.path)) {
    bans = kTypeScriptBans.filter((ban) => appliesTo(ban, "", isTest, file.path));
  } else {
    return [];
  }
  return [...matchBans(bans, file, language), ...suppressions(file, language)];
}

function matchBans(bans, file, language) {
  const code = stripSource(file.text, language);
  const lines = code.split("\n");
  const problems = [];
  for (const ban of bans) {
    for (const match of code.matchAll(new RegExp(ban.pattern, "g"))) {
      const line = lineAt(code, match.index);
      const context = `${lines[line - 2] ?? ""} ${lines[line - 1]}`;
      if (ban.unlessLine?.test(context)) continue;
      problems.push({ line, what: `${ban.what}: ${match[0].trim()}`, instead: ban.instead });
    }
  }
  return problems;
}

// Switching a check off needs a reason on the same line.
function suppressions(file, language) {
  if (language !== "ts") return [];
  const problems = [];
  file.text.split("\n").forEach((text, index) => {
    const line = index + 1;
    if (/@ts-(ignore|nocheck)\b/.test(text)) {
      problems.push({ line, what: "a type error switched off",
        instead: "fix the type, or @ts-expect-error with the reason" });
    }
    if (/@ts-expect-error\s*$|eslint-disable(?!.*--\s*\S)/.test(text)) {
      problems.push({ line, what: "a check switched off without a reason",
        instead: "write the reason after it (ESLint: after --)" });
    }
  });
  return problems;
}
