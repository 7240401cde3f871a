// Sockets and HTTP against a server of the test's own: what is handed on, and what is said when it
// refuses, is silent, or is not there.
import { createServer } from "node:http";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { WebSocketServer } from "ws";

import type { SocketFailure } from "@weft/worker/threads/hostParts.ts";
import { ServerHttp } from "@weft/worker/download/serverHttp.ts";

import { Connector } from "./connecting.ts";
import { nodeFetch } from "./http.ts";
import { openSocket } from "./socket.ts";

const kTrust = { fingerprint: "", isInsecure: false };

let server: Server;
let origin: string;
let answer: (request: IncomingMessage, response: ServerResponse) => void;
let heard: IncomingMessage[];
let connectionCount: number;

beforeEach(async () => {
  heard = [];
  connectionCount = 0;
  answer = (_, response) => response.end("a body");
  server = createServer((request, response) => {
    heard.push(request);
    answer(request, response);
  });
  server.on("connection", () => ++connectionCount);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  server.closeAllConnections();
  server.close();
});

interface Heard {
  readonly messages: Uint8Array[];
  readonly failures: (SocketFailure | undefined)[];
  readonly isOpen: Promise<boolean>;
  readonly socket: ReturnType<typeof openSocket>;
}

function connectorOf(to: string): (url: string) => Connector {
  const connector = new Connector(to, kTrust);
  return () => connector;
}

function connected(token = "", to = origin): Heard {
  const messages: Uint8Array[] = [];
  const failures: (SocketFailure | undefined)[] = [];
  let settle: (isOpen: boolean) => void;
  const isOpen = new Promise<boolean>((resolve) => (settle = resolve));
  const url = to.replace(/^http/, "ws") + "/worker";
  const socket = openSocket(new Connector(to, kTrust), token, url, {
    onOpen: () => settle(true),
    onMessage: (message) => messages.push(message),
    onClose: (failure) => {
      failures.push(failure);
      settle(false);
    },
  });
  return { messages, failures, isOpen, socket };
}

const eventually = async (check: () => boolean): Promise<void> => {
  while (!check()) await new Promise((resolve) => setTimeout(resolve, 5));
};

describe("the socket", () => {
  it("hands on binary messages, both ways, as plain bytes", async () => {
    const peers = new WebSocketServer({ server });
    const received: Buffer[] = [];
    peers.on("connection", (peer, request) => {
      heard.push(request);
      peer.on("message", (data: Buffer) => received.push(data));
      peer.send(Uint8Array.of(1, 2, 3));
      peer.send("a text");
      peer.send(new Uint8Array(200_000).fill(7));
    });
    const { messages, isOpen, socket } = connected("secret");
    expect(await isOpen).toBe(true);
    socket.send(Uint8Array.of(4, 5));
    await eventually(() => messages.length === 3 && received.length === 1);
    expect(heard[0]!.headers.authorization).toBe("Bearer secret");
    expect(heard[0]!.headers["sec-websocket-extensions"]).toBeUndefined();
    expect(messages.map(({ length }) => length)).toEqual([3, 0, 200_000]);
    expect(messages[0]!.slice().buffer).toEqual(Uint8Array.of(1, 2, 3).buffer); // a copy, and whole
    expect([...received[0]!]).toEqual([4, 5]);
    socket.close();
    peers.close();
  });

  it.each([
    [401, { error: { message: "Ask for a new link." } }, true,
      "The server refuses this worker (401): Ask for a new link."],
    [503, "busy", false, 'The server refuses this worker (503): "busy"'],
  ])("a refusal with %d says why", async (status, body, isFinal, message) => {
    server.on("upgrade", (_, socket) => {
      const text = JSON.stringify(body);
      socket.end(`HTTP/1.1 ${status} No\r\nContent-Length: ${text.length}\r\n\r\n${text}`);
    });
    const { failures, isOpen } = connected();
    expect(await isOpen).toBe(false);
    expect(failures[0]).toEqual({ message, isFinal });
  });

  it("nobody there is no refusal", async () => {
    const { failures, isOpen } = connected("", "http://127.0.0.1:9");
    expect(await isOpen).toBe(false);
    expect(failures).toEqual([
      { message: "127.0.0.1:9 cannot be reached (ECONNREFUSED).", isFinal: false },
    ]);
  });
});

describe("HTTP", () => {
  const http = (signal = new AbortController().signal): ServerHttp =>
    new ServerHttp(() => [origin], "secret", nodeFetch(connectorOf(origin)), signal);

  it("sends the token, and keeps its connection", async () => {
    const client = http();
    for (let i = 0; i < 3; ++i) {
      expect(Buffer.from(await client.getBytes("/package?x=1", 100)).toString()).toBe("a body");
    }
    const { url, headers } = heard[0]!;
    expect([url, headers.authorization, headers.host])
      .toEqual(["/package?x=1", "Bearer secret", origin.slice("http://".length)]);
    expect(connectionCount).toBe(1);
  });

  it("a refusal is a sentence of the server's", async () => {
    answer = (_, response) =>
      response.writeHead(401).end(JSON.stringify({ error: { message: "No token." } }));
    await expect(http().get("/package")).rejects.toMatchObject({
      code: "permission_denied", message: "The server answered 401 for /package: No token.",
    });
  });

  it("a body that breaks off is tried again", async () => {
    answer = (_, response) => {
      response.writeHead(200, { "Content-Length": "10" }).write("half");
      setTimeout(() => (heard.length === 1 ? response.destroy() : response.end("whole!")), 20);
    };
    expect(Buffer.from(await http().getBytes("/x", 100)).toString()).toBe("halfwhole!");
  });

  it("ends with its worker", async () => {
    const life = new AbortController();
    answer = (_, response) => response.writeHead(200).write("and then nothing");
    const reading = http(life.signal).getBytes("/x", 100);
    setTimeout(() => life.abort(), 30);
    await expect(reading).rejects.toMatchObject({ code: "cancelled" });
  });

  it("a body that nobody reads to its end does not hold a connection", async () => {
    answer = (_, response) => response.end(Buffer.alloc(5_000_000));
    expect(await http().measureDownload(5_000_000, 0)).toBeGreaterThan(0);
    const openCount = (): Promise<number> => new Promise((resolve) => {
      server.getConnections((_, count) => resolve(count));
    });
    for (let count = 1; count > 0; count = await openCount()) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  });
});
