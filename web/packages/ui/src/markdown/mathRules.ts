// Formulas in Markdown, as models write them: \(a\) and $a$ in a line, \[a\] and $$a$$ on their
// own. "It costs $5, or $6 there" has none: as in Pandoc, a $ begins no formula before a space, and
// ends none behind a space or before a digit.
import type { MarkdownIt, StateBlock, StateInline } from "markdown-it";

interface Delimiter {
  open: string;
  close: string;
  isDisplay: boolean;
}

// "$$" comes before "$", which it begins with.
const kDelimiters: readonly Delimiter[] = [
  { open: "\\(", close: "\\)", isDisplay: false },
  { open: "\\[", close: "\\]", isDisplay: true },
  { open: "$$", close: "$$", isDisplay: true },
  { open: "$", close: "$", isDisplay: false },
];
// How far an end is looked for, so that a text of many "$" is read in time that grows with it.
const kMostCharacters = 2000;

export function addMathRules(reader: MarkdownIt): void {
  reader.inline.ruler.before("escape", "math", readInline);
  reader.block.ruler.before("fence", "math_block", readBlock,
    { alt: ["paragraph", "blockquote", "list"] });
}

function delimiterAt(text: string, at: number): Delimiter | undefined {
  const first = text.charAt(at);
  if (first !== "$" && first !== "\\") return undefined;
  return kDelimiters.find(({ open }) => text.startsWith(open, at));
}

function readInline(state: StateInline, isSilent: boolean): boolean {
  const { src, pos } = state;
  const delimiter = delimiterAt(src, pos);
  if (!delimiter) return false;
  const from = pos + delimiter.open.length;
  const to = endOfFormula(src.slice(from, Math.min(from + kMostCharacters, state.posMax)),
    delimiter);
  if (to < 0) return false;
  if (!isSilent) {
    const token = state.push("math", "", 0);
    token.content = src.slice(from, from + to).trim();
    token.markup = src.slice(pos, from + to + delimiter.close.length);
    token.meta = { isDisplay: delimiter.isDisplay };
  }
  state.pos = from + to + delimiter.close.length;
  return true;
}

// Where `close` stands in the text behind `open`; -1: nowhere that it may.
function endOfFormula(text: string, { open, close }: Delimiter): number {
  const isDollar = open === "$";
  if (isDollar && /^[\s$]/.test(text)) return -1;
  for (let at = text.indexOf(close); at >= 0; at = text.indexOf(close, at + 1)) {
    const isEscaped = close.startsWith("$") && text.charAt(at - 1) === "\\";
    const mayEnd = !isDollar || !(/\s/.test(text.charAt(at - 1)) || /\d/.test(text.charAt(at + 1)));
    if (!isEscaped && mayEnd) return text.slice(0, at).trim() === "" ? -1 : at;
  }
  return -1;
}

// Lines from "$$" or "\[" to its end; until an answer has written that, to the end of the answer.
function readBlock(state: StateBlock, startLine: number, endLine: number, isSilent: boolean):
  boolean {
  if (state.sCount[startLine]! - state.blkIndent >= 4) return false;
  const delimiter = delimiterAt(state.src, lineStart(state, startLine));
  if (!delimiter?.isDisplay) return false;
  const block = findEnd(state, startLine, endLine, delimiter);
  if (!block) return false;
  if (isSilent) return true;
  const { lastLine, isClosed } = block;
  const source = state.getLines(startLine, lastLine + 1, state.blkIndent, false).trim();
  const token = state.push("math", "", 0);
  token.block = true;
  token.markup = source;
  token.content = source
    .slice(delimiter.open.length, isClosed ? -delimiter.close.length : undefined).trim();
  token.meta = { isDisplay: true, isOpen: !isClosed };
  token.map = [startLine, lastLine + 1];
  state.line = lastLine + 1;
  return true;
}

function lineStart(state: StateBlock, line: number): number {
  return state.bMarks[line]! + state.tShift[line]!;
}

// null: a line is empty or of another block before the end, or words follow the end.
function findEnd(state: StateBlock, startLine: number, endLine: number, delimiter: Delimiter):
  { lastLine: number; isClosed: boolean } | null {
  for (let line = startLine; line < endLine; line += 1) {
    if (state.isEmpty(line) || state.sCount[line]! < state.blkIndent) return null;
    const skipped = line === startLine ? delimiter.open.length : 0;
    const text = state.src.slice(lineStart(state, line) + skipped, state.eMarks[line]).trimEnd();
    const at = text.indexOf(delimiter.close);
    if (at >= 0) {
      const isEnd = at + delimiter.close.length === text.length;
      return isEnd ? { lastLine: line, isClosed: true } : null;
    }
  }
  return endLine === state.lineMax ? { lastLine: endLine - 1, isClosed: false } : null;
}
