// Connections to servers, with or without TLS. A caller gets the socket when the server is known to
// be the right one, so that no byte (and no token) reaches another.
import { readFileSync } from "node:fs";
import { connect as connectTcp } from "node:net";
import type { Socket } from "node:net";
import * as tls from "node:tls";

import type { Server } from "@weft/worker/threads/serverList.ts";

export interface Trust {
  // SHA-256 of the one certificate that is trusted, in hex; "": whom the system trusts.
  readonly fingerprint: string;
  readonly isInsecure: boolean; // any certificate will do
}

// The certificate is not the server's: another attempt would end in the same way.
export class NotTrustedError extends Error {}

export type OnConnected = (error: Error | null, socket?: Socket) => void;

const kConnectMs = 10_000;

// Where systems keep the certificates that they trust, for Node versions that do not know.
const kBundles = [
  "/etc/ssl/certs/ca-certificates.crt",
  "/etc/pki/tls/certs/ca-bundle.crt",
  "/etc/ssl/ca-bundle.pem",
  "/etc/ssl/cert.pem",
];

// "AA:BB" and "aabb" are one fingerprint.
export function plainFingerprint(text: string): string {
  return text.replaceAll(":", "").toLowerCase();
}

// Those that Node was built with are trusted on systems that tell nothing.
function systemCertificates(): readonly string[] {
  const { getCACertificates } = tls as { getCACertificates?: (type: string) => string[] };
  const own = process.env["SSL_CERT_FILE"];
  if (getCACertificates && own === undefined) {
    const known = getCACertificates("system");
    if (known.length > 0) return known;
  }
  for (const file of own === undefined ? kBundles : [own]) {
    try {
      return [readFileSync(file, "utf8")];
    } catch {
      // The next one may be there.
    }
  }
  return tls.rootCertificates;
}

export class Connector {
  readonly #url: URL;
  readonly #trust: Trust;
  #certificates: readonly string[] | null = null;

  constructor(origin: string, trust: Trust) {
    this.#url = new URL(origin);
    this.#trust = trust;
  }

  get isEncrypted(): boolean {
    return this.#url.protocol === "https:";
  }

  get hostname(): string {
    return this.#url.hostname.replace(/^\[|\]$/g, ""); // of an IPv6 address
  }

  get port(): number {
    return Number(this.#url.port) || (this.isEncrypted ? 443 : 80);
  }

  // `done` is called once.
  connect(done: OnConnected): void {
    const socket = this.isEncrypted ? this.#openTls() : connectTcp(this.port, this.hostname);
    socket.setNoDelay(true);
    const over = (error: Error | null): void => {
      clearTimeout(timer);
      socket.off("error", over);
      if (error) socket.destroy();
      done(error, ...(error ? [] : [socket]));
    };
    const seconds = kConnectMs / 1000;
    const tooLate = (): void => over(new Error(`no answer within ${seconds} s`));
    const timer = setTimeout(tooLate, kConnectMs);
    socket.once("error", over);
    if (socket instanceof tls.TLSSocket) {
      socket.once("secureConnect", () => over(this.#objection(socket)));
    } else {
      socket.once("connect", () => over(null));
    }
  }

  #openTls(): tls.TLSSocket {
    const { fingerprint, isInsecure } = this.#trust;
    const asksSystem = fingerprint === "" && !isInsecure;
    const isName = /[a-z]/i.test(this.hostname) && !this.hostname.includes(":");
    if (asksSystem) this.#certificates ??= systemCertificates();
    return tls.connect({
      host: this.hostname,
      port: this.port,
      rejectUnauthorized: asksSystem,
      ...(isName ? { servername: this.hostname } : {}),
      ...(this.#certificates ? { ca: [...this.#certificates] } : {}),
    });
  }

  #objection(socket: tls.TLSSocket): Error | null {
    const { fingerprint } = this.#trust;
    if (fingerprint === "") return null;
    const shown = plainFingerprint(socket.getPeerCertificate().fingerprint256 ?? "");
    if (shown === plainFingerprint(fingerprint)) return null;
    return new NotTrustedError(
      `The server's certificate has the fingerprint ${shown || "of none"}, not ` +
        `${plainFingerprint(fingerprint)}: this is not the server of that link, or it has a new ` +
        `certificate. Take the line that it prints now.`,
    );
  }
}

// A connector for each server that is known. The certificate that a server named for another one
// counts for that address alone.
export class Connectors {
  readonly #isInsecure: boolean;
  readonly #given = new Set<string>(); // origins
  readonly #known = new Map<string, { connector: Connector; fingerprint: string }>();

  // `given`: by the user, with the fingerprints that are trusted.
  constructor(given: readonly Server[], isInsecure: boolean) {
    this.#isInsecure = isInsecure;
    this.know(given);
    for (const { origin } of given) this.#given.add(origin);
  }

  // What the user gave stays as it is, and what is known stays where nothing else is said.
  know(servers: readonly Server[]): void {
    for (const { origin, fingerprint } of servers) {
      const known = this.#known.get(origin);
      const isNews = fingerprint !== "" && fingerprint !== known?.fingerprint;
      if (this.#given.has(origin) || (known && !isNews)) continue;
      const connector = new Connector(origin, { fingerprint, isInsecure: this.#isInsecure });
      this.#known.set(origin, { connector, fingerprint });
    }
  }

  // The connector for this address. Throws where its server is not known.
  of(url: string): Connector {
    const { protocol, host } = new URL(url);
    const origin = `${protocol.replace(/^ws/, "http")}//${host}`;
    const known = this.#known.get(origin);
    if (!known) throw new Error(`The server ${origin} is not known.`);
    return known.connector;
  }
}

// Why there is no connection, as a sentence, and whether there never will be one.
export function connectFailure(
  host: string,
  error: Error & { code?: string },
): { message: string; isFinal: boolean } {
  if (error instanceof NotTrustedError) return { message: error.message, isFinal: true };
  const { code = "" } = error;
  if (/CERT|SIGNATURE|ALTNAME/.test(code)) {
    const message =
      `The certificate of ${host} is not trusted (${error.message}): a weft server's own is ` +
      `trusted with --fingerprint and the SHA-256 that it prints.`;
    return { message, isFinal: true };
  }
  return { message: `${host} cannot be reached (${code || error.message}).`, isFinal: false };
}
