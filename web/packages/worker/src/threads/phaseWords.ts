// What a worker does now, in words: on the page's card and in a terminal.
import type { WorkerPhase, WorkerStatus } from "./messages.ts";

export const kPhaseWords: Record<WorkerPhase, string> = {
  connecting: "Connecting",
  measuring: "Measuring this device",
  idle: "Connected, waiting for work",
  downloading: "Downloading",
  loading: "Warming up",
  ready: "Ready",
  computing: "Computing",
  reconnecting: "Reconnecting",
  stopped: "Stopped",
  refused: "Refused",
};

// The worker's sentence, where the large words and the figures do not say it all.
export function furtherWords({ phase, message }: Pick<WorkerStatus, "phase" | "message">): string {
  switch (phase) {
    case "downloading":
      return "Its part of the model, to be kept for the next time.";
    case "loading":
      return "Its part of the model is brought to where it is computed.";
    case "ready":
      return "Computes as soon as somebody asks.";
    case "computing":
      return "A part of an answer is being computed here.";
    default:
      return message.replace(/\.$/, "") === kPhaseWords[phase] ? "" : message;
  }
}
