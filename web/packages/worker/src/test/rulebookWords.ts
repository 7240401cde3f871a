// What a membership asks for in the words of tests/conformance/membership, and what its work came
// to from them.
import type { LayerRange } from "@weft/engine";
import {
  ExpertFrameType, decodeWholeFrame, decodeShardMessage, isShardMessage, kPackageFormat,
} from "@weft/wire";
import type { ExpertFrame, LayerExperts } from "@weft/wire";
import { workerJson } from "@weft/wire/test/orchestrator.ts";
import type { JsonValue } from "@weft/wire/test/orchestrator.ts";

import type {
  Action, Fault, HeldBinding, Outcome, Work, WorkerKind,
} from "../membership/events.ts";

export type Json = JsonValue;
export type JsonObject = { [name: string]: Json };

export function faultOf(code: Json): Fault {
  return { code: code as string, message: "It went wrong.", isKernelRefused: false };
}

const pair = ({ first, end }: LayerRange): Json => [first, end];
export const numbers = (some: readonly number[]): number[] => [...some].sort((a, b) => a - b);
const layersOf = (ranges: readonly LayerRange[]): number[] => [...new Set(ranges.flatMap(
  ({ first, end }) => Array.from({ length: end - first }, (_, index) => first + index),
))];
const setWords = (sets: readonly LayerExperts[]): Json =>
  sets.map(({ layer, experts }) => [layer, ...experts]);

// Ranges that touch as one, in order: [[0, 2], [2, 3]] are [[0, 3]].
function joinedRanges(ranges: readonly LayerRange[]): Json {
  const joined: [number, number][] = [];
  for (const layer of numbers(layersOf(ranges))) {
    const last = joined.at(-1);
    if (last?.[1] === layer) last[1] = layer + 1;
    else joined.push([layer, layer + 1]);
  }
  return joined;
}

// "1:0" of a dispatch or a result of expert 0 of layer 1.
function expertWords(frames: readonly ExpertFrame[]): string[] {
  return frames.map((frame) => {
    if (frame.type === ExpertFrameType.heartbeat) {
      const { buffer, byteOffset, byteLength } = frame.body;
      const view = new DataView(buffer, byteOffset, byteLength);
      const [waiting, bytes] = [view.getUint32(0, true), view.getBigUint64(8, true)];
      return `heartbeat: ${waiting} wait, ${bytes.toString()} bytes held`;
    }
    return `${frame.failed ? "failed " : ""}${frame.layer}:${frame.expert}`;
  });
}

// Numbers that protobuf writes as text are numbers; of an error the code counts, not the sentence.
function plainMessage(json: Json): Json {
  if (typeof json === "string") return /^\d+$/.test(json) ? Number(json) : json;
  if (Array.isArray(json)) return json.map(plainMessage);
  if (typeof json !== "object" || json === null) return json;
  return Object.fromEntries(Object.entries(json).map(([name, it]) => [name, plainMessage(it)]));
}

type Held = readonly HeldBinding[];

function connectWords({ value }: Extract<WorkerKind, { case: "connect" }>): Json {
  const { held = [], cachedLayers = [], makesTokens = 0, packageFormat, seenIncarnation } =
    value as {
      held?: Held; cachedLayers?: number[]; makesTokens?: number; packageFormat?: number;
      seenIncarnation?: bigint;
    };
  const words: JsonObject = {};
  for (const { id, sessions, positions } of held) {
    const entries = sessions.map((session, index) => [session, positions[index]!]);
    const of = Object.fromEntries(entries) as Json;
    words["held"] = { ...(words["held"] as JsonObject), [id]: of };
  }
  if (cachedLayers.length > 0) words["cachedLayers"] = cachedLayers;
  if (makesTokens > 0) words["makesTokens"] = makesTokens;
  if (packageFormat !== kPackageFormat) words["packageFormat"] = packageFormat ?? 0;
  if (seenIncarnation) words["seenIncarnation"] = Number(seenIncarnation);
  return { connect: words };
}

function controlWords(message: WorkerKind): Json {
  if (message.case === "connect") return connectWords(message);
  const json = workerJson(message) as JsonObject;
  const [[name, value]] = Object.entries(json) as [[string, JsonObject]];
  if ("code" in value) delete value["message"];
  if (name !== "pong") return { say: plainMessage(json) };
  const { padding } = message.value as { padding?: Uint8Array };
  return { pong: { nonce: Number(value["nonce"] ?? 0), padding: padding?.length ?? 0 } };
}

