// When something fails, what kind of failure it is and how long it lasts: drawn before the cell
// runs, from its seed. Whom a failure meets depends on who is there by then, so that only a uniform
// number is drawn for it.
import { exponential, seededRandom, shuffled } from "../lib/statistics.mjs";
import { kMeanMs } from "./cells.mjs";

// kill: SIGKILL, and a new process afterwards. stop: SIGSTOP, then SIGCONT. cut: the link is reset
// and refuses connections. silent: the link carries nothing and nobody is told.
export const kKinds = ["kill", "stop", "cut"];
export const kTabKinds = ["kill", "silent", "cut"];

const kLeastDownMs = 1000;
const kMostDownMs = 10_000;

// Failures in `ms` of a swarm with `workers`, `needed` of which compute: [{atMs, kind, downMs,
// pick}] by time; `pick` in [0, 1) is for targetOf.
export function scheduleOf({ failures, workers, needed }, ms, seed, kinds = kKinds) {
  const random = seededRandom(seed);
  const out = [];
  let deck = [];
  const rate = { swarm: 1, needed, ramp: workers }[failures] / kMeanMs; // the highest
  for (let atMs = exponential(random, 1 / rate); atMs < ms; atMs += exponential(random, 1 / rate)) {
    // A ramp is thinned: a share of the events that grows from nothing to all.
    if (failures === "ramp" && random() >= atMs / ms) continue;
    if (deck.length === 0) deck = shuffled(kinds, random);
    const downMs = kLeastDownMs + random() * (kMostDownMs - kLeastDownMs);
    out.push({ atMs, kind: deck.pop(), downMs, pick: random() });
  }
  return out;
}

// The index of the worker that a failure meets, or null. swarm: any healthy one. needed: each of
// those that compute has a rate of its own, and so have as many of the healthy ones while nobody
// computes. ramp: each worker has its own, also while it is away, when nothing comes of it.
export function targetOf({ failures, needed }, pick, healthy, computing) {
  const indices = healthy.flatMap((is, index) => (is ? [index] : []));
  if (failures === "ramp") {
    const index = Math.floor(pick * healthy.length);
    return healthy[index] ? index : null;
  }
  if (failures === "swarm") return indices[Math.floor(pick * indices.length)] ?? null;
  const aimed = indices.filter((index) => computing.includes(index));
  const among = aimed.length > 0 ? aimed : indices.slice(0, needed);
  return among[Math.floor(pick * Math.max(needed, among.length))] ?? null;
}
