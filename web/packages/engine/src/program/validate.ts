// What a program must satisfy before an engine may run it without further checks: the same rules as
// src/program/validate.cc. Weights: validateWeight.ts. Operations: checker.ts and ownRules.ts.
import { checkOp } from "../../gen/program/opRules.ts";
import { EngineError } from "../base/error.ts";
import { OpChecker } from "./checker.ts";
import { overlap, same, writtenBy } from "./ir.ts";
import type { Program } from "./ir.ts";
import { checkWeight, invalid } from "./validateWeight.ts";

const kMaxColumns = 1 << 24;
const kMaxItems = 1 << 16;

// Throws EngineError (invalid_data) naming layer and operation.
export function validate(program: Program): void {
  try {
    validateUnnamed(program);
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    throw new EngineError(
      error.code,
      `The program of layer ${program.layerIndex} is not valid: ${error.message}`,
    );
  }
}

function validateUnnamed(program: Program): void {
  checkCounts(program);
  for (const weight of program.weights) checkWeight(weight);
  const checker = new OpChecker(program);
  for (const [index, op] of program.ops.entries()) {
    try {
      checkOp(checker, op);
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      throw invalid(`operation ${index} (${op.kind}): ${error.message}`);
    }
  }
  if (program.input === null && program.ops[0]?.kind !== "embed") {
    throw invalid("without an input buffer it must begin with embed.");
  }
  checker.wholeBuffer(program.output);
  checkRoutes(program);
}

function checkCounts(program: Program): void {
  if (program.ops.length === 0) throw invalid("it has no operations.");
  if (program.layerIndex > kMaxItems) {
    throw invalid(`its layer index is ${program.layerIndex}; at most ${kMaxItems}.`);
  }
  for (const { length } of [program.ops, program.buffers, program.weights]) {
    if (length <= kMaxItems) continue;
    throw invalid(`it has ${length} operations, buffers or weights; at most ${kMaxItems}.`);
  }
  for (const { name, columns } of program.buffers) {
    if (columns >= 1 && columns <= kMaxColumns) continue;
    throw invalid(`buffer '${name.slice(0, 200)}' has ${columns} columns.`);
  }
  for (const id of [program.input, program.output]) {
    if (id === null || id < program.buffers.length) continue;
    throw invalid(`its input or output is buffer ${id}; it has ${program.buffers.length}.`);
  }
}

// Expert indices are read from a buffer, so they must be what a MoeRoute over the same experts
// wrote there: nothing else may have touched them.
function checkRoutes(program: Program): void {
  for (const [index, op] of program.ops.entries()) {
    if (op.kind !== "moeExperts") continue;
    const writer = program.ops
      .slice(0, index)
      .findLast((earlier) => overlap(writtenBy(earlier), op.route));
    const fits =
      writer?.kind === "moeRoute" &&
      same(writer.out, op.route) &&
      writer.topK * writer.parts === op.topK &&
      writer.experts * writer.parts === op.experts;
    if (fits) continue;
    throw invalid(
      `operation ${index} (moeExperts) takes its route from columns that no moeRoute over the ` +
        `same experts wrote.`,
    );
  }
}
