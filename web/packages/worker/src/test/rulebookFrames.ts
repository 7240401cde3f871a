// Messages of a server that are no control messages, and shard messages, from the words of
// tests/conformance/membership.
import {
  DType, ExpertFrameType, FrameType, OutputKind, RowType, WholeModel, encodeFork, encodeFrame,
  encodeWholeFrame, encodeShardMessage, kAnyExpert, kBatchBit,
} from "@weft/wire";
import type { ExpertFrame, GenerateFrame } from "@weft/wire";
import { serverMessageOf } from "@weft/wire/test/orchestrator.ts";

import type { JsonObject } from "./rulebookWords.ts";

interface StepWords {
  readonly sequence: number;
  readonly binding: number;
  readonly stage?: number;
  readonly runs?: readonly (readonly [session: number, firstPosition: number])[];
}

function stepFrame({ sequence, binding, stage = 0, runs = [[1, 0]] }: StepWords): Uint8Array {
  const rows = runs.map(([session, firstPosition]) => ({
    session, generation: 0, firstPosition, count: 1, output: OutputKind.none, candidateCount: 0,
  }));
  const header = {
    type: FrameType.step, sequence, binding, stage, rows: rows.length, columns: 1,
    dtype: DType.i32, queueUs: 0, computeUs: 0,
  };
  return encodeFrame(header, rows, new Uint8Array(4 * rows.length));
}

function generateFrame(words: Partial<GenerateFrame>): Uint8Array {
  return encodeWholeFrame({
    kind: "generate", sequence: 1, binding: 1, session: 1, generation: 0, position: 3, token: 3,
    count: 8, interval: 2, temperature: 0, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1,
    presencePenalty: 0, frequencyPenalty: 0, seed: 0n, stopTokens: [], biases: [], seen: [],
    ...words,
  });
}

interface ExpertWords {
  readonly sequence?: number;
  readonly otherBatch?: boolean;
  readonly layer: number;
  readonly experts: readonly number[] | "any";
  readonly tokens?: number;
  readonly hidden?: number;
}

// One for each expert, all of the same rows.
function expertFrames(type: ExpertFrameType, words: ExpertWords): ExpertFrame[] {
  const { sequence: plain = 1, otherBatch = false, layer, experts } = words;
  const sequence = otherBatch ? (plain | kBatchBit) >>> 0 : plain;
  const isCancel = type === ExpertFrameType.cancel;
  const { tokens = 1, hidden = 1 } = isCancel ? { tokens: 0, hidden: 0 } : words;
  const rows = new Uint8Array(4 * tokens * hidden);
  return (experts === "any" ? [kAnyExpert] : experts).map((expert, index) => ({
    type, sequence, layer, expert, tokens, hidden, rows,
    sameRows: index > 0 && !isCancel, failed: false, maySum: false, best: false,
    takesSteps: false, added: [],
    rowType: RowType.f32, body: new Uint8Array(0),
  }));
}

function shardMessage(peer: number, frames: readonly JsonObject[]): Uint8Array {
  return encodeShardMessage(peer, frames.flatMap((frame) => {
    const [[name, words]] = Object.entries(frame) as [[keyof typeof ExpertFrameType, never]];
    return expertFrames(ExpertFrameType[name], words);
  }));
}

// [[1, 0, 9]] as bits: experts 0 and 9 of layer 1.
export function setsOf(sets: readonly (readonly number[])[]): JsonObject[] {
  return sets.map(([layer, ...experts]) => {
    const bits = new Uint8Array((Math.max(...experts) >> 3) + 1);
    for (const expert of experts) bits[expert >> 3]! |= 1 << (expert & 7);
    return { layer: layer!, experts: Buffer.from(bits).toString("base64") };
  });
}

export function frameOf(name: string, value: JsonObject): Uint8Array {
  switch (name) {
    case "bytes":
      return Uint8Array.from(Buffer.from(value as unknown as string, "hex"));
    case "step":
      return stepFrame(value as unknown as StepWords);
    case "generate":
      return generateFrame(value);
    case "stop":
      return encodeWholeFrame({ kind: "stop", ...value } as never);
    case "wholeModel": {
      const state = WholeModel[value as unknown as keyof typeof WholeModel];
      return encodeWholeFrame({ kind: "wholeModel", state, message: "" });
    }
    case "runHere":
      return encodeWholeFrame({ kind: "runHere", isWanted: true, apiKey: "" });
    case "fork": {
      const { to, positions, ...rest } = value;
      const fork = { stage: 0, generation: 1, session: to, positionCount: positions, ...rest };
      return encodeFork(fork as never);
    }
    case "holdExperts": {
      const { binding, sets } = value as { binding: number; sets: number[][] };
      return serverMessageOf({ holdExperts: { binding, sets: setsOf(sets) } });
    }
    case "shards": {
      const { peer, frames } = value as { peer: number; frames: JsonObject[] };
      return shardMessage(peer, frames);
    }
    default:
      throw new Error(`No event is called ${name}.`);
  }
}
