// TypeScript of the operations that src/program/ops.json describes, for the browser's engine:
// `types` is the text of ops.ts, `codec` that of opCodec.ts, `rules` that of opRules.ts. What has a
// "browser" sentence is refused with it, so that it has no type here.
import { insOf, outOf } from "./description.mjs";
import { camel, comment, declared } from "./names.mjs";
import { kindOf } from "./rules.mjs";

const kHead = "// Made by tools/ops from src/program/ops.json.\n";
const kTypes = {
  "view in": "View",
  "view out": "View",
  weight: "number",
  "weight?": "number | null",
  "weight rows": "WeightView",
  u32: "number",
  "u32?": "number | null",
  f32: "number",
  bool: "boolean",
  "rope?": "Rope | null",
  grid: "SumGrid",
};
const kProgram = "../../src/program";

// `kind` tells operations apart, so that a field of this name has its enum's.
function nameOf({ name, type }) {
  return name === "kind" ? type[0].toLowerCase() + type.slice(1) : camel(name);
}

const kindName = ({ message }) => camel(message);
const known = ({ ops }) => ops.filter(({ browser }) => browser === undefined);
const held = ({ fields }) => fields.filter(({ browser }) => browser === undefined);

// ---- types

function enumText(one) {
  const lines = one.values.map(({ name, about }, i) => {
    return declared(`  ${camel(name)}: ${i},`, about);
  });
  return `${comment(one.about)}export const ${one.name} = {\n${lines.join("")}} as const;\n`;
}

function interfaceText(op) {
  const lines = held(op).map((field) => {
    const type = field.isEnum ? "number" : kTypes[field.type];
    return declared(`  readonly ${nameOf(field)}: ${type};`, aboutOf(field));
  });
  return `${comment(op.about)}export interface ${op.name} {
  readonly kind: "${kindName(op)}";
${lines.join("")}}
`;
}

function aboutOf({ about, type, isEnum }) {
  if (about !== undefined) return about;
  return isEnum ? type : type.startsWith("weight?") ? "weight" : undefined;
}

function readsText(op) {
  const ins = insOf(op);
  const all = (views) => `[${views.map((view) => `op.${nameOf(view)}`).join(", ")}]`;
  const guard = ins.find(({ unless }) => unless)?.unless;
  const some = ins.filter(({ unless }) => unless === undefined);
  const views = guard ? `op.${camel(guard)} === null ? ${all(ins)} : ${all(some)}` : all(ins);
  return `    case "${kindName(op)}":\n      return ${views};\n`;
}

function withViewsText(op) {
  const ins = insOf(op).map(({ name }) => `${name}: read(op.${name})`);
  const views = [...ins, `${outOf(op)}: write(op.${outOf(op)})`].join(", ");
  return `    case "${kindName(op)}":\n      return { ...op, ${views} };\n`;
}

function writtenText(ops) {
  const others = ops.filter((op) => outOf(op) !== "out");
  const tests = others.map((op) => {
    return `  if (op.kind === "${kindName(op)}") return op.${outOf(op)};\n`;
  });
  return `${tests.join("")}  return op.out;\n`;
}

export function types(description) {
  const ops = known(description);
  const numbers = description.constants.map(({ name, value, about }) => {
    const [first, ...rest] = camel(name);
    return `${comment(about)}export const k${first.toUpperCase()}${rest.join("")} = ${value};\n`;
  });
  const lasts = description.enums.map((one) => `  ${one.name}: ${one.values.length - 1},\n`);
  return `${kHead}import type { Rope, SumGrid, View, WeightView } from "${kProgram}/views.ts";

${numbers.join("")}
${description.enums.map(enumText).join("\n")}
// The greatest number of each.
export const kLastOf = {\n${lasts.join("")}} as const;

${ops.map(interfaceText).join("\n")}
export type Op =\n${ops.map(({ name }) => `  | ${name}`).join("\n")};

// The views that an operation reads.
export function readsOf(op: Op): readonly View[] {
  switch (op.kind) {
${ops.map(readsText).join("")}  }
}

// The operation with other views in their places.
export function withViews(op: Op, read: (view: View) => View, write: (view: View) => View): Op {
  switch (op.kind) {
${ops.map(withViewsText).join("")}  }
}

// The view that an operation writes.
export function writtenBy(op: Op): View {
${writtenText(ops)}}
`;
}

// ---- codec

