// The handshake of a connection, from Init to Connect: whether both sides speak the same versions,
// the manifest, the speed of the link, and what this device offers. Has no socket and no queue.
import { EngineError } from "@weft/engine";
import { kPackageFormat, kProgramVersion, kProtocolVersion } from "@weft/wire";
import type { Init, encodeWorkerMessage } from "@weft/wire";

import type { Manifest } from "../download/manifest.ts";
import { memoryFactor } from "../stage/memoryFactor.ts";
import type { PackageSource } from "../download/packageSource.ts";
import { toHex } from "../download/sha256.ts";

// Why a session is over. `refused`: trying again would not help.
export interface Ending {
  readonly kind: "refused" | "retry";
  readonly message: string;
}

// What this device says of itself.
export interface Offer {
  readonly name: string;
  readonly device: string;
  readonly workerId: string;
  readonly joinToken: string;
  readonly memoryBytes: number;
  readonly engineName: string; // what makeEngine will give
  readonly needsOnnx: boolean;
  // Of the weights alone, before anything was loaded.
  readonly guessWeightFactor: (quantisation: string) => number;
}

export type WorkerKind = Parameters<typeof encodeWorkerMessage>[0];

// null when both sides speak the same versions.
export function versionMismatch(init: Init): Ending | null {
  const pairs: [string, number, number][] = [
    ["protocol", init.protocolVersion, kProtocolVersion],
    ["program", init.programVersion, kProgramVersion],
    ["package format", init.packageFormat, kPackageFormat],
  ];
  for (const [what, theirs, ours] of pairs) {
    if (theirs === ours) continue;
    const message =
      `The server speaks ${what} version ${theirs}, this page version ${ours}: ` +
      (theirs > ours ? "reload the page." : "reload the page, or update weft on the server.");
    return { kind: "refused", message };
  }
  return null;
}

// The package that Init named, or why it cannot be had.
export async function fetchManifest(init: Init, source: PackageSource): Promise<Manifest | Ending> {
  let manifest: Manifest;
  try {
    manifest = await source.fetchManifest(toHex(init.packageDigest));
  } catch (error) {
    const code = error instanceof EngineError ? error.code : "unavailable";
    const isFinal = code === "permission_denied" || code === "unsupported";
    return { kind: isFinal ? "refused" : "retry", message: messageOf(error) };
  }
  if (manifest.layers.length === init.layerCount) return manifest;
  const message =
    `The package has ${manifest.layers.length} layers, the server announced ` +
    `${init.layerCount}.`;
  return { kind: "retry", message };
}

export function connectMessage(
  init: Init,
  manifest: Manifest,
  offer: Offer,
  cachedLayers: number[],
  downloadBytesPerS: number,
): WorkerKind {
  const guess = offer.guessWeightFactor(manifest.quantisation);
  return {
    case: "connect",
    value: {
      protocolVersion: kProtocolVersion,
      programVersion: kProgramVersion,
      packageFormat: kPackageFormat,
      kind: "web",
      engine: offer.engineName,
      name: offer.name,
      device: offer.device,
      memoryBytes: BigInt(offer.memoryBytes),
      weightFactor: memoryFactor(manifest, init, guess, null),
      downloadBytesPerS,
      joinToken: offer.joinToken,
      cachedLayers,
      needsOnnx: offer.needsOnnx,
      workerId: offer.workerId,
    },
  };
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
