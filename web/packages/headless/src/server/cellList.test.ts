// The question which models are loaded, against answers of the test's own.
import { expect, it } from "vitest";

import type { Answer } from "@weft/worker/download/serverHttp.ts";
import { ServerList } from "@weft/worker/threads/serverList.ts";

import { followCells, offerFor, parseCellList } from "./cellList.ts";
import type { Cell, Question } from "./cellList.ts";

const question = (...others: string[]): Question => ({
  servers: new ServerList(["http://host:1", ...others].map((origin) =>
    ({ origin, fingerprint: "" }))),
  joinToken: "token", device: "a b", memoryBytes: 2 ** 30,
});

function answer(status: number, body: unknown): Answer {
  return {
    ok: status === 200, status, statusText: "", body: null, json: () => Promise.resolve(body),
  };
}

it("a list is asked for again with its version", async () => {
  const end = new AbortController();
  const urls: string[] = [];
  const lists: (readonly Cell[] | null)[] = [];
  await followCells((url, { headers }) => {
    expect(headers).toEqual({ Authorization: "Bearer token" });
    urls.push(url);
    return Promise.resolve(answer(200, {
      version: 6 + urls.length, cells: [{ cell: urls.length, model: "m", need_bytes: 5 }],
    }));
  }, question(), end.signal, (cells) => {
    lists.push(cells);
    if (lists.length === 2) end.abort();
  });
  expect(urls).toEqual([
    "http://host:1/worker/cells?device=a+b&memory=1073741824&seen=0",
    "http://host:1/worker/cells?device=a+b&memory=1073741824&seen=7",
  ]);
  expect(lists[1]).toEqual([{ cell: 2, model: "m", needBytes: 5 }]);
});

it.each([
  ["of one model", () => Promise.resolve(answer(404, { error: {} }))],
  ["that is away", () => Promise.reject(new Error("refused"))],
  ["that talks nonsense", () => Promise.resolve(answer(200, { version: "1", cells: [] }))],
])("a server %s is helped as one of one model", async (_, fetch) => {
  const end = new AbortController();
  const lists: (readonly Cell[] | null)[] = [];
  await followCells(fetch, question(), end.signal, (cells) => {
    lists.push(cells);
    end.abort();
  });
  expect(lists).toEqual([null]);
});

it("of several servers the next one is asked at once", async () => {
  const end = new AbortController();
  const urls: string[] = [];
  await followCells((url) => {
    urls.push(new URL(url).origin);
    if (urls.length === 1) return Promise.reject(new Error("refused"));
    return Promise.resolve(answer(200, { version: urls.length, cells: [] }));
  }, question("http://other:2"), end.signal, (cells) => {
    expect(cells).toEqual([]);
    if (urls.length === 3) end.abort();
  });
  expect(urls).toEqual(["http://host:1", "http://other:2", "http://other:2"]);
});

it.each([
  [null], [{}], [{ version: 1 }], [{ version: -1, cells: [] }], [{ version: 1, cells: [null] }],
  [{ version: 1, cells: [{ cell: 0, model: "m", need_bytes: 1 }] }],
  [{ version: 1, cells: [{ cell: 1, model: 2, need_bytes: 1 }] }],
  [{ version: 1, cells: [{ cell: 1, model: "m", need_bytes: 1.5 }] }],
])("%j is no list", (text) => {
  expect(() => parseCellList(text)).toThrow(/The server's list of models/);
});

it("less than 32 MiB is no help", () => {
  expect(offerFor(2 ** 30, 2 ** 25)).toBe(2 ** 25);
  expect(offerFor(2 ** 30, 2 ** 25 - 1)).toBe(0);
  expect(offerFor(2 ** 26, 2 ** 30)).toBe(2 ** 26);
});
