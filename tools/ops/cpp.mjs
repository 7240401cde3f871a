// C++ of the operations that src/program/ops.json describes: `structs` is the text of ops.gen.h,
// `codec` that of op_codec.gen.h, `visits` that of op_visits.gen.h, `rules` that of op_rules.gen.h.
import { insOf, outOf } from "./description.mjs";
import { comment, declared, pascal } from "./names.mjs";
import { kindOf, mayBeAbsent } from "./rules.mjs";

const kHead = "// Made by tools/ops from src/program/ops.json.\n#pragma once\n\n";
const kTypes = {
  "view in": "View",
  "view out": "View",
  weight: "WeightId",
  "weight?": "std::optional<WeightId>",
  "weight rows": "WeightView",
  u32: "uint32_t",
  "u32?": "std::optional<uint32_t>",
  f32: "float",
  bool: "bool",
  "rope?": "std::optional<Rope>",
  grid: "SumGrid",
};

// ---- structs

function valueOf({ type, isEnum, default: value }, enums) {
  if (isEnum) {
    const { values } = enums.find(({ name }) => name === type);
    return ` = ${type}::k${pascal(value ?? values[0].name)}`;
  }
  if (type === "bool") return " = false";
  return ["u32", "f32", "weight"].includes(type) ? ` = ${value ?? 0}` : "";
}

export function structs({ constants, enums, ops }) {
  const numbers = constants.map(({ name, value, about }) => {
    return `${comment(about)}inline constexpr uint32_t k${pascal(name)} = ${value};\n`;
  });
  const kinds = enums.map(({ name, about, values }) => {
    const lines = values.map(({ name: one, about: said }, i) => {
      return declared(`  k${pascal(one)} = ${i},`, said);
    });
    return `${comment(about)}enum class ${name} : uint32_t {\n${lines.join("")}};
inline constexpr ${name} kLast${name} = ${name}::k${pascal(values.at(-1).name)};\n`;
  });
  const types = ops.map(({ name, about, fields }) => {
    const lines = fields.map((field) => {
      const { name: member, type, isEnum, about: said } = field;
      const text = `  ${isEnum ? type : kTypes[type]} ${member}${valueOf(field, enums)};`;
      return declared(text, said);
    });
    return `${comment(about)}struct ${name} {\n${lines.join("")}};\n`;
  });
  return `${kHead}#include <cstdint>
#include <optional>
#include <variant>

#include "program/views.h"

namespace weft::program {

${numbers.join("")}
${kinds.join("\n")}
${types.join("\n")}
using Op = std::variant<${ops.map(({ name }) => name).join(", ")}>;

}  // namespace weft::program
`;
}

// ---- codec

const kMessages = new Set(["view in", "view out", "weight rows"]);

function written({ name, type, message, isEnum, written: when }) {
  const set = (value) => `o->set_${message}(${value});`;
  const guard = when ? `if (op.${when}) ` : "";
  if (kMessages.has(type)) return `Put(op.${name}, o->mutable_${message}());`;
  if (type === "rope?") return `if (op.${name}) Put(*op.${name}, o->mutable_${message}());`;
  if (type === "grid") {
    return `o->set_${message}_step(op.${name}.step);\n  o->set_${message}_limit(op.${name}.limit);`;
  }
  if (type.endsWith("?")) return `if (op.${name}) ${set(`*op.${name}`)}`;
  return guard + set(isEnum ? `static_cast<uint32_t>(op.${name})` : `op.${name}`);
}

function read({ name, type, message, isEnum, read: when }) {
  const value = `in.${message}()`;
  if (kMessages.has(type)) return `op.${name} = Take(${value});`;
  if (type === "rope?") return `if (in.has_${message}()) op.${name} = Take(${value});`;
  if (type === "grid") return `op.${name} = {in.${message}_step(), in.${message}_limit()};`;
  if (type.endsWith("?")) return `if (in.has_${message}()) op.${name} = ${value};`;
  const guard = when ? `if (in.${when.replace(" ", "() ")}) ` : "";
  return guard + `op.${name} = ${isEnum ? `static_cast<${type}>(${value})` : value};`;
}

