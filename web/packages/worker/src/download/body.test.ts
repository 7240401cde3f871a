import { describe, expect, it } from "vitest";

import { readBody } from "./body.ts";
import type { AnswerBody } from "./body.ts";

const kWhole = Uint8Array.from({ length: 1000 }, (_, i) => i % 251);

// Streams of bytes, streams of anything, and what is as much of a stream as is used.
const kBodies: [string, (pieces: Uint8Array<ArrayBuffer>[]) => AnswerBody][] = [
  ["a stream of bytes", (pieces) => new ReadableStream({
    type: "bytes",
    pull: (controller) => {
      const piece = pieces.shift();
      if (piece) controller.enqueue(piece);
      else controller.close();
      if (!piece) controller.byobRequest?.respond(0);
    },
  })],
  ["a stream", (pieces) => new ReadableStream({
    pull: (controller) => {
      const piece = pieces.shift();
      if (piece) controller.enqueue(piece);
      else controller.close();
    },
  })],
  ["a reader", (pieces) => ({
    getReader: () => ({
      read: () => {
        const value = pieces.shift();
        return Promise.resolve(value ? { done: false, value } : { done: true });
      },
      cancel: () => Promise.resolve(),
    }),
  })],
];

describe.each(kBodies)("%s", (_, make) => {
  it.each([[1], [7], [250], [333], [1000], [4000]])("gives %d bytes at a time", async (length) => {
    for (const cut of [1, 100, 333, 1000]) {
      const pieces = [];
      for (let at = 0; at < 1000; at += cut) pieces.push(kWhole.slice(at, at + cut));
      const body = readBody(make(pieces));
      const out: number[] = [];
      for (;;) {
        const next = await body.next(length);
        expect(next.length).toBe(Math.min(length, 1000 - out.length));
        if (next.length === 0) break;
        out.push(...next);
      }
      expect(Buffer.compare(Uint8Array.from(out), kWhole)).toBe(0);
      await body.end();
    }
  });

  it("gives bytes that stay as they are", async () => {
    const body = readBody(make([kWhole.slice(0, 10), kWhole.slice(10, 20)]));
    const first = await body.next(5);
    const second = await body.next(10);
    expect([...first, ...second]).toEqual([...kWhole.slice(0, 15)]);
    await body.end();
    await body.end();
  });
});

it("a body that breaks rejects", async () => {
  for (const type of ["bytes", undefined] as const) {
    const stream = new ReadableStream({
      type, pull: (controller: ReadableByteStreamController) => {
        controller.error(new TypeError("network error"));
      },
    } as UnderlyingByteSource);
    const body = readBody(stream);
    await expect(body.next(10)).rejects.toThrow("network error");
    await body.end();
  }
});
