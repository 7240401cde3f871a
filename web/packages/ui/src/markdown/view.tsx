// Parsed Markdown as nodes. Preact escapes every string; links alone take something from the text,
// an address of a known scheme. HTML and images of an answer stay text and links.
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { afterFrame } from "./afterFrame.ts";
import { CodeBlock } from "./codeBlock.tsx";
import { Formula } from "./formula.tsx";
import { parseNext } from "./parse.ts";
import type { Block, Parsed, Tree } from "./parse.ts";

// Blocks come in parts of so many: a part that did not change costs one comparison, and one out of
// view has no layout.
const kPartBlocks = 16;
// From so many parts on, those out of view are not laid out (styles/messages.css).
const kManyParts = 4;
// A chat of 170,000 characters has 140 parts. It is opened at its end, so its last two come with
// the first frame, and the others in steps of this many.
const kFirstParts = 2;
const kStepParts = 8;

export function MarkdownView({ text }: { text: string }): VNode {
  const last = useRef<Parsed | null>(null);
  last.current = parseNext(last.current, text);
  const parts = partsOf(last.current.blocks);
  const undrawn = useUndrawn(parts.length);
  return (
    <div class={parts.length >= kManyParts ? "prose prose-long" : "prose"}>
      {parts.map((blocks, index) =>
        <PartView key={index} blocks={index < undrawn ? kNoBlocks : blocks} />)}
    </div>
  );
}

const kNoBlocks: readonly Block[] = [];

function partsOf(blocks: readonly Block[]): Block[][] {
  const parts: Block[][] = [];
  for (let at = 0; at < blocks.length; at += kPartBlocks) {
    parts.push(blocks.slice(at, at + kPartBlocks));
  }
  return parts;
}

// How many parts at the beginning are not drawn yet. What grows from nothing is drawn at once. The
// formulas and colours in view come before the first step, those of all other parts after the last.
function useUndrawn(partCount: number): number {
  const isBegun = useRef(false);
  const [undrawn, setUndrawn] = useState(() => Math.max(0, partCount - kFirstParts));
  useEffect(() => {
    if (undrawn === 0) return undefined;
    const isNext = isBegun.current;
    isBegun.current = true;
    return afterFrame(() => setUndrawn(Math.max(0, undrawn - kStepParts)), isNext);
  }, [undrawn]);
  return undrawn;
}

// Blocks are read anew from the end only: a part is as it was when its last tree is.
function PartView({ blocks }: { blocks: readonly Block[] }): VNode {
  return useMemo(() => (
    <div class="prose-part">
      {blocks.map(({ tree }, index) =>
        <BlockView key={`${index}${tree.token.type}`} tree={tree} />)}
    </div>
  ), [blocks.length, blocks.at(-1)?.tree]);
}

// A block that is settled keeps its tree, and with it what was drawn.
function BlockView({ tree }: { tree: Tree }): VNode {
  return useMemo(() => <>{nodeOf(tree)}</>, [tree]);
}

function nodesOf(trees: readonly Tree[]): ComponentChildren {
  return trees.map(nodeOf);
}

function nodeOf(tree: Tree): ComponentChildren {
  const { token, children } = tree;
  switch (token.type) {
    case "paragraph_open":
      // A tight item ("- a") has its words without a paragraph around them.
      return token.hidden ? nodesOf(children) : <p>{nodesOf(children)}</p>;
    case "heading_open":
      // A heading of an answer must not enter the outline of the page.
      return (
        <p class={`prose-heading prose-heading-${Math.min(Number(token.tag.slice(1)), 3)}`}>
          {nodesOf(children)}
        </p>
      );
    case "blockquote_open":
      return <blockquote>{nodesOf(children)}</blockquote>;
    case "bullet_list_open":
      return <ul>{children.map(itemOf)}</ul>;
    case "ordered_list_open":
      return <ol start={Number(token.attrGet("start") ?? 1)}>{children.map(itemOf)}</ol>;
    case "table_open":
      return <TableView rows={children.flatMap((part) => part.children)} />;
    case "fence":
    case "code_block":
      return <CodeBlock language={/^\S*/.exec(token.info.trim())?.[0] ?? ""}
        text={token.content.replace(/\n$/, "")} />;
    case "hr":
      return <hr />;
    default:
      return inlineOf(tree);
  }
}

function inlineOf({ token, children }: Tree): ComponentChildren {
  switch (token.type) {
    case "inline":
      return nodesOf(children);
    case "text":
      return token.content;
    case "code_inline":
      return <code>{token.content}</code>;
    case "strong_open":
      return <strong>{nodesOf(children)}</strong>;
    case "em_open":
      return <em>{nodesOf(children)}</em>;
    case "s_open":
      return <del>{nodesOf(children)}</del>;
    // Models mean the lines that they write: each new line of a paragraph is shown as one.
    case "softbreak":
    case "hardbreak":
      return <br />;
    case "link_open":
      return linkView(`${token.attrGet("href")}`, nodesOf(children));
    case "image":
      // The page loads nothing from elsewhere: who wants to see the image opens it.
      return linkView(`${token.attrGet("src")}`, token.content || token.attrGet("src"));
    case "math":
      return <Formula text={token.content} source={token.markup}
        isDisplay={token.meta?.["isDisplay"] === true} isOpen={token.meta?.["isOpen"] === true} />;
    default:
      return token.content;
  }
}

function linkView(address: string, content: ComponentChildren): VNode {
  return <a href={address} target="_blank" rel="noopener noreferrer nofollow">{content}</a>;
}

const kTask = /^\[([ xX])\]\s+/;

function itemOf(item: Tree, index: number): VNode {
  const words = item.children[0]?.children[0]?.children[0];
  const task = words?.token.type === "text" ? kTask.exec(words.token.content) : null;
  if (!words || !task) return <li key={index}>{nodesOf(item.children)}</li>;
  const isDone = task[1] !== " ";
  return (
    <li class="task" key={index}>
      <input type="checkbox" disabled checked={isDone} aria-label={isDone ? "Done" : "To do"} />
      <div>{nodesOf(withoutMark(item.children, task[0].length))}</div>
    </li>
  );
}

// The same trees without the first characters of the first words.
function withoutMark(trees: readonly Tree[], length: number): Tree[] {
  const [first, ...others] = trees;
  if (!first) return [];
  if (first.token.type !== "text") {
    return [{ ...first, children: withoutMark(first.children, length) }, ...others];
  }
  const token = Object.assign(Object.create(first.token) as typeof first.token,
    { content: first.token.content.slice(length) });
  return [{ token, children: [] }, ...others];
}

// A wide table scrolls by itself, by keys too.
function TableView({ rows: [head, ...rows] }: { rows: readonly Tree[] }): VNode {
  return (
    <div class="table-scroller" tabIndex={0} role="region" aria-label="Table">
      <table>
        <thead>
          <tr>
            {head?.children.map((cell, index) => (
              <th key={index} scope="col" class={alignClass(cell)}>{nodesOf(cell.children)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              {row.children.map((cell, index) => (
                <td key={index} class={alignClass(cell)}>{nodesOf(cell.children)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// markdown-it says it as a style, which the page's policy forbids: "text-align:right".
function alignClass({ token }: Tree): string | undefined {
  const align = /(left|center|right)$/.exec(`${token.attrGet("style")}`)?.[1];
  return align === undefined ? undefined : `align-${align}`;
}
