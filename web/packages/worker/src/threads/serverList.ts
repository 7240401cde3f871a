// Where a worker finds its swarm: the addresses that it was given, then those that the server named
// as its successors (Init). After a failure the next one is tried, round and round.
//
//   given a; a names b and c          tried after a has gone
//   a, and b and c since its Init     b, c and a at once each, then b, c, a, ... with pauses
//
// The first try of each address has no pause; whoever asks knows the others (backoff.ts). What a
// server names counts as far as it is no worse than what was given: who came over TLS is never sent
// elsewhere without it. The same in C++: src/apps/server_list.h.
import type { Successor } from "../membership/events.ts";

const kMostSuccessors = 8;
const kLongestUrl = 300; // characters: names have 253 at most

const kSchemes: Readonly<Record<string, string>> = {
  "ws:": "http:", "wss:": "https:", "http:": "http:", "https:": "https:",
};

export interface Server {
  readonly origin: string; // "https://host:port"
  // SHA-256 of its own certificate, in hex, that counts for this address alone; "": as for those
  // that were given.
  readonly fingerprint: string;
}

export class ServerList {
  readonly #given: readonly Server[];
  #all: Server[]; // those that were given first
  #current = 0; // of all
  #tried: Set<string>; // origins, since settle

  // One at least. The first one is the current one, and counts as tried.
  constructor(given: readonly Server[]) {
    this.#given = given;
    this.#all = [...given];
    this.#tried = new Set([given[0]!.origin]);
  }

  // The one that is tried, or that the worker is connected to.
  get current(): Server {
    return this.#all[this.#current]!;
  }

  // All of them, the current one first.
  inOrder(): Server[] {
    return [...this.#all.slice(this.#current), ...this.#all.slice(0, this.#current)];
  }

  // Takes these in place of those that were named before; the current one stays. Those beyond the
  // first few, and those that cannot be used, are left out.
  setSuccessors(successors: readonly Successor[]): void {
    const { current } = this;
    const usable = successors
      .map(({ url, fingerprint }) => this.#accepted(url, fingerprint))
      .filter((server) => server !== null)
      .slice(0, kMostSuccessors);
    this.#all = [];
    for (const server of [...this.#given, current, ...usable]) this.#add(server);
    this.#current = this.#find(current.origin);
  }

  // The current one has failed: the next one is the current one. True: it was not tried since
  // settle.
  next(): boolean {
    return this.#try((this.#current + 1) % this.#all.length);
  }

  // The same, with the one that the server named, where that can be used: "wss://b:8443", behind
  // it "#" and the fingerprint of its own certificate (src/wire/elsewhere.h). An address that is
  // known keeps the certificate that is known.
  nextIs(reason: string): boolean {
    const [url = "", fingerprint] = reason.split("#", 2);
    const isWhole = fingerprint === undefined || /^[0-9a-f]{64}$/.test(fingerprint);
    const server = isWhole ? this.#accepted(url, fingerprint ?? "") : null;
    if (!server) return this.next();
    if (this.#all.length <= this.#given.length + kMostSuccessors) this.#add(server);
    const found = this.#find(server.origin);
    return found < 0 ? this.next() : this.#try(found);
  }

  // A connection was good: all others count as not tried.
  settle(): void {
    this.#tried = new Set([this.current.origin]);
  }

  #try(index: number): boolean {
    this.#current = index;
    const { origin } = this.current;
    const isFirst = !this.#tried.has(origin);
    this.#tried.add(origin);
    return isFirst;
  }

  #find(origin: string): number {
    return this.#all.findIndex((server) => server.origin === origin);
  }

  #add(server: Server): void {
    if (this.#find(server.origin) < 0) this.#all.push(server);
  }

  // Null: it cannot be used.
  #accepted(text: string, fingerprint: string): Server | null {
    if (text.length > kLongestUrl || !URL.canParse(text)) return null;
    const url = new URL(text);
    const scheme = kSchemes[url.protocol];
    if (scheme === undefined || url.hostname === "") return null;
    const isTls = this.#given[0]!.origin.startsWith("https:");
    if (isTls && scheme !== "https:") return null;
    const { host } = new URL(`${scheme}//${url.host}`); // without a port that goes without saying
    return { origin: `${scheme}//${host}`, fingerprint };
  }
}
