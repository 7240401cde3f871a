// The small part of Markdown that models write most: code, headings, lists, bold, italics. The
// result is a tree of plain strings; markdown/view.tsx turns it into nodes, never into HTML text.
// Links, images and HTML stay the text that they are: an answer is hostile until proven otherwise.
// Parsing is linear in the text, and a prefix of an answer parses as well as the whole.

export type Inline =
  | { kind: "text"; text: string }
  | { kind: "code"; text: string }
  | { kind: "strong" | "emphasis"; content: Inline[] };

export interface ListItem {
  depth: number; // 0: not nested
  content: Inline[];
}

export type Block =
  | { kind: "paragraph"; lines: Inline[][] }
  | { kind: "heading"; level: number; content: Inline[] }
  | { kind: "code"; language: string; text: string }
  | { kind: "list"; ordered: boolean; start: number; items: ListItem[] }
  | { kind: "rule" };

const kFence = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]{0,30})/;
const kHeading = /^ {0,3}(#{1,6})\s+(\S.*)$/;
const kItem = /^( {0,12})(?:[-*+•]|(\d{1,9})[.)])\s+(\S.*)$/;
const kRule = /^ {0,3}(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,})$/;

export function parseMarkdown(text: string): Block[] {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const blocks: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (line.trim() === "") {
      at += 1;
      continue;
    }
    const read = readCode(lines, at) ?? readSingleLine(line, at) ?? readList(lines, at) ??
      readParagraph(lines, at);
    blocks.push(read.block);
    at = read.next;
  }
  return blocks;
}

interface Read {
  block: Block;
  next: number;
}

// A fence that is not closed (yet) reaches to the end: that is how code looks while it streams.
function readCode(lines: readonly string[], at: number): Read | null {
  const opened = kFence.exec(lines[at] ?? "");
  const fence = opened?.[1];
  if (!opened || !fence) return null;
  const isEnd = (line: string): boolean => {
    const trimmed = line.trim();
    return trimmed.length >= fence.length && trimmed === fence.charAt(0).repeat(trimmed.length);
  };
  let end = at + 1;
  while (end < lines.length && !isEnd(lines[end] ?? "")) end += 1;
  const text = lines.slice(at + 1, end).join("\n");
  return { block: { kind: "code", language: opened[2] ?? "", text }, next: end + 1 };
}

function readSingleLine(line: string, at: number): Read | null {
  const heading = kHeading.exec(line);
  if (heading?.[1] && heading[2]) {
    const content = parseInline(heading[2].replace(/\s+#+\s*$/, ""));
    return { block: { kind: "heading", level: heading[1].length, content }, next: at + 1 };
  }
  return kRule.test(line) ? { block: { kind: "rule" }, next: at + 1 } : null;
}

function readList(lines: readonly string[], at: number): Read | null {
  const first = kItem.exec(lines[at] ?? "");
  if (!first) return null;
  const ordered = first[2] !== undefined;
  const items: ListItem[] = [];
  let next = at;
  while (next < lines.length) {
    const line = lines[next] ?? "";
    const item = kItem.exec(line);
    const depth = Math.min(5, Math.floor((item?.[1] ?? "").length / 2));
    if (item && (depth > 0 || (item[2] !== undefined) === ordered)) {
      items.push({ depth, content: parseInline(item[3] ?? "") });
    } else if (!item && /^\s{2,}\S/.test(line)) {
      // A longer item's next line.
      items.at(-1)?.content.push({ kind: "text", text: " " }, ...parseInline(line.trim()));
    } else if (line.trim() !== "" || !kItem.test(lines[next + 1] ?? "")) {
      break;
    }
    next += 1;
  }
  const start = ordered ? Number(first[2]) : 1;
  return { block: { kind: "list", ordered, start, items }, next };
}

function readParagraph(lines: readonly string[], at: number): Read {
  const content: Inline[][] = [];
  let next = at;
  do {
    content.push(parseInline((lines[next] ?? "").trim()));
    next += 1;
  } while (next < lines.length && !startsBlock(lines[next] ?? ""));
  return { block: { kind: "paragraph", lines: content }, next };
}

function startsBlock(line: string): boolean {
  return line.trim() === "" || kFence.test(line) || kHeading.test(line) || kItem.test(line) ||
    kRule.test(line);
}

// Alternatives are bounded runs without nested repetition: no text makes them slow.
const kMark = /(`+)([^`]+)\1(?!`)|\*\*(?=\S)([^*\n]+)\*\*|\*(?=[^\s*])([^*\n]+)\*/g;

// Not nested deeper than emphasis in bold: what people read needs no more.
export function parseInline(text: string, depth = 0): Inline[] {
  const content: Inline[] = [];
  let end = 0;
  for (const mark of text.matchAll(kMark)) {
    if (mark.index > end) content.push({ kind: "text", text: text.slice(end, mark.index) });
    const [whole, , code, strong, emphasis] = mark;
    if (code !== undefined) {
      content.push({ kind: "code", text: code });
    } else {
      const inner = strong ?? emphasis ?? "";
      content.push({
        kind: strong === undefined ? "emphasis" : "strong",
        content: depth < 1 ? parseInline(inner, depth + 1) : [{ kind: "text", text: inner }],
      });
    }
    end = mark.index + whole.length;
  }
  if (end < text.length) content.push({ kind: "text", text: text.slice(end) });
  return content;
}
