import { describe, expect, it } from "vitest";
import { parseMarkdown, parseNext, safeAddress } from "./parse.ts";
import type { Parsed, Tree } from "./parse.ts";

const kAnswer = `# Title
One **bold *nested* text** and \`code\`.
- a
- [x] done
  1. inner

| a | b |
| - | -: |
| 1 | ~~2~~ |

> quote
> # heading
\`\`\`js
let a = '<b>';

# not a heading
\`\`\`
text
#b
***
Setext
===
para
| not | a table |
    code? no

    code

- loose

- list

  more of it

* * *x

1. a

2. b

after
<div>html</div>

1. one
1) two
***x** end https://example.com/a_b.

$$
x = \\(
- 2
$$
\\[ y \\] and \\(z\\) or $5 and $6$
\\[ a
# b

\\]`;

// Lines count from where reading began, which differs; all else must be the same.
function shape(parsed: Parsed): string {
  return JSON.stringify(parsed.blocks.map(({ start, tree }) => [start, tree]),
    (key, value: unknown) => key === "map" ? undefined : value);
}

function kindsOf(text: string): string[] {
  return parseMarkdown(text).blocks.map(({ tree }) => tree.token.type);
}

// The types and words of every token, in order: "link_open(https://a.b) text(a)".
function wordsOf(trees: readonly Tree[]): string {
  return trees.map(({ token, children }) => [
    `${token.type}(${token.attrGet("href") ?? (token.type === "inline" ? "" : token.content)})`,
    wordsOf(children),
  ].filter((part) => part !== "").join(" ")).join(" ");
}

function read(text: string): string {
  return wordsOf(parseMarkdown(text).blocks.map(({ tree }) => tree));
}

describe("parseMarkdown", () => {
  it("reads what GitHub adds to Markdown", () => {
    expect(kindsOf("| a |\n| - |\n| 1 |")).toEqual(["table_open"]);
    expect(kindsOf("> a\n\n***\n# b\n1. c\n\n```\nd")).toEqual(
      ["blockquote_open", "hr", "heading_open", "ordered_list_open", "fence"]);
    expect(read("see https://a.b/c")).toContain("link_open(https://a.b/c)");
    expect(read("~~a~~ **b *c***")).toMatch(/s_open.*strong_open.*em_open/);
  });

  it("keeps code as it is, closed or still streaming", () => {
    expect(parseMarkdown("```py\nprint(1)\n``").blocks[0]?.tree.token)
      .toMatchObject({ type: "fence", info: "py", content: "print(1)\n``" });
  });

  it.each([
    "<b onclick=a>", "[x](javascript:alert(1))", "![x](data:image/png,a)", "[a][b]", "file.py",
    "&lt;b", "[a]: https",
  ])("leaves %j without a link or an element", (text) => {
    expect(read(text)).not.toMatch(/(?:link_open|image|html_\w+)\(/);
  });
});

describe("formulas", () => {
  it.each([
    ["\\(a_1*b*c\\)", "math(a_1*b*c)"], ["$x^2$", "math(x^2)"], ["$$x$$", "math(x)"],
    ["so $a$, $b$.", "text(so ) math(a) text(, ) math(b) text(.)"],
    ["\\[\nx = 1\n\\]", "math(x = 1)"], ["$$\n- 1\n= 2\n$$", "math(- 1\n= 2)"],
    ["text\n$$x$$", "math(x)"], ["- a\n  $$\n  x\n  $$", "math(x)"],
    ["$a\\$b$", "math(a\\$b)"],
  ])("reads %j", (text, expected) => {
    expect(read(text)).toContain(expected);
  });

  it.each([
    "It costs $5, or $6 there", "$5-$10", "a $ b $ c", "\\$x$", "$ $", "\\( ", "`$x$`",
    "US$5 and A$7", "    $$x$$", "```\n$x$\n```",
  ])("finds none in %j", (text) => {
    expect(read(text)).not.toContain("math(");
  });

  it("waits for the end of one that is being written", () => {
    const [block] = parseMarkdown("\\[ x = \\frac").blocks;
    expect(block?.tree.token).toMatchObject({ markup: "\\[ x = \\frac", meta: { isOpen: true } });
    expect(read("\\[ x\n\ny \\]")).not.toContain("math(");
  });
});

describe("parseNext", () => {
  it("reads every growing answer as parseMarkdown does", () => {
    for (const step of [1, 3, 7]) {
      let parsed: Parsed | null = null;
      for (let end = step; end <= kAnswer.length; end += step) {
        const text = kAnswer.slice(0, end);
        parsed = parseNext(parsed, text);
        expect(shape(parsed)).toBe(shape(parseMarkdown(text)));
      }
    }
  });

  it("keeps the nodes of settled blocks, and begins anew for another text", () => {
    const before = parseMarkdown("# a\n\ntext");
    const after = parseNext(before, "# a\n\ntext more");
    expect(after.blocks[0]?.tree).toBe(before.blocks[0]?.tree);
    expect(parseNext(after, "other").blocks).toHaveLength(1);
  });
});

it.each([
  ["https://a.b/c", "https://a.b/c"], ["mailto:a@b.c", "mailto:a@b.c"],
  ["javascript:alert(1)", null], ["JaVaScRiPt:alert(1)", null], ["java\nscript:alert(1)", null],
  ["data:text/html,x", null], ["/relative", null], ["vbscript:x", null], ["", null],
])("follows %j as %j", (address, expected) => {
  expect(safeAddress(address)).toBe(expected);
});
