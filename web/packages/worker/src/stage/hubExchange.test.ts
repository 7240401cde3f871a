// Rows that a hub's step gives away: their shape, several messages where they are many, the time.
import { expect, it } from "vitest";

import { kMaxRowBytes } from "@weft/wire";

import { HubExchange } from "./hubExchange.ts";
import type { RowsAway } from "./hubExchange.ts";

const request = (out: Float32Array, rowCount: number, inColumns: number) =>
  ({ layer: 3, id: 0, firstRow: 5, rowCount, out, inColumns });

it("rows go with their routes, and the time that they take is told", async () => {
  const asked: RowsAway[] = [];
  let time = 100;
  const ask = (rows: RowsAway): Promise<Float32Array> => {
    asked.push(rows);
    time += 7;
    return Promise.resolve(Float32Array.of(9, 8, 7, 6));
  };
  const away = new HubExchange(ask, () => time);
  const out = Float32Array.from({ length: 12 }, (_, i) => i);
  expect(await away.exchange(request(out, 2, 2))).toEqual(Float32Array.of(9, 8, 7, 6));
  expect(asked).toEqual([{ layer: 3, slots: 2, tokens: 2, hidden: 2, rows: out }]);
  await away.exchange(request(out.subarray(0, 4), 2, 2));
  expect(asked[1]).toMatchObject({ slots: 0, tokens: 2, hidden: 2 });
  expect(away.waitedMs).toBe(14);
});

it("more rows than a message holds go in several", async () => {
  const columns = kMaxRowBytes / 4 / 2;
  const counts: number[] = [];
  const ask = ({ tokens, hidden }: RowsAway): Promise<Float32Array> => {
    counts.push(tokens);
    return Promise.resolve(new Float32Array(tokens * hidden).fill(counts.length));
  };
  const away = new HubExchange(ask, () => 0);
  const given = await away.exchange(request(new Float32Array(3 * columns), 3, columns - 4));
  expect(counts).toEqual([2, 1]);
  expect([given[0], given[columns], given.at(-1)]).toEqual([1, 1, 2]);
});

it("rows that are not finite stay here", async () => {
  const away = new HubExchange(() => Promise.reject(new Error("was asked")), () => 0);
  await expect(away.exchange(request(Float32Array.of(1, Infinity), 1, 2))).rejects.toThrow(
    "The rows for the experts of layer 3 hold 1 values that are not finite.",
  );
});
