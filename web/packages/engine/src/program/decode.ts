// Bytes of program.proto to a Program that passed validate(). Throws EngineError (invalid_data, or
// unsupported for another version).
import { fromBinary } from "@bufbuild/protobuf";

import { ProgramSchema } from "../../gen/program_pb.ts";
import type * as Pb from "../../gen/program_pb.ts";
import { EngineError } from "../base/error.ts";
import { kOldestProgramVersion, kProgramVersion } from "./ir.ts";
import type { Op, Part, Program, Rope, View, Weight, WeightView } from "./ir.ts";
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
    ops: message.ops.map(opOf),
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

// Missing messages are views of no columns: validate() refuses them.
function viewOf(view: Pb.View | undefined): View {
  return {
    buffer: view?.buffer ?? 0,
    firstColumn: view?.firstColumn ?? 0,
    columns: view?.columns ?? 0,
  };
}

function weightViewOf(view: Pb.WeightView | undefined): WeightView {
  return { weight: view?.weight ?? 0, firstRow: view?.firstRow ?? 0, rows: view?.rows ?? 0 };
}

function ropeOf(rope: Pb.Rope | undefined): Rope | null {
  if (!rope) return null;
  return { invFreq: rope.invFreq, scale: rope.scale, interleaved: rope.interleaved };
}

function opOf(message: Pb.Op): Op {
  const { kind } = message;
  switch (kind.case) {
    case "rmsNorm":
    case "layerNorm":
    case "scale":
    case "softcap":
    case "embed":
      return simpleOp(kind);
    case "matmul": {
      const { weight, bias } = kind.value;
      const fields = { weight: weightViewOf(weight), bias: bias ?? null };
      return { kind: "matmul", ...inOut(kind.value), ...fields };
    }
    case "add": {
      const { a, b, out } = kind.value;
      return { kind: "add", a: viewOf(a), b: viewOf(b), out: viewOf(out) };
    }
    case "qkNormRope": {
      const { heads, headColumns, normWeight, epsilon, rope } = kind.value;
      const fields = { heads, headColumns, normWeight: normWeight ?? null, epsilon };
      return { kind: "qkNormRope", ...inOut(kind.value), ...fields, rope: ropeOf(rope) };
    }
    case "attention":
      return attentionOf(kind.value);
    case "gatedActivation": {
      const { gate, up, out, kind: activation } = kind.value;
      const views = { gate: viewOf(gate), up: viewOf(up), out: viewOf(out) };
      return { kind: "gatedActivation", ...views, activation };
    }
    case "moeRoute":
      return routeOf(kind.value);
    case "moeExperts":
      return expertsOf(kind.value);
    case "exchange":
      return { kind: "exchange", ...inOut(kind.value), id: kind.value.id };
    case "slotExchange":
      throw new EngineError(
        "unsupported",
        "The program is a hub's, whose experts are elsewhere: this engine runs no hubs.",
      );
    case "gate": {
      const { gate, kind: gateKind } = kind.value;
      return { kind: "gate", ...inOut(kind.value), gate: viewOf(gate), gateKind };
    }
    case "causalConv": {
      const { weight, bias, silu } = kind.value;
      return { kind: "causalConv", ...inOut(kind.value), weight, bias: bias ?? null, silu };
    }
    case "deltaRule":
      return deltaRuleOf(kind.value);
    case "ssmScan":
      return ssmScanOf(kind.value);
    case undefined:
      throw new EngineError("invalid_data", "The program has an operation that is not known.");
  }
}

function deltaRuleOf(op: Pb.DeltaRule): Op {
  return {
    kind: "deltaRule",
    q: viewOf(op.q),
    k: viewOf(op.k),
    v: viewOf(op.v),
    a: viewOf(op.a),
    b: viewOf(op.b),
    out: viewOf(op.out),
    keyHeads: op.keyHeads,
    valueHeads: op.valueHeads,
    keyColumns: op.keyColumns,
    valueColumns: op.valueColumns,
    decay: op.decay,
    dtBias: op.dtBias,
    groups: op.groups,
  };
}

function ssmScanOf(op: Pb.SsmScan): Op {
  return {
    kind: "ssmScan",
    x: viewOf(op.x),
    b: viewOf(op.b),
    c: viewOf(op.c),
    dt: viewOf(op.dt),
    out: viewOf(op.out),
    heads: op.heads,
    headColumns: op.headColumns,
    groups: op.groups,
    stateColumns: op.stateColumns,
    decay: op.decay,
    dtBias: op.dtBias,
    skip: op.skip,
    dtMin: op.dtMin,
    dtMax: op.dtMax,
  };
}

type InOut = { in?: Pb.View | undefined; out?: Pb.View | undefined };

function inOut(op: InOut): { in: View; out: View } {
  return { in: viewOf(op.in), out: viewOf(op.out) };
}

type SimpleKind = Extract<
  Pb.Op["kind"],
  { case: "rmsNorm" | "layerNorm" | "scale" | "softcap" | "embed" }
>;

function simpleOp(kind: SimpleKind): Op {
  switch (kind.case) {
    case "embed": {
      const { weight, out, scale } = kind.value;
      return { kind: "embed", weight, out: viewOf(out), scale };
    }
    case "rmsNorm": {
      const { weight, epsilon } = kind.value;
      return { kind: "rmsNorm", ...inOut(kind.value), weight, epsilon };
    }
    case "layerNorm": {
      const { weight, bias, epsilon } = kind.value;
      return { kind: "layerNorm", ...inOut(kind.value), weight, bias: bias ?? null, epsilon };
    }
    case "scale":
      return { kind: "scale", ...inOut(kind.value), factor: kind.value.factor };
    case "softcap":
      return { kind: "softcap", ...inOut(kind.value), cap: kind.value.cap };
  }
}

function attentionOf(op: Pb.Attention): Op {
  return {
    kind: "attention",
    q: viewOf(op.q),
    k: viewOf(op.k),
    v: viewOf(op.v),
    out: viewOf(op.out),
    heads: op.heads,
    kvHeads: op.kvHeads,
    headColumns: op.headColumns,
    scale: op.scale,
    window: op.window,
    softcap: op.softcap,
    sinks: op.sinks ?? null,
    valueColumns: op.valueColumns,
    kvLayer: op.kvLayer ?? null,
  };
}

function routeOf(op: Pb.MoeRoute): Op {
  const { experts, topK, kind: route, bias, groups, topGroups, groupBest, scale } = op;
  const isGrouped = groups > 1;
  return {
    kind: "moeRoute",
    logits: viewOf(op.logits),
    out: viewOf(op.out),
    experts,
    topK,
    route,
    bias: bias ?? null,
    groups: isGrouped ? groups : 1,
    topGroups: isGrouped ? topGroups : 1,
    groupBest: isGrouped ? groupBest : 1,
    scale: scale === 0 ? 1 : scale,
  };
}

function expertsOf(op: Pb.MoeExperts): Op {
  if (op.gridStep !== 0)
    throw new EngineError(
      "unsupported",
      "The program rounds what experts add up to a grid: this engine does not.",
    );
  return {
    kind: "moeExperts",
    in: viewOf(op.in),
    route: viewOf(op.route),
    out: viewOf(op.out),
    experts: op.experts,
    topK: op.topK,
    activation: op.kind,
    gateUp: op.gateUp,
    down: op.down,
    gateUpBias: op.gateUpBias ?? null,
    downBias: op.downBias ?? null,
  };
}