function taken(field) {
  const { type, message, read: when } = field;
  const from = `value.${camel(message)}`;
  if (type.startsWith("view")) return `viewOf(${from})`;
  if (type === "weight rows") return `weightViewOf(${from})`;
  if (type === "rope?") return `ropeOf(${from})`;
  if (type === "grid") return `{ step: ${from}Step, limit: ${from}Limit }`;
  if (type.endsWith("?")) return `${from} ?? null`;
  if (!when) return from;
  return `value.${when.replace(/^\w+/, camel)} ? ${from} : ${field.default ?? 0}`;
}

const unsupported = (why) => `throw new EngineError("unsupported", ${JSON.stringify(why)});`;

function refusals({ fields }) {
  return fields.filter(({ browser }) => browser).map(({ message, type, browser }) => {
    const name = camel(type === "grid" ? `${message}_step` : message);
    return `  if (value.${name} !== 0) ${unsupported(browser)}\n`;
  });
}

function takeText(op) {
  const { name, fields } = op;
  const lines = held({ fields }).map((field) => `    ${nameOf(field)}: ${taken(field)},\n`);
  return `
function take${name}(value: Pb.${name}): Op {
${refusals(op).join("")}  return {
    kind: "${kindName(op)}",
${lines.join("")}  };
}
`;
}

function caseText({ name, message, browser }) {
  const then = browser === undefined
    ? `return take${name}(kind.value);`
    : unsupported(browser);
  return `    case "${camel(message)}":\n      ${then}\n`;
}

// Of a file that is made, too, and so not beside this one.
const beside = (names, file) => `import ${names} from "./${file}";`;

export function codec(description) {
  const { ops } = description;
  return `${kHead}import { EngineError } from "../../src/base/error.ts";
import { ropeOf, viewOf, weightViewOf } from "${kProgram}/pieces.ts";
${beside("type * as Pb", "ops_pb.ts")}
${beside("type { Op }", "ops.ts")}
${known(description).map(takeText).join("")}
// Throws EngineError: unsupported where only other engines have the operation, invalid_data where
// it is of no kind that is known.
export function takeOp({ kind }: Pb.Op): Op {
  switch (kind.case) {
${ops.map(caseText).join("")}    case undefined:
      throw new EngineError("invalid_data", "The program has an operation that is not known.");
  }
}
`;
}

// ---- rules

function argument(verb, word, place, op, enums) {
  const field = op.fields.find(({ name }) => name === word);
  const access = (text) => text.replace(/^(\d+)\*/, "").replace(/^\w+/, camel);
  const value = `${word.match(/^\d+\*/)?.[0].replace("*", " * ") ?? ""}op.${access(word)}`;
  switch (kindOf(verb, place)) {
    case "N": return value;
    case "D": return word.startsWith("*") ? `"${word.slice(1)}"` : value;
    case "E": {
      const { called } = enums.find(({ name }) => name === field.type);
      return `"${called}", op.${nameOf(field)}, kLastOf.${field.type}`;
    }
    default: return `"${word}", op.${nameOf(field)}`;
  }
}

function ruleLine(op, { verb, words }, enums) {
  const method = `check.${camel(verb)}`;
  if (verb === "own") return `kOwnRules.${kindName(op)}(check, op);`;
  const given = words.map((word, i) => argument(verb, word, i, op, enums));
  if (verb === "elementwise" || verb === "apart") {
    return `${method}([${given.map((view) => `[${view}]`).join(", ")}], op.${outOf(op)});`;
  }
  if (verb === "vector" || verb === "shape") {
    return `check.shape(${given[0]}, [${given.slice(1).join(", ")}]);`;
  }
  return `${method}(${given.join(", ")});`;
}

export function rules(description) {
  const cases = known(description).map((op) => {
    const browser = new Set(held(op).map(({ name }) => name));
    const own = op.rules.filter(({ names }) => names.every((name) => browser.has(name)));
    const lines = own.map((rule) => `      ${ruleLine(op, rule, description.enums)}\n`);
    return `    case "${kindName(op)}":\n${lines.join("")}      return;\n`;
  });
  return `${kHead}import type { OpChecker } from "${kProgram}/checker.ts";
import { kOwnRules } from "${kProgram}/ownRules.ts";
${beside("{ kLastOf }", "ops.ts")}
${beside("type { Op }", "ops.ts")}

// Throws EngineError (invalid_data) for the first rule that does not hold.
export function checkOp(check: OpChecker, op: Op): void {
  switch (op.kind) {
${cases.join("")}  }
}
`;
}
