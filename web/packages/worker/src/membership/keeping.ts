// What a worker keeps between two connections: for which swarm and package it was loaded, and until
// when it is kept once a connection broke. Init says both; there is nothing to keep before it. The
// same in C++: src/worker/keeping.h.
import type { Init } from "@weft/wire";

type Told = Pick<Init, "swarmId" | "packageDigest" | "resumeMs">;

export class Keeping {
  #heldFor: Told | null = null;
  #lostUntil: number | null = null; // ms

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
