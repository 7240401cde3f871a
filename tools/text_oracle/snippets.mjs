// One feature of Jinja each, as chat templates use it. What the library refuses is left to
// chat_template_test.cc's own list.
import { readFileSync } from "node:fs";

export const snippetContext = {
  name: "World",
  number: 7,
  half: 0.5,
  negative: -3,
  yes: true,
  no: false,
  nothing: null,
  text: "  some Text\nof two lines ",
  list: [3, 1, 2],
  words: ["b", "A", "c"],
  empty: [],
  dict: { b: 1, a: "x", c: [1, 2, { d: null }] },
  blank: {},
  people: [
    { name: "Zoë", age: 30, tags: ["x"] },
    { name: "adam", age: 25, tags: [] },
    { name: "Bea", age: 41 },
  ],
  unicode: "naïve 日本語 👍",
  html: "<b>\"&'</b>",
};

// snippets.txt: one template after another, between lines of dashes.
const source = readFileSync(new URL("snippets.txt", import.meta.url), "utf8");
export const snippets = source.replace(/\n$/, "").split("\n----\n");
