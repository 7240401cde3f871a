// Why there is no text yet, from what the pictures of the swarm said since the request was sent.
// The queue is served in order: a request's place in it is at most the smallest queue seen since.
import type { SwarmPicture } from "../swarm/picture.ts";

export interface Waiting {
  sentAtMs: number;
  accepted: boolean; // the server has begun to answer
  place: number | null; // in the queue, 1 is next, 0 is being computed; null: not known yet
}

export function startWaiting(nowMs: number): Waiting {
  return { sentAtMs: nowMs, accepted: false, place: null };
}

export function accepted(waiting: Waiting): Waiting {
  return { ...waiting, accepted: true };
}

// `picture` must be from after the acceptance; pictures before it say nothing about this request.
export function seePicture(waiting: Waiting, picture: SwarmPicture): Waiting {
  if (!waiting.accepted || waiting.place === 0) return waiting;
  const place = Math.min(waiting.place ?? Number.MAX_SAFE_INTEGER, picture.queuedRequests);
  return place === waiting.place ? waiting : { ...waiting, place };
}

export function waitingText(waiting: Waiting, picture: SwarmPicture | null): string {
  if (!waiting.accepted) return "Sending";
  if (picture && picture.state !== "up") return `Waiting for the swarm. ${picture.message}`;
  if (waiting.place === null || waiting.place === 0) return "Reading the prompt";
  if (waiting.place === 1) return "Waiting: you are next";
  return `Waiting: ${waiting.place - 1} before you`;
}
