// The messages of operations, ops.proto, from ops.json.
import { comment, declared } from "./names.mjs";

const kMessages = {
  "view in": "View",
  "view out": "View",
  weight: "uint32",
  "weight?": "optional uint32",
  "weight rows": "WeightView",
  u32: "uint32",
  "u32?": "optional uint32",
  f32: "float",
  bool: "bool",
  "rope?": "optional Rope",
};

function fieldLines({ message, type, number, about, isEnum }) {
  if (type === "grid") {
    const step = declared(`  float ${message}_step = ${number};`, about);
    return `${step}  float ${message}_limit = ${number + 1};\n`;
  }
  return declared(`  ${isEnum ? "uint32" : kMessages[type]} ${message} = ${number};`, about);
}

export function proto({ ops }) {
  const messages = ops.map(({ name, about, fields }) => {
    return `${comment(about)}message ${name} {\n${fields.map(fieldLines).join("")}}\n`;
  });
  const kinds = ops.map(({ name, message, number }) => `    ${name} ${message} = ${number};\n`);
  return `// Made by tools/ops from src/program/ops.json.
syntax = "proto3";
package weft.program.pb;

import "program/views.proto";

${messages.join("\n")}
message Op {
  oneof kind {
${kinds.join("")}  }
}
`;
}
