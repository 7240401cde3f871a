import { describe, expect, it } from "vitest";
import { parseInline, parseMarkdown } from "./parse.ts";

describe("blocks", () => {
  it("keeps code as it is, closed or still streaming", () => {
    expect(parseMarkdown("```js\nlet a = '<b>';\n\n  x\n```\nend")).toEqual([
      { kind: "code", language: "js", text: "let a = '<b>';\n\n  x" },
      { kind: "paragraph", lines: [[{ kind: "text", text: "end" }]] },
    ]);
    expect(parseMarkdown("```py\nprint(1)\n``")).toEqual([
      { kind: "code", language: "py", text: "print(1)\n``" },
    ]);
    expect(parseMarkdown("````\n```\n````")).toEqual([
      { kind: "code", language: "", text: "```" },
    ]);
  });

  it("reads lists, ordered ones with their first number, nested ones with depth", () => {
    const [list] = parseMarkdown("3. three\n4. four\n  - inner\n\n5. five\n   and more");
    expect(list).toMatchObject({ kind: "list", ordered: true, start: 3 });
    expect(list?.kind === "list" && list.items.map((item) => item.depth)).toEqual([0, 0, 1, 0]);
  });

  it("separates lists of different kinds, paragraphs, headings, rules", () => {
    const kinds = parseMarkdown("# Title #\ntext\nmore\n- a\n- b\n1. c\n---\nlast")
      .map((block) => block.kind);
    expect(kinds).toEqual(["heading", "paragraph", "list", "list", "rule", "paragraph"]);
  });

  it("keeps the lines of a paragraph", () => {
    expect(parseMarkdown("a\r\nb")).toEqual([
      { kind: "paragraph", lines: [[{ kind: "text", text: "a" }], [{ kind: "text", text: "b" }]] },
    ]);
    expect(parseMarkdown(" \n\n")).toEqual([]);
  });
});

describe("inline", () => {
  it("knows code, bold and italics", () => {
    expect(parseInline("a `x*y*` **b *c* ** *d*")).toMatchObject([
      { kind: "text" }, { kind: "code", text: "x*y*" }, { kind: "text" },
      { kind: "emphasis" }, { kind: "text" }, { kind: "emphasis" },
    ]);
    expect(parseInline("**bold `not code`**")[0]).toMatchObject({
      kind: "strong", content: [{ kind: "text", text: "bold " }, { kind: "code" }],
    });
  });

  it.each([
    "2 * 3 * 4", "a ** b", "snake_case_name", "`", "**", "* ", "[link](javascript:alert(1))",
    "<img src=x onerror=alert(1)>", "&lt;b&gt;",
  ])("leaves %j as text", (text) => {
    expect(parseInline(text)).toEqual([{ kind: "text", text }]);
  });

  it("loses no character but the marks, for any prefix", () => {
    const text = "One **two** three `four` *five* and 2*3*4 ** end";
    const plain = (of: string): string => JSON.stringify(parseMarkdown(of));
    for (let end = 1; end <= text.length; end += 1) {
      const shown = plain(text.slice(0, end));
      const words = text.slice(0, end).match(/[a-z]{2,}/g) ?? [];
      for (const word of words) expect(shown).toContain(word);
    }
  });

  it("is quick on hostile text", () => {
    const startedMs = performance.now();
    for (const unit of ["*a", "`", "**a*", "``a`", "- \n", "#", "*", "> ```"]) {
      parseMarkdown(unit.repeat(20_000));
    }
    expect(performance.now() - startedMs).toBeLessThan(2000);
  });
});
