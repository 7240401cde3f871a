import { expect, it } from "vitest";
import { takeSentences } from "./sentences.ts";

it("waits for whole sentences", () => {
  expect(takeSentences("Hello there, my", 0, false)).toEqual({ chunk: "", nextAt: 0 });
  expect(takeSentences("Hello there, my friend. How", 0, false)).toEqual({
    chunk: "Hello there, my friend.", nextAt: 23,
  });
});

it("does not take a dot in a number or at the very end for a stop", () => {
  expect(takeSentences("It costs about 3.", 0, false).chunk).toBe("");
  expect(takeSentences("It costs about 3.14 or so", 0, false).chunk).toBe("");
});

it("joins pieces that are too short", () => {
  expect(takeSentences("1. First\n", 0, false)).toEqual({ chunk: "", nextAt: 0 });
  expect(takeSentences("1. First item\n2. S", 0, false).chunk).toBe("1. First item");
});

it("says everything exactly once, whatever the pieces", () => {
  const text = "One is here. Two (is “here.”) Three?! Four is **bold**.\n- Five `x` is last";
  let at = 0;
  const heard: string[] = [];
  for (let end = 1; end <= text.length; end += 1) {
    const { chunk, nextAt } = takeSentences(text.slice(0, end), at, end === text.length);
    if (chunk) heard.push(chunk);
    at = nextAt;
  }
  expect(at).toBe(text.length);
  expect(heard.length).toBeGreaterThan(2);
  expect(heard.join(" ")).toBe(
    "One is here. Two (is “here.”) Three?! Four is bold. - Five x is last");
});
