// Width of lines and length of files.
import { languageOf } from "../source.mjs";

export const kMaxColumns = 100;
export const kMaxFileLines = 800;

// Data, and the sentences that the tiny model learns from.
const kUnlimited = new RegExp([
  "\\.(json|jsonl|svg|lock|txt|csv|tsv|hex|jinja)$", "(^|/)(LICENSE|\\.gitignore)$", "^models/",
  "^tools/tinymodel/corpus/",
  "^tests/fuzz/corpus/",
  "^tests/golden/",
].join("|"));

export function layout(file) {
  if (kUnlimited.test(file.path)) return [];
  const problems = [];
  const lines = file.text.split("\n");
  const isMarkdown = file.path.endsWith(".md");
  let inFence = false;
  lines.forEach((line, index) => {
    if (isMarkdown && /^\s*```/.test(line)) inFence = !inFence;
    const width = [...line].length;
    if (width <= kMaxColumns) return;
    // A table row, a link and a command cannot be broken.
    if (isMarkdown && (inFence || /^\s*\||https?:\/\/|\]\(/.test(line))) return;
    if (!isMarkdown && /^\s*(\/\/|#|\*)\s*\S*https?:\/\/\S+$/.test(line)) return;
    problems.push({
      line: index + 1,
      what: `line of ${width} columns, the limit is ${kMaxColumns}`,
      instead: isMarkdown || languageOf(file.path) === "cxx" ? "run ./dev fmt" :
        "break the line",
    });
  });
  const isData = languageOf(file.path, file.text) === "other";
  const lineCount = lines.at(-1) === "" ? lines.length - 1 : lines.length;
  if (!isData && lineCount > kMaxFileLines) {
    problems.push({
      line: kMaxFileLines,
      what: `file of ${lineCount} lines, the limit is ${kMaxFileLines}`,
      instead: "split it by what its parts do; aim at 80 to 250 lines",
    });
  }
  return problems;
}
