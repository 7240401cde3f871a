// HTTP to the servers, over connections that stay open: what the tab's fetch is to the downloader,
// with the certificates of connecting.ts.
import { Agent, request } from "node:http";
import type { ClientRequest, IncomingMessage } from "node:http";

import type { AnswerReader } from "@weft/worker/download/body.ts";
import type { Answer, Fetch } from "@weft/worker/download/serverHttp.ts";

import type { Connector, OnConnected } from "./connecting.ts";
import { connectFailure } from "./connecting.ts";

const kSilentMs = 30_000; // without any byte moving

class ConnectorAgent extends Agent {
  readonly protocol: string;
  readonly #connector: Connector;

  constructor(connector: Connector) {
    super({ keepAlive: true });
    this.#connector = connector;
    this.protocol = connector.isEncrypted ? "https:" : "http:";
  }

  // Called by Agent for every connection that it needs.
  override createConnection(_: unknown, done?: unknown): null {
    this.#connector.connect(done as OnConnected);
    return null; // it comes later
  }
}

// `connectorOf` gives the connector for a URL, the same one for the same server.
export function nodeFetch(connectorOf: (url: string) => Connector): Fetch {
  const agents = new Map<Connector, ConnectorAgent>();
  return (url, { headers, signal }) =>
    new Promise<Answer>((resolve, reject) => {
      const connector = connectorOf(url);
      const agent = agents.get(connector) ?? new ConnectorAgent(connector);
      agents.set(connector, agent);
      const { host, pathname, search, protocol } = new URL(url);
      const call: ClientRequest = request(
        {
          agent,
          protocol,
          host: connector.hostname,
          port: connector.port,
          path: pathname + search,
          headers: { ...(headers as Record<string, string>), Host: host },
          ...(signal ? { signal } : {}),
        },
        (message) => resolve(answerOf(message)),
      );
      call.setTimeout(kSilentMs, () => call.destroy(new Error("the server is silent")));
      call.once("error", (error) => reject(new Error(connectFailure(host, error).message)));
      call.end();
    });
}

function answerOf(message: IncomingMessage): Answer {
  const { statusCode: status = 0, statusMessage: statusText = "" } = message;
  return {
    ok: status >= 200 && status < 300,
    status,
    statusText,
    body: { getReader: () => readerOf(message) },
    json: async () => {
      const pieces: Uint8Array[] = [];
      for await (const piece of message) pieces.push(piece as Uint8Array);
      return JSON.parse(Buffer.concat(pieces).toString("utf8")) as unknown;
    },
  };
}

function readerOf(message: IncomingMessage): AnswerReader {
  const pieces = message[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
  return {
    read: async () => {
      const { done, value } = (await pieces.next()) as { done?: boolean; value?: Uint8Array };
      return { done: done === true, value };
    },
    cancel: () => {
      if (!message.complete) message.destroy();
      return Promise.resolve();
    },
  };
}
