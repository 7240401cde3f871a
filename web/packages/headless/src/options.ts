// The command line, as `weft worker --gpu` hands it on or a person writes it.
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import { parseArgs } from "node:util";

import type { Server } from "@weft/worker/threads/serverList.ts";

import { plainFingerprint } from "./server/connecting.ts";
import { kTokenVariable, parseAddress, UsageError } from "./server/address.ts";
import type { ServerAddress } from "./server/address.ts";
import { cacheFolder } from "./disk/folders.ts";
import { parseAdapter } from "./gpu/cards.ts";
import type { AdapterWish } from "./gpu/cards.ts";

export interface HelpOptions {
  readonly servers: readonly Server[]; // one at least, with the fingerprints that are trusted
  readonly joinToken: string;
  readonly isInsecure: boolean; // any certificate will do
  readonly name: string;
  readonly memoryBytes: number | null; // null: what the adapter has
  readonly adapter: AdapterWish | null; // null: the first GPU
  readonly cache: string;
  readonly allowSoftware: boolean;
  readonly wantsWhole: boolean;
  readonly apiKey: string; // "": this device has none
}

export type Command =
  | { readonly kind: "help" }
  | { readonly kind: "list"; readonly allowSoftware: boolean }
  | ({ readonly kind: "work" } & HelpOptions);

export const kHelp = `Helps a swarm with this machine's GPU, without a browser.

  weft worker --gpu wss://host:port [wss://another:port ...] [options]

Of several servers the next one is tried where one does not answer.

  --memory BYTES      memory to offer, e.g. 4GiB (default: most of what the GPU has free)
  --adapter WHICH     which GPU, one process for each: a number, a PCI address (0000:41:00.0), a
                      device file (/dev/nvidia1) or a UUID that the list shows
  --adapter list      names the adapters and what each could hold (also --list)
  --run-here          asks for the whole model on this GPU, where it fits; with the API key in
                      WEFT_API_KEY nobody else is asked
  --name NAME         name shown to the others (default: this machine's)
  --token TOKEN       join token (also after '#' in the address). Others on this machine may see it
                      in the moment before it is hidden: they never see one that is in
                      WEFT_JOIN_TOKEN or a file
  --token-file FILE   file whose first line is the join token
  --fingerprint HEX   SHA-256 of the server's self-signed certificate, as it prints it; of several
                      servers one for each in their order, or one for all
  --insecure          accept any certificate (only where nobody can interfere)
  --cache FOLDER      folder for downloaded weights (default: ${cacheFolder()})
  --allow-software    compute on a software adapter, too (for tests: it is slow)
`;

const kLongestToken = 256; // as servers take it

const kUnits: Readonly<Record<string, number>> = {
  "": 1, B: 1,
  KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12,
  K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40,
  KIB: 2 ** 10, MIB: 2 ** 20, GIB: 2 ** 30, TIB: 2 ** 40,
};

// "4GiB", "512M", "1000000" as bytes. Throws UsageError.
export function parseByteCount(text: string): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text) ?? [];
  const factor = unit === undefined ? undefined : kUnits[unit.toUpperCase()];
  const bytes = Math.floor(Number(number) * (factor ?? NaN));
  if (bytes > 0 && bytes <= 2 ** 50) return bytes;
  throw new UsageError(
    `'${text}' is no amount of memory; write 4GiB, 512MiB or a number of bytes.`,
  );
}

function parseFingerprint(text: string): string {
  const plain = plainFingerprint(text);
  if (plain === "" || /^[0-9a-f]{64}$/.test(plain)) return plain;
  throw new UsageError(`--fingerprint is '${text}'; expected 64 hexadecimal digits.`);
}

const kOptions = {
  memory: { type: "string" },
  adapter: { type: "string" },
  name: { type: "string" },
  token: { type: "string" },
  "token-file": { type: "string" },
  fingerprint: { type: "string", multiple: true },
  cache: { type: "string" },
  insecure: { type: "boolean" },
  list: { type: "boolean" },
  "allow-software": { type: "boolean" },
  "run-here": { type: "boolean" },
  help: { type: "boolean", short: "h" },
} as const;

// Throws UsageError.
export function parseOptions(
  args: readonly string[],
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Command {
  const { values, positionals } = parsed(args);
  if (values.help === true) return { kind: "help" };
  const allowSoftware = values["allow-software"] === true;
  if (values.list === true || values.adapter === "list") return { kind: "list", allowSoftware };
  if (positionals.length === 0) {
    throw new UsageError("An address is expected: wss://host:port#token (--help says more).");
  }
  const addresses = positionals.map(parseAddress);
  const ownToken = addresses.find((address) => address.joinToken !== "")?.joinToken ?? "";
  return {
    kind: "work",
    servers: serversOf(addresses, (values.fingerprint ?? []).map(parseFingerprint)),
    joinToken: values.token ?? tokenOfFile(values["token-file"]) ??
      (ownToken || environment[kTokenVariable] || ""),
    isInsecure: values.insecure === true,
    name: values.name ?? hostname(),
    memoryBytes: values.memory === undefined ? null : parseByteCount(values.memory),
    adapter: values.adapter === undefined ? null : parseAdapter(values.adapter),
    cache: values.cache ?? cacheFolder(),
    allowSoftware,
    wantsWhole: values["run-here"] === true,
    apiKey: environment["WEFT_API_KEY"] ?? "",
  };
}

function serversOf(
  addresses: readonly ServerAddress[], fingerprints: readonly string[],
): Server[] {
  if (fingerprints.length > 1 && fingerprints.length !== addresses.length) {
    throw new UsageError(
      `--fingerprint is given ${fingerprints.length} times for ${addresses.length} servers; ` +
        "expected one for all of them, or one for each in their order.",
    );
  }
  const forAll = fingerprints.length === 1 ? fingerprints[0] : undefined;
  return addresses.map(({ origin }, index) =>
    ({ origin, fingerprint: forAll ?? fingerprints[index] ?? "" }));
}

function tokenOfFile(path: string | undefined): string | undefined {
  if (path === undefined) return undefined;
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new UsageError(`The join token's file '${path}' cannot be read: ${why}.`);
  }
  const token = (text.split("\n")[0] ?? "").trim();
  if (token !== "" && token.length <= kLongestToken) return token;
  throw new UsageError(
    `The first line of '${path}' has ${token.length} characters, expected a join token of 1 to ` +
      `${kLongestToken}.`,
  );
}

// The same without secrets, for the command line of a process that is started with them in its
// environment: others than this user may read what a process was started with.
export function withoutSecrets(args: readonly string[]): string[] {
  const kept: string[] = [];
  for (let i = 0; i < args.length; i++) {
    const arg = args[i]!;
    if (arg === "--token" || arg === "--token-file") i++;
    else if (!/^--token(-file)?=/.test(arg)) kept.push(hasSecret(arg) ? arg.split("#")[0]! : arg);
  }
  return kept;
}

// Whether it shows a join token: "--token" itself, or an address with one.
export function hasSecret(arg: string): boolean {
  return /^--token(=|$)/.test(arg) || (arg.includes("://") && arg.includes("#"));
}

type Parsed = ReturnType<typeof parseArgs<{ options: typeof kOptions; allowPositionals: true }>>;

function parsed(args: readonly string[]): Parsed {
  try {
    return parseArgs({ args: [...args], options: kOptions, allowPositionals: true });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new UsageError(`${why} (--help says more)`);
  }
}
