// A package folder on disk as a WeightSource: tests and benchmarks under Node.
import { closeSync, openSync, readFileSync, readSync, statSync } from "node:fs";
import { join } from "node:path";

import type { WeightSource } from "../stage/stageEngine.ts";

interface ManifestLayer {
  readonly program: string;
  readonly blobs: readonly string[];
  readonly kv_bytes_per_position: number;
}

export interface FolderManifest {
  readonly name: string;
  readonly quantisation: string;
  readonly boundary_dtype: "f32" | "f16" | "bf16";
  readonly hidden_columns: number;
  readonly vocabulary: number;
  readonly layers: readonly ManifestLayer[];
}

export class PackageFolder implements WeightSource {
  readonly manifest: FolderManifest;
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    this.manifest = JSON.parse(readFileSync(join(folder, "weft.json"), "utf8")) as FolderManifest;
  }

  get range(): { first: number; end: number } {
    return { first: 0, end: this.manifest.layers.length };
  }

  readBlob(digest: string): Promise<Uint8Array<ArrayBuffer>> {
    const { size } = statSync(join(this.#folder, "blobs", digest));
    return this.readRange(digest, 0, size);
  }

  readRange(digest: string, offset: number, byteCount: number): Promise<Uint8Array<ArrayBuffer>> {
    const file = openSync(join(this.#folder, "blobs", digest), "r");
    try {
      const bytes = new Uint8Array(byteCount);
      const read = readSync(file, bytes, 0, byteCount, offset);
      if (read === byteCount) return Promise.resolve(bytes);
      throw new Error(`blob ${digest} is short: ${read} of ${byteCount} bytes`);
    } finally {
      closeSync(file);
    }
  }

  loaded(): Promise<void> {
    return Promise.resolve();
  }

  readGraph(): Promise<Uint8Array<ArrayBuffer>> {
    return Promise.reject(new Error("this source has no graphs"));
  }

  layerBlobs(layer: number): readonly string[] {
    return this.manifest.layers[layer]?.blobs ?? [];
  }

  layerProgram(layer: number): string {
    return this.manifest.layers[layer]?.program ?? "";
  }

  layerKvBytes(layer: number): number {
    return this.manifest.layers[layer]?.kv_bytes_per_position ?? 0;
  }
}
