// What was chosen for a device, kept for the next time: in a browser a file (opfsTuneStore.ts),
// elsewhere memory. Whatever comes out of a store is looked at before it is believed.
import type { Arithmetic } from "../kernels/product/arithmetic.ts";

export interface TuneStore {
  // Gives null where there is nothing.
  get(key: string): Promise<string | null>;
  set(key: string, value: string): Promise<void>;
}

export class MemoryTuneStore implements TuneStore {
  readonly #values = new Map<string, string>();

  get(key: string): Promise<string | null> {
    return Promise.resolve(this.#values.get(key) ?? null);
  }

  set(key: string, value: string): Promise<void> {
    this.#values.set(key, value);
    return Promise.resolve();
  }
}

// FNV-1a of the text, in hex: a new version of the kernels or another driver is another key.
export function hashOf(...texts: readonly string[]): string {
  let hash = 0x811c9dc5;
  for (const text of texts) {
    for (let i = 0; i <= text.length; ++i) {
      hash = Math.imul(hash ^ (i < text.length ? text.charCodeAt(i) : 0x10000), 0x01000193);
    }
  }
  return (hash >>> 0).toString(16).padStart(8, "0");
}

// The choice that a store gave, if it is one of `allowed`.
export function readChoice(
  text: string | null,
  allowed: (arithmetic: Arithmetic) => boolean,
): Arithmetic | null {
  if (text === null) return null;
  try {
    const known = JSON.parse(text) as Arithmetic;
    const { products, lanes, outputs, tileRows, rowWalk, units, fewUnits } = known;
    const choice = {
      ...{ products, lanes, outputs, tileRows },
      ...(rowWalk === undefined ? {} : { rowWalk }),
      ...(units === true ? { units } : {}),
      ...(fewUnits === true ? { fewUnits } : {}),
    };
    return allowed(choice) ? choice : null;
  } catch {
    return null;
  }
}

export function writeChoice(arithmetic: Arithmetic): string {
  return JSON.stringify(arithmetic);
}
