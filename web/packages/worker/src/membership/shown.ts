// What the page is told of a worker's state, in words.
import type { Shown, Work } from "./events.ts";
import type { Holding } from "./stageTable.ts";

export interface WorkerState {
  readonly work: Work["kind"] | undefined; // under way
  readonly isDownloading: boolean;
  readonly isLoading: boolean;
  readonly held: Holding | undefined;
  readonly expertsHeld: number;
  readonly fault: string; // the last failure
  readonly note: string;
}

// What is going on, or what is left when nothing is.
export function shownOf(state: WorkerState): Shown {
  const { work, isDownloading, isLoading, held } = state;
  switch (work) {
    case "runStep":
    case "makeTokens":
    case "runExperts":
      return { phase: "computing", message: "Computing." };
    case "measureSpeed":
      return { phase: "measuring", message: "Measuring this device's speed." };
    default:
      break;
  }
  if (isDownloading) return {};
  if (isLoading) return { phase: "loading", message: "Loading its layers." };
  if (work === "installExperts") return { phase: "loading", message: "Loading its experts." };
  const rest = [state.fault, state.note].map((text) => text && ` ${text}`).join("");
  if (!held && state.expertsHeld > 0) {
    return { phase: "ready", message: "Ready: its experts are loaded." + rest };
  }
  if (!held) return { phase: "idle", message: "Connected, waiting for work." + rest };
  const message = held.isStandby
    ? "Ready to take over: its layers are loaded."
    : "Ready: its layers are loaded.";
  return { phase: "ready", message: message + rest };
}
