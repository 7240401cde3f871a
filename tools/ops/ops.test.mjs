// What the generator makes of small descriptions, and what it refuses.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import * as cpp from "./cpp.mjs";
import { readDescription } from "./description.mjs";
import { proto } from "./proto.mjs";
import * as typescript from "./typescript.mjs";

const kDescription = readFileSync(new URL("../../src/program/ops.json", import.meta.url), "utf8");
const kTwist = { name: "TwistKind", called: "twist", values: [["left"], ["right"]] };

// A description of one operation with these fields behind its views, read.
function describe(fields, { rules = ["elementwise in"], ...more } = {}) {
  const views = [["in", "view in", 1], ["out", "view out", 2]];
  const op = { name: "Twist", message: "twist", number: 1, fields: [...views, ...fields], rules };
  return readDescription(JSON.stringify({ enums: [kTwist], ops: [{ ...op, ...more }] }));
}

test("a number has a member, a field of the message, and crosses both ways", () => {
  const one = describe([["angle_scale", "f32", 3, { default: 1 }]]);
  assert.match(cpp.structs(one), /  float angle_scale = 1;/);
  assert.match(proto(one), /  float angle_scale = 3;/);
  assert.match(cpp.codec(one), /o->set_angle_scale\(op\.angle_scale\);/);
  assert.match(cpp.codec(one), /op\.angle_scale = in\.angle_scale\(\);/);
  assert.match(typescript.types(one), /  readonly angleScale: number;/);
  assert.match(typescript.codec(one), /    angleScale: value\.angleScale,/);
});

test("what may be absent is written where it is set, and read where it is there", () => {
  const one = describe([["bias", "weight?", 3]], { rules: ["vector bias in.columns"] });
  assert.match(cpp.codec(one), /if \(op\.bias\) o->set_bias\(\*op\.bias\);/);
  assert.match(cpp.codec(one), /if \(in\.has_bias\(\)\) op\.bias = in\.bias\(\);/);
  assert.match(cpp.rules(one), /if \(op\.bias\) TRY\(check\.Shape\("bias", \*op\.bias, /);
  assert.match(typescript.types(one), /  readonly bias: number \| null;/);
  assert.match(typescript.codec(one), /bias: value\.bias \?\? null,/);
  assert.match(typescript.rules(one), /check\.shape\("bias", op\.bias, \[op\.in\.columns\]\);/);
});

test("a condition guards both ways, on the field that it names", () => {
  const when = { default: 2, written: "parts != 1", read: "parts != 0" };
  const one = describe([["parts", "u32", 3], ["cut", "u32", 4, when]]);
  assert.match(cpp.codec(one), /if \(op\.parts != 1\) o->set_cut\(op\.cut\);/);
  assert.match(cpp.codec(one), /if \(in\.parts\(\) != 0\) op\.cut = in\.cut\(\);/);
  assert.match(typescript.codec(one), /cut: value\.parts != 0 \? value\.cut : 2,/);
});

test("an enum crosses as its number, and a number beyond it is refused", () => {
  const one = describe([["kind", "TwistKind", 3]], { rules: ["kind kind"] });
  assert.match(cpp.structs(one), /enum class TwistKind : uint32_t \{\n  kLeft = 0,/);
  assert.match(cpp.codec(one), /o->set_kind\(static_cast<uint32_t>\(op\.kind\)\);/);
  assert.match(cpp.rules(one), /check\.Kind\("twist", op\.kind, kLastTwistKind\)/);
  assert.match(typescript.types(one), /  TwistKind: 1,/);
  assert.match(typescript.codec(one), /    twistKind: value\.kind,/);
  assert.match(typescript.rules(one), /check\.kind\("twist", op\.twistKind, kLastOf\.TwistKind\)/);
});

test("a rule may count, and may leave a dimension open", () => {
  const rules = ["columns out 2*top_k", "shape table *vocabulary out.columns"];
  const one = describe([["top_k", "u32", 3], ["table", "weight", 4]], { rules });
  assert.match(cpp.rules(one), /check\.Columns\("out", op\.out, 2 \* op\.top_k\)/);
  assert.match(cpp.rules(one), /\{Dim\("vocabulary"\), Dim\(op\.out\.columns\)\}/);
  assert.match(typescript.rules(one), /check\.columns\("out", op\.out, 2 \* op\.topK\);/);
  assert.match(typescript.rules(one), /\["vocabulary", op\.out\.columns\]/);
});

test("views that are not read where a field is set", () => {
  const from = [["from", "u32?", 3], ["far", "view in", 4, { unless: "from" }]];
  const one = describe(from);
  assert.match(cpp.visits(one), /if \(!op\.from\) visit\(op\.far, false\);/);
  const reads = /return op\.from === null \? \[op\.in, op\.far\] : \[op\.in\];/;
  assert.match(typescript.types(one), reads);
});

test("what the browser's engine lacks is refused there with its sentence", () => {
  const whole = describe([], { browser: "No twists here." });
  const refusal = /throw new EngineError\("unsupported", "No twists here\."\)/;
  assert.match(typescript.codec(whole), refusal);
  assert.doesNotMatch(typescript.types(whole), /interface Twist/);
  const field = describe([["grid", "grid", 3, { browser: "No grid." }]], { rules: ["grid grid"] });
  assert.match(typescript.codec(field), /if \(value\.gridStep !== 0\) throw .*"No grid\."/);
  assert.doesNotMatch(typescript.rules(field), /grid/);
  assert.match(cpp.rules(field), /check\.Grid\("grid", op\.grid\)/);
});

test("a description that makes no sense is refused by operation and field", () => {
  assert.throws(() => describe([["angle", "degrees", 3]]), /Twist\.angle has type 'degrees'/);
  assert.throws(() => describe([["away", "view out", 3]]), /Twist writes 2 views/);
  assert.throws(() => describe([["angle", "f32", 2]]), /Two fields of Twist have the number 2/);
  assert.throws(() => describe([["grid", "grid", 3], ["a", "u32", 4]]), /have the number 4/);
  assert.throws(() => describe([], { rules: ["turn in"] }), /rule 'turn in' is none; expected own/);
  assert.throws(() => describe([], { rules: ["columns in"] }), /has 1 words .* expected 2/);
  assert.throws(() => describe([], { rules: ["finite angle"] }), /'angle', which is no field/);
});

test("the project's own description is read whole", () => {
  const description = readDescription(kDescription);
  const count = (text, pattern) => text.match(pattern).length;
  const { ops } = description;
  const inBrowser = ops.filter(({ browser }) => browser === undefined).length;
  assert.equal(count(cpp.codec(description), /inline void PutOp/g), ops.length);
  assert.equal(count(cpp.visits(description), /std::string_view OpNameOf/g), ops.length);
  assert.equal(count(cpp.rules(description), /inline Status CheckOp/g), ops.length);
  assert.equal(count(proto(description), /^message (?!Op )/gm), ops.length);
  assert.equal(count(typescript.types(description), /export interface/g), inBrowser);
  assert.equal(count(typescript.rules(description), /^ {4}case/gm), inBrowser);
});
