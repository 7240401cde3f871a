// Runs the cases of tests/conformance/membership, whose README.md has the vocabulary: their events
// told to a membership, and what it asks for put into their words. Its counterpart is
// src/worker/rulebook_testing.h.
//
// A tab installs a stage layer by layer and goes on from batch to batch of tokens by itself. The
// table knows a stage and a batch as one piece, so this plays the engine in between.
import { expect } from "vitest";

import type { LayerRange } from "@weft/engine";
import { kProgramVersion } from "@weft/engine/program/ir.ts";
import { kPackageFormat, kProtocolVersion } from "@weft/wire";
import { serverMessageOf } from "@weft/wire/test/orchestrator.ts";

import type { Action, Event, Outcome, Work } from "../membership/events.ts";
import { Membership } from "../membership/membership.ts";
import { frameOf } from "./rulebookFrames.ts";
import { faultOf, numbers, outcomeOf, wordOf } from "./rulebookWords.ts";
import type { Json, JsonObject } from "./rulebookWords.ts";

export interface Step {
  readonly at?: number; // ms
  readonly on: Json;
  readonly do: readonly Json[];
}

export interface Branch {
  readonly name: string;
  readonly steps: readonly Step[];
}

export interface Case {
  readonly name: string;
  readonly why: string;
  readonly options?: {
    readonly makesTokens?: number;
    readonly takesExperts?: boolean;
    readonly canBeHub?: boolean;
    readonly needsOnnx?: boolean;
    readonly stepsInFlight?: number;
  };
  readonly given?: readonly Json[];
  readonly steps: readonly Step[];
  readonly branches?: readonly Branch[];
}

const kInit = {
  layerCount: 6, contextLength: 100, sessionCount: 2, swarmId: "b25l", resumeMs: 60_000,
  pingIntervalMs: 500, batchesTokens: true, packageDigest: "A".repeat(43) + "=",
  protocolVersion: kProtocolVersion, programVersion: kProgramVersion, packageFormat: kPackageFormat,
};

const kPlain: Readonly<Record<string, (now: number) => Event>> = {
  fetched: () => ({ kind: "fetchEnded", fault: null }),
  lost: (now) => ({ kind: "connectionLost", now }),
  again: (now) => ({ kind: "connectedAgain", now }),
  keptLongEnough: (now) => ({ kind: "keptLongEnough", now }),
};

type Generating = Extract<Work, { kind: "makeTokens" }>;

class Player {
  readonly #membership: Membership;
  readonly #options: NonNullable<Case["options"]>;
  readonly #stages = new Map<number, LayerRange>(); // by binding, as they were to be prepared
  readonly #works: Work[] = []; // under way
  #batch: number[] = []; // sequences whose tokens are made
  #pauses = false;
  #words: Json[] = [];
  #now = 0;