function frameWords(message: Uint8Array): Json {
  if (message.length === 1) return "result";
  if (isShardMessage(message)) {
    const { peer, frames } = decodeShardMessage(message);
    return { shards: { peer, frames: expertWords(frames) } };
  }
  const frame = decodeWholeFrame(message);
  if (frame.kind === "runHere") return { runHere: frame.isWanted };
  if (frame.kind !== "tokens") return `a frame that workers do not send: ${frame.kind}`;
  const { sequence, tokens, isLast } = frame;
  return { tokens: { sequence, tokens: [...tokens], ...(isLast ? { last: true } : {}) } };
}

function workWords(work: Work): Json {
  switch (work.kind) {
    case "installExperts":
      return { installExperts: setWords(work.sets) };
    case "measureSpeed": {
      const probes = work.probes.map(({ layers, rows }) => ({ layers: pair(layers), rows }));
      const more = probes.length > 0 ? { probes } : {};
      return { measure: { ranges: work.ranges.map(pair), runs: work.runs, ...more } };
    }
    case "runStep": {
      const { sequence } = work.frame.header;
      return { step: { sequence, layers: pair(work.layers) } };
    }
    case "runExperts":
      return { experts: expertWords(work.dispatches) };
    case "makeTokens":
      return { makeTokens: numbers(work.frames.map(({ sequence }) => sequence)) };
    case "forkSession": {
      const { from, to, positionCount } = work.fork;
      return { fork: { from, to, positions: positionCount, layers: pair(work.layers) } };
    }
    case "takeSampling":
      return { sampling: work.sampling.session };
    case "releaseSessions":
      return { release: numbers(work.sessions) };
    case "keepLayers":
      return { keep: joinedRanges(work.keep) };
    case "takeStock": {
      const bindings = work.bindings.map(({ id }) => id);
      return { takeStock: { bindings, sessions: numbers(work.sessions) } };
    }
    default:
      return work.kind;
  }
}

// Null for what only the page sees.
export function wordOf(action: Action): Json | null {
  switch (action.kind) {
    case "sendControl":
      return controlWords(action.message);
    case "sendFrame":
      return frameWords(action.message);
    case "fetch":
      return action.experts.length > 0
        ? { fetchExperts: setWords(action.experts) }
        : { fetch: layersOf(action.ranges) };
    case "compute":
      return workWords(action.work);
    case "finish":
      return { finish: action.ending.kind, says: action.ending.message };
    case "hangUp":
      return { hangUp: action.isLater ? "later" : "soon", says: action.reason };
    case "knowSuccessors":
      return {
        successors: action.successors.map(({ url, fingerprint }) => `${url} ${fingerprint}`.trim()),
      };
    case "keepFor":
      return { keepFor: action.ms };
    case "limitSilence":
      return { limitSilence: action.ms };
    case "show":
    case "wholeEnded":
      return null;
    default:
      return action.kind;
  }
}

// What work comes to that succeeds, with the details that a case gives.
export function outcomeOf(work: Work, details: JsonObject): Outcome {
  switch (work.kind) {
    case "installLayers":
      return { kind: "installed", weightFactor: 1, usedBytes: 100, ...details };
    case "installExperts":
      return { kind: "expertsInstalled", rest: 0, usedBytes: 50 };
    case "measureSpeed": {
      const runUs = (details["runUs"] ?? []) as number[];
      return {
        kind: "measured", timings: work.ranges.map((layers) => ({ layers, runUs })), answers: [],
      };
    }
    case "runStep":
      return { kind: "computed", message: new Uint8Array([87]) };
    case "runExperts": {
      const type = ExpertFrameType.result;
      const results = work.dispatches.map((frame) => ({ ...frame, type, sameRows: false }));
      return { kind: "expertRows", results, computeMs: 1, fault: null };
    }
    case "takeStock": {
      const held = (details["held"] ?? {}) as Record<string, Record<string, number>>;
      const bindings = work.bindings.map((binding) => {
        const of = Object.entries(held[binding.id] ?? {});
        const sessions = of.map(([session]) => Number(session));
        return { ...binding, sessions, positions: of.map(([, positions]) => positions) };
      });
      return { kind: "stock", bindings };
    }
    default:
      return { kind: "done" };
  }
}
