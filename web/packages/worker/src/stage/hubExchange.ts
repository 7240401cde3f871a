// What a hub's step does where its layers' experts are elsewhere: rows go away, and a row comes for
// each of them.
import { EngineError, countNonFinite } from "@weft/engine";
import type { ExchangeRequest } from "@weft/engine";
import { kMaxRowBytes } from "@weft/wire";
import type { HubRows } from "@weft/wire";

// Rows of a layer, each with its route behind it.
export type RowsAway = Omit<HubRows, "sequence">;

// Gives their sums, [tokens, hidden]. Rejects with an EngineError where there are none.
export type AskForRows = (rows: RowsAway) => Promise<Float32Array>;

export class HubExchange {
  readonly #ask: AskForRows;
  readonly #now: () => number; // ms
  waitedMs = 0; // so far

  constructor(ask: AskForRows, now: () => number) {
    this.#ask = ask;
    this.#now = now;
  }

  // As StepInput wants it: [rowCount, inColumns]. Rows that take more than a message holds go in
  // several, one after the other.
  readonly exchange = async (request: ExchangeRequest): Promise<Float32Array> => {
    const { layer, out, rowCount, inColumns: hidden } = request;
    const bad = countNonFinite(out);
    if (bad > 0) {
      const what = `The rows for the experts of layer ${layer} hold ${bad} values`;
      throw new EngineError("invalid_data", `${what} that are not finite.`);
    }
    const begin = this.#now();
    const columns = out.length / rowCount;
    const slots = (columns - hidden) / 2;
    const most = Math.max(1, Math.floor(kMaxRowBytes / (4 * columns)));
    const given = new Float32Array(rowCount * hidden);
    for (let first = 0; first < rowCount; first += most) {
      const tokens = Math.min(most, rowCount - first);
      const rows = out.subarray(first * columns, (first + tokens) * columns);
      given.set(await this.#ask({ layer, slots, tokens, hidden, rows }), first * hidden);
    }
    this.waitedMs += this.#now() - begin;
    return given;
  };
}
