// A membership for tests: events told as messages of the server or by name, and in words what is
// asked for in answer.
import { expect } from "vitest";

import { kProgramVersion } from "@weft/engine/program/ir.ts";
import {
  DType,
  ExpertFrameType,
  FrameType,
  OutputKind,
  decodeWholeFrame,
  decodeShardMessage,
  encodeFrame,
  encodeWholeFrame,
  isShardMessage,
  kPackageFormat,
  kProtocolVersion,
} from "@weft/wire";
import type { ExpertFrame, GenerateFrame, WholeModel } from "@weft/wire";
import { encodeServerMessage } from "@weft/wire/test/orchestrator.ts";
import type { ServerKind } from "@weft/wire/test/orchestrator.ts";

import type { Action, Event, Fault, HeldBinding, Outcome } from "../membership/events.ts";
import { Membership } from "../membership/membership.ts";
import type { MembershipOptions } from "../membership/membership.ts";

const kLayerBytes = [10, 20, 20, 20, 20, 30];
export type Told = Event | ServerKind;
// An event (or a message of the server), and the actions that answer it, in order.
export type Row = readonly [Told, ...string[]];

const kConnect = { case: "connect", value: { name: "A tab", makesTokens: 8 } } as const;
// Init as the server of these tests says it, with a change.
export function init(change: Record<string, unknown> = {}): ServerKind {
  const value = {
    protocolVersion: kProtocolVersion, programVersion: kProgramVersion,
    packageFormat: kPackageFormat, modelName: "m", layerCount: 6, contextLength: 64,
    sessionCount: 2, pingIntervalMs: 500,
    swarmId: new Uint8Array([1]), packageDigest: new Uint8Array(32), resumeMs: 60_000,
    batchesTokens: true, ...change,
  };
  return { case: "init", value };
}
export const kInit = init();
export const kJoined: Event =
  { kind: "joined", as: { connect: kConnect, layerBytes: kLayerBytes } };
export const kFetched: Event = { kind: "fetchEnded", fault: null };
export const kDone: Event = { kind: "workDone", outcome: { kind: "done" } };

export function fault(code: string, message = "No.", isKernelRefused = false): Fault {
  return { code, message, isKernelRefused };
}
export const failed = (what: Fault): Event =>
  ({ kind: "workDone", outcome: { kind: "failed", fault: what } });
export const done = (outcome: Outcome): Event => ({ kind: "workDone", outcome });
export const interrupted: Event = { kind: "fetchEnded", fault: fault("cancelled") };
export const installed = done({ kind: "installed", weightFactor: 1.5, usedBytes: 7 });
export const computed = done({ kind: "computed", message: new Uint8Array([87]) });
export const there = (layer: number): Event =>
  ({ kind: "layerFetched", layer, byteCount: 1, elapsedUs: 1 });

export function prepare(binding: number, first: number, end: number, standby = false): ServerKind {
  return { case: "prepareStage", value: { binding, stage: 0, layers: { first, end }, standby } };
}
export function prepareHub(binding: number, first: number, end: number): ServerKind {
  const layers = { first, end };
  return { case: "prepareStage", value: { binding, stage: 0, layers, isHub: true } };
}
// Keeps these bindings, and layers [first, end).
export const retire = (bindings: number[], first: number, end: number): ServerKind =>
  ({ case: "retire", value: { bindings, keep: [{ first, end }] } });
export const download = (...layers: number[]): ServerKind =>
  ({ case: "downloadLayers", value: { layers } });
export const kPing: ServerKind = { case: "ping", value: { nonce: 4n } };

export function received(message: Uint8Array, arrival = 0): Event {
  return { kind: "messageReceived", message, arrival };
}

export function step(sequence: number, binding: number, sessions = [1], firstPosition = 0): Event {
  const runs = sessions.map((session) => ({
    session, generation: 0, firstPosition, count: 1, output: OutputKind.hidden, candidateCount: 0,
  }));
  const header = {
    type: FrameType.step, sequence, binding, stage: 0, rows: runs.length, columns: 1,
    dtype: DType.i32, queueUs: 0, computeUs: 0,
  };
  return received(encodeFrame(header, runs, new Uint8Array(4 * runs.length)));
}

export function generate(sequence: number, binding: number, session = 1): Event {
  const frame: GenerateFrame = {
    kind: "generate", sequence, binding, session, generation: 0, position: 0, token: 3, count: 8,
    interval: 4, temperature: 0, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1,
    presencePenalty: 0, frequencyPenalty: 0, seed: 0n, stopTokens: [], biases: [], seen: [],
  };
  return received(encodeWholeFrame(frame));
}
// Tokens of one Generate of those under way.
export const told = (sequence: number, tokens: number[], isLast = false): Event =>
  ({ kind: "tokensMade", sequence, tokens, computeMs: 1, isLast });
export const kPaused: Event = { kind: "workDone", outcome: { kind: "paused" } };
export const stop = (sequence: number, binding: number): Event =>
  received(encodeWholeFrame({ kind: "stop", sequence, binding }));
export const wholeModel = (state: WholeModel, message = ""): Event =>
  received(encodeWholeFrame({ kind: "wholeModel", state, message }));

const span = ({ first, end }: { first: number; end: number }): string => `${first}-${end}`;

// " 3: s1 at 7" for binding 3, whose layers hold 7 positions of session 1.
function heldWords(connect: { held?: readonly HeldBinding[] }): string {
  return (connect.held ?? [])
    .map(({ id, sessions, positions }) =>
      ` ${id}:${sessions.map((it, index) => ` s${it} at ${positions[index]}`).join("")}`)
    .join();
}

