import { describe, expect, it } from "vitest";
import { SseParser, readEvents } from "./sse.ts";

const kStream = [
  "data: first\n\n",
  ": a comment\n",
  "event: swarm\r\ndata: {\"a\":1}\r\ndata:{\"b\":2}\r\n\r\n",
  "retry: 1000\nid: 7\n\n",
  "data\n\n",
  "event: lost\n\n",
  "data:  two spaces\r\r",
  "data: unfinished\n",
].join("");

const kEvents = [
  { event: "message", data: "first" },
  { event: "swarm", data: "{\"a\":1}\n{\"b\":2}" },
  { event: "message", data: "" },
  { event: "message", data: " two spaces" },
];

describe("SseParser", () => {
  it("reads fields, comments, all line ends; an event without data is none", () => {
    expect(new SseParser().push(kStream)).toEqual(kEvents);
  });

  it("gives the same for every way to cut the stream", () => {
    for (let size = 1; size < kStream.length; size += 1) {
      const parser = new SseParser();
      const events = [];
      for (let at = 0; at < kStream.length; at += size) {
        events.push(...parser.push(kStream.slice(at, at + size)));
      }
      expect(events).toEqual(kEvents);
    }
  });

  it("hands comments on, apart from the events", () => {
    const comments: string[] = [];
    const parser = new SseParser((text) => comments.push(text));
    const events = parser.push(": progress {\"requests_ahead\":2}\n\n:\ndata: a\n:b:c\n\n");
    expect(comments).toEqual(["progress {\"requests_ahead\":2}", "", "b:c"]);
    expect(events).toEqual([{ event: "message", data: "a" }]);
  });

  it.each([
    ["line", "x".repeat(1 << 20)],
    ["event", `data: ${"x".repeat(1 << 20)}\n`],
  ])("refuses an event whose %s does not end", (_, piece) => {
    const parser = new SseParser();
    parser.push("data: ");
    expect(() => {
      for (let i = 0; i < 20; i += 1) parser.push(piece);
    }).toThrow(/event of more than/);
  });

  it("takes many events that are longer together", () => {
    const parser = new SseParser();
    const event = `data: ${"x".repeat(1 << 20)}\n\n`;
    for (let i = 0; i < 20; i += 1) expect(parser.push(event)).toHaveLength(1);
  });
});

describe("readEvents", () => {
  it("decodes characters that packets cut, behind a byte order mark", async () => {
    const bytes = new TextEncoder().encode("\uFEFFdata: grüße 🦊\n\n");
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        for (const byte of bytes) controller.enqueue(new Uint8Array([byte]));
        controller.close();
      },
    });
    const events = [];
    for await (const event of readEvents(new Response(body))) events.push(event);
    expect(events).toEqual([{ event: "message", data: "grüße 🦊" }]);
  });

  it("ends the request when nobody reads on", async () => {
    let cancelled = false;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        controller.enqueue(new TextEncoder().encode("data: x\n\n"));
      },
      cancel() {
        cancelled = true;
      },
    });
    for await (const event of readEvents(new Response(body))) {
      expect(event.data).toBe("x");
      break;
    }
    expect(cancelled).toBe(true);
  });
});
