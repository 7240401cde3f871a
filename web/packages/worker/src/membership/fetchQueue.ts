// Which layers are fetched next, and what is no longer wanted. One fetch is under way at a time:
// stages, experts and measurements in the order in which they were asked for, then what nobody
// waits for, standby stages and standby layers. A stage interrupts those, which go on afterwards
// with what has not come yet.
import type { LayerRange } from "@weft/engine";
import type { LayerExperts } from "@weft/wire";

import type { Action, Probe } from "./events.ts";

export type Purpose =
  | {
      readonly kind: "stage";
      readonly binding: number;
      readonly isStandby: boolean;
      readonly isHub: boolean;
    }
  | { readonly kind: "experts"; readonly binding: number }
  | {
      readonly kind: "measurement";
      readonly timed: readonly LayerRange[];
      readonly runs: number;
      readonly probes: readonly Probe[];
    }
  | { readonly kind: "standby" };

export interface Fetch {
  readonly purpose: Purpose;
  readonly ranges: readonly LayerRange[];
  readonly experts?: readonly LayerExperts[]; // instead of ranges
}

// What an action to fetch names of it.
export function wantedOf({ purpose, ranges, experts = [] }: Fetch): Wanted {
  return { ranges, experts, isHub: purpose.kind === "stage" && purpose.isHub };
}

type Wanted = Omit<Extract<Action, { kind: "fetch" }>, "kind">;

function missingOf(ranges: readonly LayerRange[], came: ReadonlySet<number>): LayerRange[] {
  const missing: LayerRange[] = [];
  for (const { first, end } of ranges) {
    let next = first;
    for (let layer = first; layer < end; ++layer) {
      if (!came.has(layer)) continue;
      if (next < layer) missing.push({ first: next, end: layer });
      next = layer + 1;
    }
    if (next < end) missing.push({ first: next, end });
  }
  return missing;
}

const isStandby = ({ purpose }: Fetch): boolean =>
  purpose.kind === "standby" || (purpose.kind === "stage" && purpose.isStandby);

export class FetchQueue {
  readonly #urgent: Fetch[] = [];
  readonly #standby: Fetch[] = [];
  #current: Fetch | null = null;
  #interrupted = false; // `#current` was asked to end
  #dropped = false; // nobody wants `#current` any more
  readonly #came = new Set<number>(); // layers of `#current`

  push(fetch: Fetch): void {
    (isStandby(fetch) ? this.#standby : this.#urgent).push(fetch);
  }

  // Forgets the fetches whose purpose is not wanted any more.
  keep(isWanted: (purpose: Purpose) => boolean): void {
    const stays = ({ purpose }: Fetch): boolean => isWanted(purpose);
    for (const list of [this.#urgent, this.#standby]) {
      list.splice(0, list.length, ...list.filter(stays));
    }
    if (this.#current && !stays(this.#current)) this.#dropped = true;
  }

  // The one under way, if it is still wanted.
  get current(): Fetch | null {
    return this.#dropped ? null : this.#current;
  }

  get isUnderWay(): boolean {
    return this.#current !== null;
  }

  // Nothing of it is wanted any more.
  clear(): void {
    this.#urgent.length = 0;
    this.#standby.length = 0;
    this.#dropped = this.#current !== null;
  }

  // What is to be done now: begin a fetch, interrupt the one under way, or (null) nothing.
  next(): Fetch | "interrupt" | null {
    if (!this.#current) {
      this.#current = this.#urgent.shift() ?? this.#standby.shift() ?? null;
      this.#interrupted = false;
      this.#dropped = false;
      this.#came.clear();
      return this.#current;
    }
    const gives = this.#dropped || (isStandby(this.#current) && this.#urgent.length > 0);
    if (!gives || this.#interrupted) return null;
    this.#interrupted = true;
    return "interrupt";
  }

  // A layer of the fetch under way has come.
  layerCame(layer: number): void {
    this.#came.add(layer);
  }

  // The fetch under way has ended. The result is what it was for; null when there is nothing to do
  // about it: it was dropped, or interrupted and waits for its turn again.
  ended(isComplete: boolean): Fetch | null {
    const fetch = this.#current;
    this.#current = null;
    if (!fetch || this.#dropped) return null;
    if (isComplete || !this.#interrupted) return fetch;
    this.#standby.unshift({ ...fetch, ranges: missingOf(fetch.ranges, this.#came) });
    return null;
  }
}
