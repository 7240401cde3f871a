// Bytes of program.proto to a Program that passed validate(). Throws EngineError (invalid_data, or
// unsupported for another version).
import { fromBinary } from "@bufbuild/protobuf";

import { takeOp } from "../../gen/program/opCodec.ts";
import { ProgramSchema } from "../../gen/program/program_pb.ts";
import type * as Pb from "../../gen/program/program_pb.ts";
import { EngineError } from "../base/error.ts";
import { kOldestProgramVersion, kProgramVersion } from "./ir.ts";
import type { Part, Program, Weight } from "./ir.ts";
import { validate } from "./validate.ts";

export function decodeProgram(bytes: Uint8Array): Program {
  let message: Pb.Program;
  try {
    message = fromBinary(ProgramSchema, bytes);
  } catch {
    throw new EngineError("invalid_data", "The program is not valid protobuf.");
  }
  const { version } = message;
  if (version < kOldestProgramVersion || version > kProgramVersion) {
    throw new EngineError(
      "unsupported",
      `The program has version ${version}, this worker reads versions ` +
        `${kOldestProgramVersion} to ${kProgramVersion}: reload the page, update weft on this ` +
        `device, or convert the model again.`,
    );
  }
  const program: Program = {
    layerIndex: message.layerIndex,
    buffers: message.buffers.map(({ name, columns }) => ({ name, columns })),
    weights: message.weights.map(weightOf),
    ops: message.ops.map(takeOp),
    input: message.input ?? null,
    output: message.output,
  };
  validate(program);
  return program;
}

// Exact below 2^53; anything above fails every range check that follows.
function wide(value: bigint): number {
  return Number(value);
}

function hex(bytes: Uint8Array): string {
  if (bytes.length !== 32) {
    throw new EngineError(
      "invalid_data",
      `A digest in the program has ${bytes.length} bytes; expected 32.`,
    );
  }
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function partOf(part: Pb.Part): Part {
  return {
    digest: hex(part.digest),
    offset: wide(part.offset),
    byteCount: wide(part.byteCount),
  };
}

function weightOf(weight: Pb.Weight): Weight {
  return {
    name: weight.name,
    dtype: weight.dtype,
    shape: weight.shape.map(wide),
    data: weight.data.map(partOf),
    scale: weight.scale.map(partOf),
    zero: weight.zero.map(partOf),
  };
}
