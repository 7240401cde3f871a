// The worker's WebSocket on Node, by npm `ws`.
import type { IncomingMessage } from "node:http";

import WebSocket from "ws";

import type { Socket, SocketEvents, SocketFailure } from "@weft/worker/threads/hostParts.ts";

import type { Connector } from "./connecting.ts";
import { connectFailure } from "./connecting.ts";

const kMostReason = 2000; // bytes of a refusal's body
const kHandshakeMs = 10_000;

// The token goes into the handshake already, so that a wrong one is refused with a sentence.
export function openSocket(
  connector: Connector,
  joinToken: string,
  url: string,
  events: SocketEvents,
): Socket {
  let failure: SocketFailure | undefined;
  const { host } = new URL(url);
  const socket = new WebSocket(url, {
    ...(joinToken === "" ? {} : { headers: { Authorization: `Bearer ${joinToken}` } }),
    perMessageDeflate: false,
    handshakeTimeout: kHandshakeMs,
    createConnection: ((_: unknown, done: never) => {
      connector.connect(done);
    }) as never,
    // The mask keeps a page's script from writing what a proxy takes for a request. Inside of TLS
    // no proxy reads, so rows need not be copied for it.
    ...(connector.isEncrypted ? { generateMask: (mask: Buffer) => mask.fill(0) } : {}),
  });
  socket.on("open", () => events.onOpen());
  socket.on("message", (data: Buffer, isBinary: boolean) => {
    // Not a Buffer, whose slice() copies nothing. Text is nothing that the server sends: membership
    // refuses an empty message.
    const { buffer, byteOffset, length } = data;
    events.onMessage(new Uint8Array(buffer, byteOffset, isBinary ? length : 0));
  });
  socket.on("unexpected-response", (request, response) => {
    void refusalOf(response).then((refusal) => {
      failure = refusal;
      request.destroy();
      events.onClose(failure);
    });
  });
  socket.on("error", (error) => (failure ??= connectFailure(host, error)));
  socket.on("close", (code, reason) =>
    events.onClose(failure, { code, reason: reason.toString("utf8") }));
  return {
    send: (message) => socket.send(message),
    close: () => socket.close(),
  };
}

async function refusalOf(response: IncomingMessage): Promise<SocketFailure> {
  const { statusCode = 0 } = response;
  let text = "";
  try {
    for await (const piece of response.setEncoding("utf8")) {
      text += piece as string;
      if (text.length > kMostReason) break;
    }
  } catch {
    // The status must do.
  }
  const message = `The server refuses this worker (${statusCode}): ${sentenceOf(text)}`;
  return { message, isFinal: statusCode === 401 || statusCode === 403 };
}

function sentenceOf(body: string): string {
  try {
    const { error } = JSON.parse(body) as { error?: { message?: unknown } };
    if (typeof error?.message === "string") return error.message.slice(0, 300);
  } catch {
    // It is no JSON.
  }
  return body.slice(0, 100).trim() || "it gives no reason.";
}
