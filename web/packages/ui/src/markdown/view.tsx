// Parsed Markdown as nodes. Preact escapes every string, and no element here takes an address, a
// style or a handler from the text.
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { CopyIconButton } from "../elements/controls.tsx";
import { parseMarkdown } from "./parse.ts";
import type { Block, Inline, ListItem } from "./parse.ts";

export function Markdown({ text }: { text: string }): VNode {
  const blocks = useMemo(() => parseMarkdown(text), [text]);
  return (
    <div class="prose">
      {blocks.map((block, index) => <BlockView key={`${index}${block.kind}`} block={block} />)}
    </div>
  );
}

function BlockView({ block }: { block: Block }): VNode {
  switch (block.kind) {
    case "paragraph":
      return (
        <p>
          {block.lines.map((line, index) => (
            <>
              {index > 0 && <br />}
              <Inlines content={line} />
            </>
          ))}
        </p>
      );
    case "heading":
      // A heading of an answer must not enter the outline of the page.
      return (
        <p class={`prose-heading prose-heading-${Math.min(block.level, 3)}`}>
          <Inlines content={block.content} />
        </p>
      );
    case "code":
      return (
        <div class="code-block">
          <div class="code-head">
            <span>{block.language || "code"}</span>
            <CopyIconButton text={block.text} label="Copy this code" />
          </div>
          <pre tabIndex={0} aria-label={`${block.language} code`.trim()}>
            <code>{block.text}</code>
          </pre>
        </div>
      );
    case "list":
      return block.ordered
        ? <ol start={block.start}><Items items={block.items} /></ol>
        : <ul><Items items={block.items} /></ul>;
    case "rule":
      return <hr />;
  }
}

function Items({ items }: { items: readonly ListItem[] }): VNode {
  return (
    <>
      {items.map((item, index) => (
        <li key={index} class={item.depth > 0 ? `nested-${Math.min(item.depth, 3)}` : undefined}>
          <Inlines content={item.content} />
        </li>
      ))}
    </>
  );
}

function Inlines({ content }: { content: readonly Inline[] }): VNode {
  return <>{content.map(inlineView)}</>;
}

function inlineView(inline: Inline): VNode | string {
  switch (inline.kind) {
    case "text":
      return inline.text;
    case "code":
      return <code>{inline.text}</code>;
    case "strong":
      return <strong><Inlines content={inline.content} /></strong>;
    case "emphasis":
      return <em><Inlines content={inline.content} /></em>;
  }
}