// " 1:3 1:4" for results (or dispatches) of experts 3 and 4 of layer 1.
function framesText(frames: readonly ExpertFrame[]): string {
  return frames
    .map(({ type, layer, expert, tokens, failed }) => {
      if (type === ExpertFrameType.heartbeat) return " heartbeat";
      if (type === ExpertFrameType.rows) return ` ${tokens} rows of ${layer} in ${expert} slots`;
      if (type === ExpertFrameType.cancel) return ` cancel ${layer}:${expert}`;
      return `${failed ? " failed" : ""} ${layer}:${expert}`;
    })
    .join("");
}

function shardWords(message: Uint8Array): string {
  const { peer, frames } = decodeShardMessage(message);
  return `shards to ${peer}${framesText(frames)}`;
}

const hubWord = ({ isHub }: { isHub: boolean }): string => (isHub ? "hub " : "");

// An action in a few words; "" for what only the page sees.
function words(action: Action): string {
  switch (action.kind) {
    case "sendControl": {
      const { case: name, value } = action.message as { case: string; value: object };
      const numbers = ["sequence", "binding", "layer"].filter((key) => key in value)
        .map((key) => ` ${key} ${String((value as Record<string, unknown>)[key])}`);
      if (name === "connect") return `send connect${heldWords(value)}`;
      const code = "code" in value ? ` ${String(value.code)}` : "";
      return `send ${name}${numbers.join("")}${code}`;
    }
    case "sendFrame": {
      if (action.message.length === 1) return "send result";
      if (isShardMessage(action.message)) return shardWords(action.message);
      const frame = decodeWholeFrame(action.message);
      if (frame.kind !== "tokens") return `send ${frame.kind}`;
      return `send tokens ${frame.sequence} [${frame.tokens.join()}]${frame.isLast ? " last" : ""}`;
    }
    case "fetch": {
      const experts = action.experts.map((set) => `${set.layer}:${set.experts.join("+")}`);
      return `fetch ${hubWord(action)}${[...action.ranges.map(span), ...experts].join()}`;
    }
    case "compute": {
      const { work } = action;
      if (work.kind === "installLayers") {
        return `install ${hubWord(work)}${span(work.layers)} of ${work.binding}`;
      }
      if (work.kind === "keepLayers") {
        const hubs = work.hubs.length > 0 ? `, hubs ${work.hubs.map(span).join()}` : "";
        return `keep ${work.keep.map(span).join()}${hubs}`;
      }
      if (work.kind === "installExperts") return `install experts of ${work.binding}`;
      if (work.kind === "runExperts") {
        return `experts for ${work.hub}:${framesText(work.dispatches)}`;
      }
      if (work.kind === "measureSpeed") return `measure ${work.ranges.map(span).join()}`;
      if (work.kind === "runStep") {
        return `${hubWord(work)}step ${work.frame.header.sequence} over ${span(work.layers)}`;
      }
      if (work.kind === "makeTokens") {
        return `make tokens ${work.frames.map(({ sequence }) => sequence).join()}`;
      }
      if (work.kind === "forkSession") {
        const { from, to, positionCount } = work.fork;
        return `fork ${from} into ${to} at ${positionCount} over ${span(work.layers)}`;
      }
      if (work.kind === "releaseSessions") return `release ${work.sessions.join()}`;
      if (work.kind === "takeStock") {
        return `takeStock of ${work.bindings.map(({ id }) => id).join()}, sessions ` +
          work.sessions.join();
      }
      return work.kind;
    }
    case "joinTokens":
      return `joinTokens ${action.frame.sequence}`;
    case "stopTokens":
      return `stopTokens ${action.sequence}`;
    case "giveRows":
      return `giveRows ${action.rows.join()}`;
    case "finish":
      return `finish ${action.ending.kind}`;
    case "keepFor":
    case "limitSilence":
      return `${action.kind} ${action.ms}`;
    case "show":
      return "";
    default:
      return action.kind;
  }
}

export function tell(membership: Membership, told: Told): Action[] {
  const isEvent = "kind" in told;
  return membership.handle(isEvent ? told : received(encodeServerMessage(told)));
}

export function expectTable(membership: Membership, rows: readonly Row[]): void {
  for (const [index, [told, ...expected]] of rows.entries()) {
    const actions = tell(membership, told).map(words).filter((it) => it !== "");
    expect(actions, `row ${index}`).toEqual(expected);
  }
}

export function made(change: Partial<MembershipOptions> = {}): Membership {
  const none = { needsOnnx: false, takesExperts: false, rowsToServer: false, note: "" };
  const steps = { stepsInFlight: 1, stepsFollow: false };
  return new Membership({ ...none, ...steps, wantsWhole: false, apiKey: "", ...change });
}

export function joined(change: Partial<MembershipOptions> = {}): Membership {
  const membership = made(change);
  tell(membership, kInit);
  tell(membership, kJoined);
  return membership;
}

// Layers [first, end) bound under binding 1, nothing under way.
export function serving(
  first: number,
  end: number,
  change: Partial<MembershipOptions> = {},
): Membership {
  const membership = joined(change);
  tell(membership, prepare(1, first, end));
  tell(membership, kFetched);
  for (let layer = first; layer < end - 1; ++layer) tell(membership, installed);
  expect(tell(membership, installed).map(words)).toContain("send prepared binding 1");
  return membership;
}