  constructor(options: NonNullable<Case["options"]>) {
    this.#options = options;
    this.#membership = new Membership({
      needsOnnx: options.needsOnnx === true, takesExperts: options.takesExperts === true,
      stepsInFlight: options.stepsInFlight ?? 1,
      rowsToServer: false,
      stepsFollow: false,
      note: "", wantsWhole: false, apiKey: "",
    });
  }

  // What it is asked for in answer, in words.
  tell(step: Omit<Step, "do">): Json[] {
    this.#now = step.at ?? this.#now;
    this.#words = [];
    this.#on(step.on);
    return this.#words;
  }

  #on(on: Json): void {
    if (typeof on === "string") {
      if (on === "joined") return this.#on({ joined: {} });
      if (on === "done") return this.#done({});
      return this.#handle(kPlain[on]!(this.#now));
    }
    const [[name, value]] = Object.entries(on as JsonObject) as [[string, JsonObject]];
    switch (name) {
      case "done":
        return this.#done(value);
      case "fails":
        return this.#workDone({ kind: "failed", fault: faultOf(value) });
      case "init":
        return this.#on({ server: { init: { ...kInit, ...value } } });
      case "server": {
        const stage = value["prepareStage"] as { binding: number; layers: Partial<LayerRange> };
        if (stage) this.#stages.set(stage.binding, { first: 0, end: 0, ...stage.layers });
        return this.#receive(serverMessageOf(value));
      }
      case "joined": {
        const { makesTokens = 0 } = this.#options;
        const { layers = 6, cachedLayers = [] } = value as {
          layers?: number; cachedLayers?: number[];
        };
        const connect = { case: "connect", value: { makesTokens, cachedLayers } } as const;
        const layerBytes = Array.from({ length: layers }, () => 10);
        return this.#handle({ kind: "joined", as: { connect, layerBytes } });
      }
      case "joinFails": {
        const kind = value as unknown as "retry" | "refused";
        return this.#handle({ kind: "joined", as: { kind, message: "No." } });
      }
      case "fetchFails":
        return this.#handle({ kind: "fetchEnded", fault: faultOf(value) });
      case "fetchProgressed": {
        const [doneBytes, totalBytes] = value as unknown as [number, number];
        return this.#handle({ kind: "fetchProgressed", doneBytes, totalBytes });
      }
      case "layerFetched":
        return this.#handle({ kind: "layerFetched", ...value } as unknown as Event);
      case "wish":
        return this.#handle({ kind: "wholeWished", isWanted: Boolean(value), apiKey: "" });
      case "leave": {
        const isDraining = value["draining"] === true;
        return this.#handle({ kind: "leaveAsked", reason: "stopped", isDraining });
      }
      default:
        return this.#receive(frameOf(name, value));
    }
  }

  #receive(message: Uint8Array): void {
    this.#handle({ kind: "messageReceived", message, arrival: this.#now });
  }

  #handle(event: Event): void {
    for (const action of this.#membership.handle(event)) this.#carry(action);
  }

  #workDone(outcome: Outcome): void {
    this.#works.shift();
    this.#handle({ kind: "workDone", outcome });
  }

  #done(details: JsonObject): void {
    const work = this.#works[0]!;
    if (work.kind === "makeTokens") return this.#madeBatch(details["tokens"] as JsonObject[]);
    this.#workDone(outcomeOf(work, details));
    if (work.kind !== "installLayers" || work.isLast) return;
    const [next] = this.#works; // the next layer of the stage
    if (next?.kind === "installLayers" && next.binding === work.binding) return this.#done(details);
    expect(next, "other work comes between a stage's layers: give it one").toBeUndefined();
  }

  #madeBatch(of: readonly JsonObject[]): void {
    for (const each of of) {
      const sequence = each["sequence"] as number;
      const { tokens = [], last = false } = each as { tokens?: number[]; last?: boolean };
      const isOver = last || "fails" in each;
      this.#handle("fails" in each
        ? { kind: "tokensFailed", sequence, fault: faultOf(each["fails"]) }
        : { kind: "tokensMade", sequence, tokens, computeMs: 0, isLast: last });
      if (isOver) this.#batch = this.#batch.filter((it) => it !== sequence);
    }
    if (this.#pauses || this.#batch.length === 0) return this.#workDone({ kind: "paused" });
    this.#words.push({ makeTokens: numbers(this.#batch) });
  }

  #carry(action: Action): void {
    switch (action.kind) {
      case "compute":
        return this.#compute(action.work);
      case "joinTokens":
        this.#batch.push(action.frame.sequence);
        return;
      case "stopTokens":
        this.#batch = this.#batch.filter((it) => it !== action.sequence);
        return;
      case "pauseTokens":
        this.#pauses = true;
        return;
      default: {
        const word = wordOf(action);
        if (word !== null) this.#words.push(word);
      }
    }
  }

  #compute(work: Work): void {
    this.#works.push(work);
    const most = work.kind === "runStep" ? (this.#options.stepsInFlight ?? 1) : 1;
    expect(this.#works.length, "pieces of work under way").toBeLessThanOrEqual(most);
    if (work.kind === "installLayers") return this.#install(work);
    if (work.kind === "makeTokens") this.#begin(work);
    const word = wordOf({ kind: "compute", work });
    if (word !== null) this.#words.push(word);
  }

  #begin({ frames }: Generating): void {
    this.#pauses = false;
    this.#batch = frames.map(({ sequence }) => sequence);
  }

  // Told of a stage's first layer, as the whole of it.
  #install({ binding, layers, isLast }: Extract<Work, { kind: "installLayers" }>): void {
    const { first, end } = this.#stages.get(binding)!;
    expect(isLast, "the last layer says so").toBe(layers.end === end);
    if (layers.first === first) {
      this.#words.push({ install: { binding, layers: [first, end] } });
    }
  }
}

function givenSteps(given: Json): Json[] {
  if (given === "member") return [{ init: {} }, "joined"];
  const { binding, experts } = given as {
    binding?: { id: number; stage?: number; hub?: boolean; layers: [number, number] };
    experts?: { binding: number; sets: number[][] };
  };
  if (!binding) return [{ holdExperts: experts! }, "fetched", "done"];
  const { id, stage = 0, hub: isHub = false, layers: [first, end] } = binding;
  return [
    { server: { prepareStage: { binding: id, stage, isHub, layers: { first, end } } } },
    "fetched", "done",
  ];
}

function isHubs(on: Json): boolean {
  return /"(expertHolders|isHub":true)/.test(JSON.stringify(on));
}

// A violation is what this side takes up again after a while, like a busy server.
function plain(word: Json): Json {
  if (typeof word !== "object" || word === null || Array.isArray(word)) return word;
  const own = { ...word };
  if (own["finish"] === "violation") own["finish"] = "retry";
  const says = own["says"];
  if (says !== undefined) own["says"] = expect.stringContaining(says as string) as Json;
  return own;
}

// Leaves out the sentence of an ending where the case says nothing of it.
function without(word: Json, expected: Json | undefined): Json {
  if (typeof word !== "object" || word === null || !("says" in word)) return word;
  const isSaid = typeof expected === "object" && expected !== null && "says" in expected;
  if (isSaid) return word;
  const others = { ...word };
  delete others["says"];
  return others;
}

function runSteps(player: Player, steps: readonly Step[]): void {
  for (const [index, step] of steps.entries()) {
    const words = player.tell(step);
    expect(
      words.map((word, i) => without(word, step.do[i])),
      `step ${index + 1}: ${JSON.stringify(step.on)}`,
    ).toEqual(step.do.map(plain));
  }
}

// A tab is never a hub: the first message that makes it one ends the connection.
function runAsNoHub({ options = {}, given = [], steps }: Case): void {
  const player = new Player(options);
  for (const on of [...given.flatMap(givenSteps), ...steps.map((step) => step.on)]) {
    const words = player.tell({ on });
    if (!isHubs(on)) continue;
    expect(words).toMatchObject([{ finish: "retry" }]);
    return;
  }
  expect.fail("nothing in this case is for a hub");
}

export function runCase(each: Case): void {
  const { options = {}, given = [], steps, branches = [{ name: "", steps: [] }] } = each;
  if (options.canBeHub === true) return runAsNoHub(each);
  for (const branch of branches) {
    const player = new Player(options);
    for (const on of given.flatMap(givenSteps)) player.tell({ on });
    runSteps(player, [...steps, ...branch.steps]);
  }
}
