// What happens from Init to Connect: whether both sides speak the same versions, the manifest, the
// speed of the link, and what this device offers. Has no socket and no queue.
import { EngineError } from "@weft/engine";
import { kProtocolVersion } from "@weft/wire";
import type { Init } from "@weft/wire";

import type { Manifest } from "../download/manifest.ts";
import type { PackageSource } from "../download/packageSource.ts";
import { toHex } from "../download/sha256.ts";
import type { ConnectKind, Ending, JoinedAs } from "../membership/events.ts";
import { packageProblemOf } from "../membership/initCheck.ts";
import { memoryFactor } from "../stage/memoryFactor.ts";

// What this device says of itself.
export interface Offer {
  readonly kind: "web" | "headless";
  readonly name: string;
  readonly device: string;
  readonly workerId: string;
  readonly joinToken: string;
  readonly memoryBytes: number;
  readonly engineName: string; // what makeEngine will give
  readonly needsOnnx: boolean;
  readonly makesTokens: number; // sessions whose tokens it makes in one batch; 0: it knows none
  readonly takesExperts: boolean; // holds experts for hubs, or is one that asks the server
  readonly keepsState: boolean; // runs layers with recurrent state
  readonly statesAhead: boolean; // makesTokens holds for models with such layers, too
  readonly dtypes: readonly number[]; // of weights beside f32, f16, bf16, q8 and q4 that it runs
  // A guess for the weights alone, before anything was loaded.
  readonly guessWeightFactor: (quantisation: string) => number;
}

const kProbeLimitMs = 2000;

export interface JoiningParts {
  readonly offer: Offer;
  readonly source: PackageSource;
  // Bytes per second of `byteCount` bytes, measured for at most `limitMs`; 0: unknown.
  readonly measureDownload: (byteCount: number, limitMs: number) => Promise<number>;
}

// The manifest, and the Connect to send; or why there is none.
export async function join(
  init: Init,
  { offer, source, measureDownload }: JoiningParts,
): Promise<{ manifest: Manifest; as: JoinedAs } | Ending> {
  const manifest = await fetchManifest(init, source);
  if ("kind" in manifest) return manifest;
  if (!offer.needsOnnx && !manifest.lowered) {
    const message = "This model has no programs, only ONNX graphs.";
    return { kind: "notLowered", message };
  }
  const rate = await measureDownload(Number(init.probeBytes), kProbeLimitMs);
  const connect = connectMessage(init, manifest, offer, source.downloadedLayers(), rate);
  const layerBytes = manifest.layers.map(({ weightBytes }) => weightBytes);
  return { manifest, as: { connect, layerBytes } };
}

// The package that Init named, or why it cannot be had.
async function fetchManifest(init: Init, source: PackageSource): Promise<Manifest | Ending> {
  let manifest: Manifest;
  try {
    manifest = await source.fetchManifest(toHex(init.packageDigest));
  } catch (error) {
    const code = error instanceof EngineError ? error.code : "unavailable";
    const isFinal = code === "permission_denied" || code === "unsupported";
    const message = error instanceof Error ? error.message : String(error);
    return { kind: isFinal ? "refused" : "retry", message };
  }
  return packageProblemOf(init, manifest.layers.length) ?? manifest;
}

function connectMessage(
  init: Init,
  manifest: Manifest,
  offer: Offer,
  cachedLayers: number[],
  downloadBytesPerS: number,
): ConnectKind {
  const guess = offer.guessWeightFactor(manifest.quantisation);
  return {
    case: "connect",
    value: {
      protocolVersion: kProtocolVersion,
      programVersion: init.programVersion,
      kind: offer.kind,
      engine: offer.engineName,
      name: offer.name,
      device: offer.device,
      memoryBytes: BigInt(offer.memoryBytes),
      weightFactor: memoryFactor(manifest, init, guess, null),
      downloadBytesPerS,
      joinToken: offer.joinToken,
      cachedLayers,
      needsOnnx: offer.needsOnnx,
      makesTokens: offer.makesTokens,
      takesExperts: offer.takesExperts,
      runsGroups: !offer.needsOnnx,
      dividesHeads: offer.takesExperts,
      dividesProducts: offer.takesExperts,
      halfRows: offer.takesExperts,
      sumSteps: offer.takesExperts,
      integerRows: offer.takesExperts,
      rowsToServer: offer.takesExperts,
      keepsState: offer.keepsState,
      statesAhead: offer.statesAhead,
      dtypes: [...offer.dtypes],
      workerId: offer.workerId,
    },
  };
}
