// What a worker keeps between two connections: for which swarm and package it was loaded, and until
// when it is kept once a connection broke. Init says both; there is nothing to keep before it.
//
// Beside that it knows the highest incarnation of the swarm that it has seen, for as long as it
// lives. Two servers may take themselves for the swarm's leader: one that was cut off, and the one
// after it. Whoever has seen 7 of the second one does not work for the first one, which says 5. The
// same in C++, with a table of cases: src/worker/keeping.h.
import type { Init } from "@weft/wire";

type Told = Pick<Init, "swarmId" | "packageDigest" | "resumeMs">;
type Start = Pick<Init, "swarmId" | "incarnation">;

export class Keeping {
  #heldFor: Told | null = null;
  #lostUntil: number | null = null; // ms
  #seen: Start | null = null;

  // What is loaded from now on is of this swarm and package.
  begin({ swarmId, packageDigest, resumeMs }: Told): void {
    this.#heldFor = { swarmId, packageDigest, resumeMs };
    this.#lostUntil = null;
  }

  end(): void {
    this.#heldFor = null;
  }

  // The connection broke, or another attempt at one: for how many ms to keep what is held, from now
  // on; 0: not any longer.
  lost(now: number): number {
    if (!this.#heldFor || this.#heldFor.swarmId.length === 0) return 0;
    this.#lostUntil ??= now + this.#heldFor.resumeMs;
    return Math.max(0, this.#lostUntil - now);
  }

  // Somebody counts on what is held again.
  resume(): void {
    this.#lostUntil = null;
  }

  // Whether it was kept long enough.
  isOver(now: number): boolean {
    return this.#lostUntil !== null && this.#lostUntil <= now;
  }

  // Whether the server of this Init knows what is held, and still counts on it.
  fits(init: Told, now: number): boolean {
    const held = this.#heldFor;
    if (!held || held.swarmId.length === 0 || this.isOver(now)) return false;
    return (
      areEqual(held.swarmId, init.swarmId) && areEqual(held.packageDigest, init.packageDigest)
    );
  }

  // Whether a later start of the swarm's server was seen than the one of this Init. A server from
  // before there were incarnations says 0.
  isOutdated(init: Start): boolean {
    return init.incarnation > 0n && init.incarnation < this.seenOf(init);
  }

  // Notes the swarm and the incarnation of an Init that is not outdated.
  see(init: Start): void {
    const seen = this.seenOf(init);
    const incarnation = init.incarnation > seen ? init.incarnation : seen;
    this.#seen = { swarmId: init.swarmId, incarnation };
  }

  // Init.swarmId of the swarm that it helped last; null: none yet.
  get lastSwarm(): Uint8Array | null {
    return this.#seen?.swarmId ?? null;
  }

  // The highest incarnation that was seen of the Init's swarm; 0: none.
  seenOf({ swarmId }: Pick<Start, "swarmId">): bigint {
    const seen = this.#seen;
    return seen && areEqual(seen.swarmId, swarmId) ? seen.incarnation : 0n;
  }
}

function areEqual(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, index) => byte === other[index]);
}

// Three pings that did not come, but no less than what a busy machine may take to get one out.
const kPingsMissed = 3;
const kLeastSilenceMs = 3000;
const kPingIntervalMs = 500; // of a server that does not say

// How long a server that pings as its Init says may be silent.
export function silenceLimitMs({ pingIntervalMs }: Pick<Init, "pingIntervalMs">): number {
  const interval = pingIntervalMs > 0 ? pingIntervalMs : kPingIntervalMs;
  return Math.max(kLeastSilenceMs, kPingsMissed * interval);
}
