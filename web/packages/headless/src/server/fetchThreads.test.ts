// Both sides over message channels: what a caller gets is what a plain fetch would have given it.
import { MessageChannel } from "node:worker_threads";
import type { MessagePort } from "node:worker_threads";
import { afterEach, expect, it, vi } from "vitest";

import { kChunkBytes } from "@weft/worker/download/manifest.ts";
import type { AnswerReader } from "@weft/worker/download/body.ts";
import type { Answer, Fetch } from "@weft/worker/download/serverHttp.ts";

import { FetchThreads, serveFetches } from "./fetchThreads.ts";

const ports: MessagePort[] = [];
afterEach(() => {
  for (const port of ports.splice(0)) port.close();
  vi.restoreAllMocks();
});

const noFetch: Fetch = () => Promise.reject(new Error("nobody should fetch here"));

function threads(serve: Fetch, count = 1, without: Fetch = noFetch): FetchThreads {
  const own = Array.from({ length: count }, () => {
    const { port1, port2 } = new MessageChannel();
    serveFetches(port2, serve, () => undefined);
    ports.push(port1, port2);
    return port1;
  });
  return new FetchThreads(own, without);
}

function answer(pieces: readonly Uint8Array[], status = 200, read?: AnswerReader["read"]): Answer {
  const rest = [...pieces];
  const next: AnswerReader["read"] = () =>
    Promise.resolve({ done: rest.length === 0, value: rest.shift() });
  return {
    ok: status < 300,
    status,
    statusText: "as it is",
    body: { getReader: () => ({ read: read ?? next, cancel: () => Promise.resolve() }) },
    json: () => Promise.resolve(null),
  };
}

async function piecesOf(reply: Answer): Promise<Uint8Array[]> {
  const reader = reply.body!.getReader();
  const pieces: Uint8Array[] = [];
  for (let at = await reader.read(); at.value; at = await reader.read()) pieces.push(at.value);
  return pieces;
}

it("a body comes in whole chunks, and the rest", async () => {
  vi.spyOn(performance, "now").mockReturnValue(0); // else a busy machine's parts are handed on
  const body = new Uint8Array(2 * kChunkBytes + 777).map((_, at) => at % 251);
  const sent: Uint8Array[] = [];
  for (let at = 0; at < body.length; at += 60_000) sent.push(body.slice(at, at + 60_000));
  const asked: [string, RequestInit][] = [];
  const { fetch } = threads((url, init) => {
    asked.push([url, init]);
    return Promise.resolve(answer(sent, 206));
  });
  const reply = await fetch("http://server/a", { headers: { Range: "bytes=5-" } });
  expect([reply.ok, reply.status, reply.statusText]).toEqual([true, 206, "as it is"]);
  const pieces = await piecesOf(reply);
  expect(Buffer.compare(Buffer.concat(pieces), body)).toBe(0);
  expect(pieces.at(-1)!.buffer.byteLength).toBeLessThan(kChunkBytes); // nothing is held for it
  expect(pieces.length).toBeLessThan(sent.length / 4);
  expect(asked[0]![0]).toBe("http://server/a");
  expect(asked[0]![1].headers).toEqual({ Range: "bytes=5-" });
});

it("a thread is not further ahead than two pieces", async () => {
  let given = 0;
  const endless = (): Promise<{ done: boolean; value: Uint8Array }> => {
    ++given;
    return Promise.resolve({ done: false, value: new Uint8Array(kChunkBytes) });
  };
  const { fetch } = threads(() => Promise.resolve(answer([], 200, endless)));
  const reader = (await fetch("http://server/a", {})).body!.getReader();
  await reader.read();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(given).toBe(4); // one taken, two ahead, one in its hands
  await reader.cancel();
});

it("an error answer says why", async () => {
  const text = new TextEncoder().encode('{"error":{"message":"No token."}}');
  const { fetch } = threads(() => Promise.resolve(answer([text], 401)));
  const reply = await fetch("http://server/a", {});
  expect([reply.ok, reply.status]).toEqual([false, 401]);
  expect(await reply.json()).toEqual({ error: { message: "No token." } });
});

it("a server that is not there, and a connection that breaks", async () => {
  await expect(threads(() => Promise.reject(new Error("refused"))).fetch("http://server/a", {}))
    .rejects.toThrow("refused");
  let count = 0;
  const breaking = (): Promise<{ done: boolean; value: Uint8Array }> =>
    ++count > 1 ? Promise.reject(new Error("broken")) :
      Promise.resolve({ done: false, value: new Uint8Array(kChunkBytes) });
  const { fetch } = threads(() => Promise.resolve(answer([], 200, breaking)));
  const reader = (await fetch("http://server/a", {})).body!.getReader();
  expect((await reader.read()).value).toHaveLength(kChunkBytes);
  await expect(reader.read()).rejects.toThrow("broken");
});

it("an abort ends the request on the thread, and its caller's wait", async () => {
  const life = new AbortController();
  let seen: AbortSignal | null | undefined;
  const { fetch } = threads((_, { signal }) => {
    seen = signal;
    return Promise.resolve(answer([], 200, () => new Promise(() => undefined)));
  });
  const reader = (await fetch("http://server/a", { signal: life.signal })).body!.getReader();
  const reading = reader.read();
  life.abort();
  await expect(reading).rejects.toThrow("aborted");
  while (!seen!.aborted) await new Promise((resolve) => setTimeout(resolve, 1));
  await expect(fetch("http://server/a", { signal: life.signal })).rejects.toThrow("aborted");
});

it("requests are spread; those of a lost one fail; without any the caller fetches", async () => {
  const all: ((reply: Answer) => void)[] = [];
  const pool = threads(() => new Promise((resolve) => all.push(resolve)), 2,
    () => Promise.resolve(answer([], 204)));
  const asked = [pool.fetch("http://server/a", {}), pool.fetch("http://server/b", {})];
  while (all.length < 2) await new Promise((resolve) => setTimeout(resolve, 1));
  pool.onGone(0, "out of memory");
  await expect(asked[0]).rejects.toThrow("out of memory");
  all[1]!(answer([], 200));
  expect((await asked[1])!.status).toBe(200);
  pool.onGone(1, "out of memory");
  expect((await pool.fetch("http://server/c", {})).status).toBe(204);
});
