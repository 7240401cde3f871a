// Markdown as GitHub writes it, read by markdown-it into a tree; markdown/view.tsx turns that into
// nodes, never into HTML text. An answer grows at its end, so only what its end may still change is
// read again: "# A\n\ntext" plus " more" reads "text more" and keeps the heading as it is.
import MarkdownIt from "markdown-it";
import type { Token } from "markdown-it";
import { addMathRules } from "./mathRules.ts";

export interface Tree {
  token: Token; // an opening one has children
  children: Tree[];
}

export interface Block {
  start: number; // where its first line begins in the text
  tree: Tree;
}

export interface Parsed {
  text: string;
  blocks: readonly Block[];
}

const reader = new MarkdownIt({ linkify: true, breaks: true });
// A definition at the end of an answer would change what was read long before.
reader.disable("reference");
reader.linkify.set({ fuzzyEmail: false }); // "file.py" and "a@b" are no addresses
// A link that may not be followed stays text.
reader.validateLink = (address) => safeAddress(address) !== null;
addMathRules(reader);

export function parseMarkdown(text: string): Parsed {
  return { text, blocks: readBlocks(text, 0) };
}

// As parseMarkdown(text), but keeps the blocks of `before` that the added text cannot change.
export function parseNext(before: Parsed | null, text: string): Parsed {
  if (!before || !text.startsWith(before.text)) return parseMarkdown(text);
  if (text === before.text) return before;
  const kept = before.blocks.slice(0, countSettled(before));
  const from = before.blocks[kept.length]?.start ?? 0;
  return { text, blocks: [...kept, ...readBlocks(text.slice(from), from)] };
}

// A block is settled when a later one has begun, and that one's first line is complete: "a\n#" is a
// paragraph and a heading, but "a\n#b" is one paragraph. Behind an empty line it begins for good
// unless a list or indented code may go on: "1. a\n\n2" becomes "1. a\n\n2. b". A formula without
// an end may turn out to be more of the paragraph before it.
function countSettled({ text, blocks }: Parsed): number {
  const settled = blocks.length - 1;
  const last = blocks[settled];
  const previous = blocks[settled - 1];
  if (!last || !previous) return 0;
  const isLineComplete = last.start <= text.lastIndexOf("\n") &&
    last.tree.token.meta?.["isOpen"] !== true;
  const isOpenEnded = /list|code/.test(previous.tree.token.type);
  const isApart = !isOpenEnded && text.slice(0, last.start).endsWith("\n\n");
  return isLineComplete || isApart ? settled : settled - 1;
}

function readBlocks(text: string, offset: number): Block[] {
  const lines = lineStarts(text);
  return treesOf(reader.parse(text, {})).map((tree) => (
    { start: offset + (lines[tree.token.map?.[0] ?? 0] ?? 0), tree }
  ));
}

function lineStarts(text: string): number[] {
  const starts = [0];
  for (const { index, 0: end } of text.matchAll(/\r\n?|\n/g)) starts.push(index + end.length);
  return starts;
}

// markdown-it's tokens open and close: "<p> text </p>" becomes one tree.
export function treesOf(tokens: readonly Token[]): Tree[] {
  const top: Tree[] = [];
  const open: Tree[] = [];
  for (const token of tokens) {
    if (token.nesting < 0) {
      open.pop();
      continue;
    }
    const tree: Tree = { token, children: token.children ? treesOf(token.children) : [] };
    (open.at(-1)?.children ?? top).push(tree);
    if (token.nesting > 0) open.push(tree);
  }
  return top;
}

const kSafeSchemes: readonly string[] = ["http:", "https:", "mailto:"];

// The address of a link that a click may follow, or null: "javascript:a" and "/b" stay text.
export function safeAddress(address: string): string | null {
  try {
    const url = new URL(address);
    return kSafeSchemes.includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}
