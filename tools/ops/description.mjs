// Reads src/program/ops.json and refuses what makes no sense. docs/adding-an-op.md says what may
// stand there.
import { parseRule } from "./rules.mjs";

const kTypes = [
  "view in", "view out", "weight", "weight?", "weight rows", "u32", "u32?", "f32", "bool", "rope?",
  "grid",
];

// The description as objects, or an Error that names the operation and the field. A field whose
// type is an enum has that enum's name for a type, and `isEnum`.
export function readDescription(text) {
  const { constants = [], enums = [], ops } = JSON.parse(text);
  const read = enums.map((one) => ({ ...one, values: one.values.map(valueOf) }));
  const byName = new Map(read.map((one) => [one.name, one]));
  const operations = ops.map((op) => operationOf(op, byName));
  expectDistinct(operations.map(({ number }) => number), "operations");
  return { constants, enums: read, ops: operations };
}

// The one view that an operation writes.
export function outOf(op) {
  return op.fields.find(({ type }) => type === "view out").name;
}

// Views that an operation reads.
export function insOf(op) {
  return op.fields.filter(({ type }) => type === "view in");
}

function valueOf([name, about, more = {}]) {
  return { name, about, ...more };
}

function operationOf(op, enums) {
  const fields = op.fields.map(([name, type, number, more = {}]) => {
    return { message: name, ...more, name, type, number, isEnum: enums.has(type) };
  });
  for (const { name, type, isEnum } of fields) {
    if (isEnum || kTypes.includes(type)) continue;
    const known = kTypes.join(", ");
    throw new Error(`${op.name}.${name} has type '${type}'; expected ${known} or an enum.`);
  }
  const outs = fields.filter(({ type }) => type === "view out");
  if (outs.length !== 1) {
    throw new Error(`${op.name} writes ${outs.length} views; expected one of type 'view out'.`);
  }
  expectDistinct(fields.flatMap(numbersOf), `fields of ${op.name}`);
  const rules = op.rules.map((rule) => ruleOf(rule, op.name, fields));
  return { ...op, fields, rules };
}

// A grid takes two numbers of its message: the step and the limit.
function numbersOf({ type, number }) {
  return type === "grid" ? [number, number + 1] : [number];
}

function expectDistinct(numbers, what) {
  const twice = numbers.find((number, i) => numbers.indexOf(number) !== i);
  if (twice === undefined) return;
  throw new Error(`Two ${what} have the number ${twice}; a number is given once.`);
}

function ruleOf(text, opName, fields) {
  const rule = parseRule(text);
  for (const name of rule.names) {
    if (fields.some((field) => field.name === name)) continue;
    throw new Error(`${opName}'s rule '${text}' names '${name}', which is no field of it.`);
  }
  return rule;
}
