// HTTP to the worker's servers: the join token, failures as sentences, bodies in pieces. What the
// server that it is connected to cannot give is asked of the next one: digests tell whether it is
// right.
import { EngineError } from "@weft/engine";

import { readBody } from "./body.ts";
import type { AnswerBody, Body } from "./body.ts";

const kAttempts = 3;
const kPauseMs = 300;

// This is as much of a Response as is used.
export interface Answer {
  readonly ok: boolean;
  readonly status: number;
  readonly statusText: string;
  readonly body: AnswerBody | null;
  json(): Promise<unknown>;
}

export type Fetch = (url: string, init: RequestInit) => Promise<Answer>;

// Whether trying again may help.
function isNetworkFault(error: unknown): boolean {
  return error instanceof EngineError && error.code === "unavailable";
}

// Whether another server may have it.
function isElsewherePerhaps(error: unknown): boolean {
  return isNetworkFault(error) || (error instanceof EngineError && error.code === "not_found");
}

export interface ServerAddress {
  readonly origin: string;
  readonly joinToken: string; // "" where none is asked for
}

export class ServerHttp {
  readonly #origins: () => readonly string[];
  readonly #joinToken: string;
  readonly #fetch: Fetch;
  readonly #signal: AbortSignal;
  #failed = ""; // the origin that failed last

  // `origins`: of the servers, that of the connection first; one at least. `signal`: the end of
  // this worker.
  constructor(
    origins: () => readonly string[], joinToken: string, fetch: Fetch, signal: AbortSignal,
  ) {
    this.#origins = origins;
    this.#joinToken = joinToken;
    this.#fetch = fetch;
    this.#signal = signal;
  }

  // Whom the next request is for.
  get address(): ServerAddress {
    return { origin: this.#inOrder()[0]!, joinToken: this.#joinToken };
  }

  // The one that failed last is asked last.
  #inOrder(): string[] {
    const origins = this.#origins();
    const others = origins.filter((origin) => origin !== this.#failed);
    return others.length < origins.length ? [...others, this.#failed] : others;
  }

  // An answer with a body. Throws EngineError: permission_denied, not_found, unavailable,
  // cancelled. `signal` ends this one request.
  async get(
    path: string,
    headers: Record<string, string> = {},
    signal: AbortSignal | null = null,
  ): Promise<Answer> {
    const origins = this.#inOrder();
    for (const origin of origins.slice(0, -1)) {
      try {
        return await this.#getFrom(origin, path, headers, signal);
      } catch (error) {
        if (!isElsewherePerhaps(error)) throw error;
        this.#failed = origin;
      }
    }
    return await this.#getFrom(origins.at(-1)!, path, headers, signal);
  }

  async #getFrom(
    origin: string, path: string, headers: Record<string, string>, signal: AbortSignal | null,
  ): Promise<Answer> {
    const token = this.#joinToken;
    this.checkStopped(signal);
    let response: Answer;
    try {
      response = await this.#fetch(origin + path, {
        headers: token === "" ? headers : { ...headers, Authorization: `Bearer ${token}` },
        // The blob store is the cache; the browser's own would hold every weight twice.
        cache: "no-store",
        credentials: "omit",
        redirect: "error",
        signal: this.endOf(signal),
      });
    } catch {
      this.checkStopped(signal);
      throw new EngineError("unavailable", `The server does not answer for ${path}.`);
    }
    if (response.ok && response.body) return response;
    throw new EngineError(
      codeOf(response.status),
      `The server answered ${response.status} for ${path}: ${await messageOf(response)}`,
    );
  }

  // The whole body, at most `limit` bytes.
  async getBytes(path: string, limit: number): Promise<Uint8Array<ArrayBuffer>> {
    return await this.retrying(async () => {
      const parts: Uint8Array[] = [];
      let length = 0;
      for await (const piece of this.pieces(await this.get(path))) {
        length += piece.length;
        if (length > limit) {
          throw new EngineError("invalid_data", `${path} has more than ${limit} bytes.`);
        }
        parts.push(piece);
      }
      const bytes = new Uint8Array(length);
      let at = 0;
      for (const part of parts) {
        bytes.set(part, at);
        at += part.length;
      }
      return bytes;
    });
  }

  // The body in pieces that its reader asks for, none after `signal`. Throws EngineError where the
  // connection breaks.
  bodyOf(response: Answer, signal: AbortSignal | null): Body {
    const body = readBody(response.body!);
    const next = async (byteCount: number): Promise<Uint8Array<ArrayBuffer>> => {
      try {
        return await body.next(byteCount);
      } catch {
        this.checkStopped(signal);
        throw new EngineError("unavailable", "The connection broke during a download.");
      } finally {
        this.checkStopped(signal);
      }
    };
    return { next, end: () => body.end() };
  }

  // The body as it comes; ends with `cancelled` at the next piece after `signal`.
  async *pieces(
    response: Answer,
    signal: AbortSignal | null = null,
  ): AsyncGenerator<Uint8Array> {
    const reader = response.body!.getReader();
    try {
      for (;;) {
        const { done, value } = await reader.read();
        this.checkStopped(signal);
        if (done || !value) return;
        yield value;
      }
    } catch {
      this.checkStopped(signal);
      throw new EngineError("unavailable", "The connection broke during a download.");
    } finally {
      await reader.cancel().catch(() => undefined);
    }
  }

  // Calls again when the network failed, after short pauses.
  async retrying<T>(attempt: () => Promise<T>): Promise<T> {
    for (let count = 1; ; ++count) {
      try {
        return await attempt();
      } catch (error) {
        if (!isNetworkFault(error) || count >= kAttempts) throw error;
        this.#failed = this.#inOrder()[0]!;
        await new Promise((resolve) => setTimeout(resolve, count * kPauseMs));
        this.checkStopped();
      }
    }
  }

  // Bytes per second of the way down, measured for at most `limitMs`; 0: unknown.
  async measureDownload(byteCount: number, limitMs: number): Promise<number> {
    if (byteCount <= 0) return 0;
    try {
      const response = await this.get(`/probe?bytes=${byteCount}`);
      const begin = performance.now();
      let received = 0;
      for await (const piece of this.pieces(response)) {
        received += piece.length;
        if (performance.now() - begin >= limitMs) break;
      }
      return received / Math.max((performance.now() - begin) / 1000, 1e-4);
    } catch {
      return 0;
    }
  }

  // The end of this worker, or of what `signal` ends.
  endOf(signal: AbortSignal | null): AbortSignal {
    return signal ? AbortSignal.any([this.#signal, signal]) : this.#signal;
  }

  // Throws `cancelled` after the end of this worker, or of what `signal` ends.
  checkStopped(signal: AbortSignal | null = null): void {
    if (this.#signal.aborted) throw new EngineError("cancelled", "The worker was stopped.");
    if (signal?.aborted) throw new EngineError("cancelled", "The download was interrupted.");
  }
}

function codeOf(status: number): "permission_denied" | "not_found" | "unavailable" {
  if (status === 401 || status === 403) return "permission_denied";
  return status === 404 ? "not_found" : "unavailable";
}

// The sentence of an error answer of ours, or its status text.
async function messageOf(response: Answer): Promise<string> {
  try {
    const body = (await response.json()) as { error?: { message?: unknown } };
    const message = body.error?.message;
    if (typeof message === "string") return message.slice(0, 300);
  } catch {
    // It is no JSON: the status must do.
  }
  return response.statusText || "no reason given";
}
