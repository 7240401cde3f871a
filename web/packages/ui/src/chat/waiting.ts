// Why there is no text yet: what the server says about this request in the comments of its stream
// (docs/protocol.md), and whether the swarm is ready at all.
import { formatInteger } from "../words/format.ts";
import type { SwarmPicture } from "../swarm/picture.ts";

export type Progress =
  | { kind: "moving" } // to another server, with or without a text so far
  | { kind: "loading"; model: string; percent: number | null } // of the download, where it is known
  | { kind: "queued"; requestsAhead: number }
  | { kind: "reading"; promptTokens: number; promptDone: number };

export interface Waiting {
  accepted: boolean; // the server has begun to answer
  progress: Progress | null; // null: not known yet
}

export function startWaiting(): Waiting {
  return { accepted: false, progress: null };
}

export function accepted(waiting: Waiting): Waiting {
  return { ...waiting, accepted: true };
}

// "progress {...}"; null for every other comment.
export function readProgress(comment: string): Progress | null {
  if (!comment.startsWith("progress ")) return null;
  let json: unknown;
  try {
    json = JSON.parse(comment.slice("progress ".length));
  } catch {
    return null;
  }
  if (isMoving(json)) return { kind: "moving" };
  const model = loadedModel(json);
  if (model !== null) return { kind: "loading", model, percent: count(json, "percent") };
  const requestsAhead = count(json, "requests_ahead");
  if (requestsAhead !== null) return { kind: "queued", requestsAhead };
  const promptTokens = count(json, "prompt_tokens");
  const promptDone = count(json, "prompt_done");
  if (promptTokens === null || promptDone === null || promptDone > promptTokens) return null;
  return { kind: "reading", promptTokens, promptDone };
}

function isMoving(json: unknown): boolean {
  return typeof json === "object" && json !== null && "moving" in json && json.moving === true;
}

function loadedModel(json: unknown): string | null {
  if (typeof json !== "object" || json === null || !("loading" in json)) return null;
  return typeof json.loading === "string" ? json.loading : null;
}

function count(json: unknown, key: string): number | null {
  if (typeof json !== "object" || json === null) return null;
  const value = (json as Record<string, unknown>)[key];
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

export function waitingText({ accepted: isAccepted, progress }: Waiting,
  picture: SwarmPicture | null): string {
  if (!isAccepted) return "Sending";
  if (progress?.kind === "moving") return "Moving to another server";
  // Where the server has several models, the picture may be of another one.
  if (progress?.kind === "loading") {
    return `Loading ${progress.model}${progress.percent === null ? "" : `, ${progress.percent}%`}`;
  }
  if (picture && picture.state !== "up") return `Waiting for the swarm. ${picture.message}`;
  if (progress?.kind === "queued") return queuedText(progress.requestsAhead);
  if (progress?.kind === "reading") {
    const { promptDone, promptTokens } = progress;
    return `Reading the prompt, ${formatInteger(promptDone)} of ` +
      `${formatInteger(promptTokens)} tokens`;
  }
  return "Reading the prompt";
}

function queuedText(requestsAhead: number): string {
  if (requestsAhead === 0) return "Waiting: yours is the next request";
  return requestsAhead === 1 ? "1 request ahead of yours"
    : `${formatInteger(requestsAhead)} requests ahead of yours`;
}
