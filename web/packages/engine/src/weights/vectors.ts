// Weights that kernels read as f32 values (norm weights, biases, sinks): all of a layer in one
// buffer. Rotary frequencies are read on the CPU instead (run/ropes.ts).
import { EngineError } from "../base/error.ts";
import { f16ToF32, bf16ToF32 } from "../base/half.ts";
import { DType, isBlockFormat } from "../program/ir.ts";
import type { Program, Weight } from "../program/ir.ts";
import type { WeightSource } from "../stage/stageEngine.ts";
import { WeightArray } from "./arrays.ts";

export interface Vectors {
  readonly values: Float32Array<ArrayBuffer>;
  readonly firstOf: ReadonlyMap<number, number>; // weight -> first value
}

// The weights of a program that operations read as vectors.
function vectorWeights(program: Program): number[] {
  const ids = new Set<number>();
  const add = (id: number | null): void => void (id !== null && ids.add(id));
  for (const op of program.ops) {
    switch (op.kind) {
      case "rmsNorm":
        add(op.weight);
        break;
      case "layerNorm":
        add(op.weight);
        add(op.bias);
        break;
      case "matmul":
        add(op.bias);
        break;
      case "qkNormRope":
        add(op.normWeight);
        break;
      case "attention":
        add(op.sinks);
        break;
      case "moeRoute":
        add(op.bias);
        break;
      case "causalConv":
        add(op.weight);
        add(op.bias);
        break;
      case "ssmScan":
        add(op.skip);
        add(op.decay);
        add(op.dtBias);
        break;
      case "deltaRule":
        add(op.decay);
        add(op.dtBias);
        break;
      case "moeExperts":
        add(op.gateUpBias);
        add(op.downBias);
        break;
      default:
        break;
    }
  }
  return [...ids];
}

export async function readValues(
  weight: Weight,
  source: WeightSource,
): Promise<Float32Array<ArrayBuffer>> {
  if (isBlockFormat(weight.dtype)) {
    throw new EngineError(
      "unsupported",
      `Weight '${weight.name}' is used as a vector, but is stored in blocks.`,
    );
  }
  const count = weight.shape.reduce((product, dim) => product * dim, 1);
  const byteCount = count * (weight.dtype === DType.f32 ? 4 : 2);
  const bytes = await new WeightArray(source, weight.data).read(0, byteCount);
  if (weight.dtype === DType.f32) return new Float32Array(bytes.buffer);
  const values = new Float32Array(count);
  const halves = new Uint16Array(bytes.buffer);
  if (weight.dtype === DType.f16) f16ToF32(halves, values);
  else bf16ToF32(halves, values);
  return values;
}

export async function readVectors(program: Program, source: WeightSource): Promise<Vectors> {
  const firstOf = new Map<number, number>();
  const parts: Float32Array[] = [];
  let length = 0;
  for (const id of vectorWeights(program)) {
    const values = await readValues(program.weights[id]!, source);
    firstOf.set(id, length);
    parts.push(values);
    length += values.length;
  }
  const values = new Float32Array(Math.max(4, length));
  let at = 0;
  for (const part of parts) {
    values.set(part, at);
    at += part.length;
  }
  return { values, firstOf };
}
