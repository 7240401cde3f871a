// What a helper would compute: from the package's manifest, which the join token opens too.
import { effect, signal } from "@preact/signals";
import { apiKey, joinToken } from "../api/secrets.ts";

export interface JoinModel {
  name: string;
  quantisation: string;
  layerCount: number; // embedding and head included
  weightBytes: number;
}

export type ModelState =
  | { kind: "asking" }
  | { kind: "known"; model: JoinModel }
  | { kind: "tokenWanted"; wasRefused: boolean }
  | { kind: "unreachable"; sentence: string };

export const modelState = signal<ModelState>({ kind: "asking" });

export function readManifest(json: unknown): JoinModel | null {
  if (typeof json !== "object" || json === null) return null;
  const manifest = json as Partial<Record<string, unknown>>;
  const { name, quantisation, layers, blobs } = manifest;
  if (typeof name !== "string" || !Array.isArray(layers)) return null;
  if (typeof blobs !== "object" || blobs === null) return null;
  let weightBytes = 0;
  for (const blob of Object.values(blobs as Record<string, unknown>)) {
    if (typeof blob !== "object" || blob === null || !("byte_count" in blob)) continue;
    if (typeof blob.byte_count === "number") weightBytes += blob.byte_count;
  }
  return {
    name,
    quantisation: typeof quantisation === "string" ? quantisation : "",
    layerCount: layers.length,
    weightBytes,
  };
}

async function askForModel(secret: string): Promise<ModelState> {
  try {
    const response = await fetch("/package/weft.json", {
      credentials: "omit",
      headers: secret === "" ? {} : { Authorization: `Bearer ${secret}` },
    });
    if (response.status === 401) return { kind: "tokenWanted", wasRefused: secret !== "" };
    if (!response.ok) {
      const sentence = `The server answered with status ${response.status}.`;
      return { kind: "unreachable", sentence };
    }
    const model = readManifest(await response.json());
    return model ? { kind: "known", model }
      : { kind: "unreachable", sentence: "The server described its model in an unknown way." };
  } catch {
    return { kind: "unreachable", sentence: "The server does not answer." };
  }
}

let isWatching = false;

export function reloadModel(): void {
  const secret = joinToken.peek() || apiKey.peek();
  void askForModel(secret).then((state) => {
    modelState.value = state;
  });
}

// Asks now and whenever another secret is there.
export function watchModel(): void {
  if (isWatching) return;
  isWatching = true;
  effect(() => {
    void joinToken.value;
    void apiKey.value;
    reloadModel();
  });
}
