// Where a swarm is, as its join link and `weft worker` write it.

// What a person wrote cannot be used: shown without a stack.
export class UsageError extends Error {}

// Where a process finds its join token that was not told one.
export const kTokenVariable = "WEFT_JOIN_TOKEN";

export interface ServerAddress {
  readonly origin: string; // "https://host:port"
  readonly joinToken: string; // "" where the address has none
}

const kSchemes: Readonly<Record<string, string>> = {
  "ws:": "http:",
  "wss:": "https:",
  "http:": "http:",
  "https:": "https:",
};

// "wss://host:port#token", or a join link: its path does not count. Throws UsageError.
export function parseAddress(text: string): ServerAddress {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new UsageError(`'${text}' is no address; expected wss://host:port#token.`);
  }
  const scheme = kSchemes[url.protocol];
  if (scheme === undefined || url.hostname === "") {
    throw new UsageError(`'${text}' is no address of a swarm; expected wss://host:port#token.`);
  }
  const { host } = new URL(`${scheme}//${url.host}`); // without a port that goes without saying
  return { origin: `${scheme}//${host}`, joinToken: url.hash.slice(1) };
}
