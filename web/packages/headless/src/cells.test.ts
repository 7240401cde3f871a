// Who is helped with how much memory, as models come and go.
import { expect, it } from "vitest";

import { initialStatus } from "@weft/worker/threads/messages.ts";
import type { WorkerStatus } from "@weft/worker/threads/messages.ts";

import { Cells } from "./cells.ts";
import type { Cell } from "./server/cellList.ts";

const kMiB = 2 ** 20;

interface Started {
  readonly cell: Cell | null;
  readonly offerMiB: number;
  readonly tell: (status: WorkerStatus) => void;
  end: () => void;
  isStopping: boolean;
}

function device(memoryMiB: number): { cells: Cells; started: Started[]; said: string[] } {
  const started: Started[] = [];
  const said: string[] = [];
  const cells = new Cells(memoryMiB * kMiB, (cell, offerBytes, tell) => {
    const own: Started = {
      cell, offerMiB: offerBytes / kMiB, tell, end: () => undefined, isStopping: false,
    };
    started.push(own);
    const ended = new Promise<void>((resolve) => (own.end = resolve));
    return {
      stop: () => {
        own.isStopping = true;
        return ended;
      },
    };
  }, {
    onStatus: (model, { phase }) => said.push(`${model}: ${phase}`),
    onGone: (model) => said.push(`${model} gone`),
    onRefused: () => said.push("refused"),
  });
  return { cells, started, said };
}

const cell = (number: number, model: string, needMiB: number): Cell =>
  ({ cell: number, model, needBytes: needMiB * kMiB });
const offers = (started: Started[]): string[] =>
  started.map(({ cell, offerMiB }) => `${cell?.model ?? "-"} ${offerMiB}`);

it("beside a server of one model all memory is its", () => {
  const { cells, started } = device(500);
  cells.onList(null);
  cells.onList(null);
  expect(offers(started)).toEqual(["- 500"]);
});

it("each model is offered what it needs, and the next one finds the rest", () => {
  const { cells, started } = device(500);
  cells.onList([cell(2, "two", 300), cell(1, "one", 150), cell(3, "three", 100)]);
  // One and two leave 50, which is less than three needs, and more than the least offer.
  expect(offers(started)).toEqual(["one 150", "two 300", "three 50"]);
  cells.onList([cell(1, "one", 150), cell(2, "two", 300), cell(3, "three", 100)]);
  expect(started).toHaveLength(3);
});

it("a model that was unloaded gives its memory to one that had none", async () => {
  const { cells, started, said } = device(400);
  cells.onList([cell(1, "one", 380), cell(2, "two", 100)]);
  expect(offers(started)).toEqual(["one 380"]);
  cells.onList([cell(2, "two", 100)]);
  expect(offers(started)).toEqual(["one 380", "two 100"]);
  expect(started[0]!.isStopping).toBe(true);
  started[0]!.end();
  await Promise.resolve();
  await Promise.resolve();
  expect(said).toEqual(["one gone"]);
});

it("a server that has several models now is not helped as one of one model", () => {
  const { cells, started } = device(400);
  cells.onList(null);
  cells.onList([cell(1, "one", 100)]);
  expect(started[0]!.isStopping).toBe(true);
  expect(offers(started)).toEqual(["- 400", "one 100"]);
  // The server is away for a moment: the socket of its model comes again by itself.
  cells.onList(null);
  expect(started).toHaveLength(2);
});

it("one refusal is told, and leaving waits for all", async () => {
  const { cells, started, said } = device(400);
  cells.onList([cell(1, "one", 100), cell(2, "two", 100)]);
  started[1]!.tell({ ...initialStatus(), phase: "refused" });
  expect(said).toEqual(["two: refused", "refused"]);
  let hasLeft = false;
  const leaving = cells.leave().then(() => (hasLeft = true));
  started[0]!.end();
  await Promise.resolve();
  expect(hasLeft).toBe(false);
  started[1]!.end();
  await leaving;
  cells.onList([cell(3, "three", 100)]);
  expect(started).toHaveLength(2);
});