export function codec({ ops }) {
  const one = ({ name, message, fields }) => `
inline void PutOp(const ${name}& op, pb::Op* out) {
  auto* o = out->mutable_${message}();
  ${fields.map(written).join("\n  ")}
}
inline ${name} TakeOp(const pb::${name}& in) {
  ${name} op;
  ${fields.map(read).join("\n  ")}
  return op;
}
`;
  const cases = ops.map(({ message }) => {
    return `    case pb::Op::k${pascal(message)}: return TakeOp(in.${message}());`;
  });
  return `${kHead}#include "program/pieces.h"

namespace weft::program {
${ops.map(one).join("")}
// Gives nullopt for an operation of no kind that is known.
inline std::optional<Op> TakeAnyOp(const pb::Op& in) {
  switch (in.kind_case()) {
${cases.join("\n")}
    case pb::Op::KIND_NOT_SET: break;
  }
  return std::nullopt;
}

}  // namespace weft::program
`;
}

// ---- walks

function visitsOfViews(op) {
  const ins = insOf(op).map(({ name, unless }) => {
    return `${unless ? `if (!op.${unless}) ` : ""}visit(op.${name}, false);`;
  });
  return [...ins, `visit(op.${outOf(op)}, true);`];
}

function visitsOfWeights({ fields }) {
  return fields.flatMap(({ name, type }) => {
    if (type === "weight") return [`visit(op.${name});`];
    if (type === "weight?") return [`if (op.${name}) visit(*op.${name});`];
    if (type === "weight rows") return [`visit(op.${name}.weight);`];
    return type === "rope?" ? [`if (op.${name}) visit(op.${name}->inv_freq);`] : [];
  });
}

export function visits({ ops }) {
  const one = (kind, lines) => (op) => `
template <typename Operation, typename Visit>
  requires std::is_same_v<std::remove_const_t<Operation>, ${op.name}>
void Visit${kind}Of([[maybe_unused]] Operation& op, [[maybe_unused]] const Visit& visit) {
  ${lines(op).join("\n  ")}
}
`;
  const each = (name, value) => ops.map((op) => `constexpr ${name}(const ${op.name}&) {
  return ${value(op)};
}`).join("\n");
  return `${kHead}#include <string_view>
#include <type_traits>

#include "program/ops.gen.h"

namespace weft::program {
${ops.map(one("Views", visitsOfViews)).join("")}${ops.map(one("Weights", visitsOfWeights)).join("")}
${each("bool MayWriteInPlaceOf", (op) => Boolean(op.in_place))}
${each("std::string_view OpNameOf", (op) => `"${op.name}"`)}

}  // namespace weft::program
`;
}

// ---- rules

const quoted = (text) => `"${text}"`;
const value = (word) => word.includes("*") ? word.replace("*", " * op.") : `op.${word}`;

// A word of a rule as arguments of the checker's method.
function argument(verb, word, place, { fields, enums }) {
  switch (kindOf(verb, place)) {
    case "V":
    case "C":
    case "F": return `${quoted(word)}, op.${word}`;
    case "N": return value(word);
    case "D": return `Dim(${word.startsWith("*") ? quoted(word.slice(1)) : value(word)})`;
    case "E": {
      const { type } = fields.find(({ name }) => name === word);
      const { called } = enums.find(({ name }) => name === type);
      return `${quoted(called)}, op.${word}, kLast${type}`;
    }
    default: {
      const { type } = fields.find(({ name }) => name === word);
      return `${quoted(word)}, ${type.endsWith("?") ? "*" : ""}op.${word}`;
    }
  }
}

function ruleLine(op, rule, enums) {
  const { verb, words } = rule;
  const method = `check.${pascal(verb)}`;
  if (verb === "own") return "TRY(check.Own(op));";
  const given = words.map((word, i) => argument(verb, word, i, { fields: op.fields, enums }));
  if (verb === "elementwise" || verb === "apart") {
    return `TRY(${method}({${given.map((view) => `{${view}}`).join(", ")}}, op.${outOf(op)}));`;
  }
  const text = verb === "shape" || verb === "vector"
    ? `TRY(check.Shape(${given[0]}, {${given.slice(1).join(", ")}}));`
    : `TRY(${method}(${given.join(", ")}));`;
  return mayBeAbsent(rule, op.fields) ? `if (op.${words[0]}) ${text}` : text;
}

export function rules({ enums, ops }) {
  const one = (op) => `
inline Status CheckOp(OpChecker& check, const ${op.name}& op) {
  ${op.rules.map((rule) => ruleLine(op, rule, enums)).join("\n  ")}
  return OkStatus();
}
`;
  return `${kHead}#include "program/op_checker.h"

namespace weft::program {
${ops.map(one).join("")}
}  // namespace weft::program
`;
}
