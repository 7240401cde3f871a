// Files of models that public bug reports of similar programs are about: tokenizers whose ids are
// those of the native library, GGUF vocabularies, ONNX folders.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";

import { weft } from "../e2e/lib/weft.mjs";

const files = fileURLToPath(new URL("files/", import.meta.url));
const made = mkdtempSync(join(tmpdir(), "weft-reported-"));
after(() => rmSync(made, { recursive: true }));

function run(args, input = "") {
  const { status, stdout, stderr } = spawnSync(weft, args, { input, encoding: "utf8" });
  return { status, stdout, stderr };
}

// Ids of each of `texts`.
function idsOf(source, texts) {
  const input = texts.map((text) => `${JSON.stringify(text)}\n`).join("");
  const { status, stdout, stderr } = run(["tokenize", join(files, source)], input);
  assert.equal(status, 0, stderr);
  return stdout.trim().split("\n").map((line) => JSON.parse(line));
}

function textsOf(name) {
  const lines = readFileSync(join(files, name), "utf8").trim().split("\n");
  return lines.map((line) => JSON.parse(line));
}

test("a match of no width cuts where it is", () => {
  const texts = textsOf("07-zero-width-split.texts.jsonl");
  assert.deepEqual(idsOf("07-zero-width-split.tokenizer.json", texts), [
    [49, 50, 257, 263], [256], [49, 50, 257], [260, 52, 258], [120, 49, 50, 257, 263, 265, 121]]);
});

test("marks belong to words", () => {
  const texts = textsOf("08-word-class-marks.texts.jsonl");
  assert.deepEqual(idsOf("08-word-class-marks.tokenizer.json", texts),
    [[267, 266], [274], [277, 275], [120, 194, 178, 121]]);
});

test("added tokens that are there twice, or empty", () => {
  const texts = textsOf("09-added.texts.jsonl");
  for (const name of ["twice", "empty"]) {
    assert.deepEqual(idsOf(`09-added-token-${name}.tokenizer.json`, texts), [[258, 257]], name);
  }
});

test("several ONNX files in a folder are named", () => {
  const { status, stderr } = run(
    ["convert", join(files, "10-onnx-variants"), join(made, "onnx")]);
  assert.equal(status, 1);
  assert.match(stderr, /holds several ONNX files; name one of: model_fp16\.onnx model_q4\.onnx\./);
});

test("Phi-3's tokens take the white space behind them, also from a GGUF file", () => {
  const [ids, inner] = idsOf("11-phi3-rstrip.gguf",
    ["<|user|>\nHi<|end|>\n<|assistant|>\n", "<|user|> \n Hi"]);
  assert.equal(ids.at(-1), 513);
  assert.equal(inner.length, idsOf("11-phi3-rstrip.gguf", ["<|user|>Hi"])[0].length);
});

test("a flag of a GGUF file may be a byte or a number", () => {
  const [ids] = idsOf("12-bool-as-u8.gguf", ["Hi"]);
  assert.ok(ids.length > 0);
});

test("a tensor without dimensions that nobody needs is no fault", () => {
  for (const name of ["13-scalar-tensor", "13-scalar-tensor-as-vector-of-1"]) {
    const { status, stderr } = run(
      ["convert", join(files, `${name}.gguf`), join(made, name), "--force"]);
    assert.equal(status, 0, stderr);
  }
});
