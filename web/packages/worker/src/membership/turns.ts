// What waits in a membership to be computed, in the order of the messages, and words for the wire.
import type { LayerRange } from "@weft/engine";

import type { ConnectKind, Fault, HeldBinding, Outcome, ProbeAnswer, Work } from "./events.ts";

export interface Turn {
  // Gives the work; null where nothing is to be computed after all.
  readonly take: () => Work | null;
  // It leaves less behind: that is done whether there is a connection or not.
  readonly forgets: boolean;
  readonly step?: StepWork; // the work of a step
  // A step, or what it needs before it: it waits for as long as a hub's step waits for rows.
  readonly isOfSteps?: boolean;
  // A Generate: its turn may come while others make tokens.
  readonly joins?: boolean;
}

export type StepWork = Extract<Work, { kind: "runStep" }>;

const kForgetting: readonly Work["kind"][] = ["releaseSessions", "releaseAll", "keepLayers"];
const kOfSteps: readonly Work["kind"][] = ["runStep", "takeSampling", "forkSession"];

export function turnOf(work: Work): Turn {
  const { kind } = work;
  const isOfSteps = kOfSteps.includes(kind);
  const turn = { take: () => work, forgets: kForgetting.includes(kind), isOfSteps };
  return work.kind === "runStep" ? { ...turn, step: work } : turn;
}

type HeldValue = NonNullable<ConnectKind["value"]["held"]>[number];

type TimingsValue = {
  timings: { layers: LayerRange; runUs: bigint[] }[];
  answers: { digest: ProbeAnswer["digest"]; samples: number[] }[];
};

// As the wire wants it.
export function heldValue({ sessions, positions, claims, ...rest }: HeldBinding): HeldValue {
  return {
    ...rest,
    sessions: [...sessions],
    positions: [...positions],
    claims: (claims ?? []).map(({ marks, ...claim }) => ({ ...claim, marks: [...marks] })),
  };
}

export function timingsValue(
  { timings, answers }: Extract<Outcome, { kind: "measured" }>,
): TimingsValue {
  return {
    timings: timings.map(({ layers, runUs }) => ({ layers, runUs: runUs.map(BigInt) })),
    answers: answers.map(({ digest, samples }) => ({ digest, samples: [...samples] })),
  };
}

// What StepFailed names, and what it says.
export interface StepNumbers {
  readonly sequence: number;
  readonly binding: number;
  readonly stage?: number; // of whole-model generation: the only one
}
export type Said = Pick<Fault, "code" | "message">;
