// A model that `weft onnx-split` cut into layers, as a WeightSource, and its reference: tests only.
import { readFileSync } from "node:fs";
import { join } from "node:path";

import type { LayerRange, WeightSource } from "@weft/engine";

export class SplitModel implements WeightSource {
  readonly layerCount: number;
  readonly hiddenColumns: number;
  readonly #folder: string;
  readonly #kvBytes: number;

  // `kvColumns`: kv heads times head columns.
  constructor(folder: string, kvColumns: number) {
    this.#folder = folder;
    this.#kvBytes = kvColumns * 4;
    const split = JSON.parse(readFileSync(join(folder, "split.json"), "utf8")) as {
      layers: number;
      hidden_size: number;
    };
    this.layerCount = split.layers;
    this.hiddenColumns = split.hidden_size;
  }

  readGraph({ first, end }: LayerRange): Promise<Uint8Array<ArrayBuffer>> {
    return Promise.resolve(
      new Uint8Array(readFileSync(join(this.#folder, `part_${first}_${end}.onnx`))),
    );
  }

  readBlob(digest: string): Promise<Uint8Array<ArrayBuffer>> {
    return Promise.resolve(new Uint8Array(readFileSync(join(this.#folder, digest))));
  }

  async readRange(
    digest: string,
    offset: number,
    byteCount: number,
  ): Promise<Uint8Array<ArrayBuffer>> {
    return (await this.readBlob(digest)).slice(offset, offset + byteCount);
  }

  loaded(): Promise<void> {
    return Promise.resolve();
  }

  // External data is named by digest: 64 hexadecimal digits in the graph's bytes.
  layerBlobs(layer: number): readonly string[] {
    const text = readFileSync(join(this.#folder, `part_${layer}_${layer + 1}.onnx`), "latin1");
    return [...new Set<string>(text.match(/(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])/g) ?? [])];
  }

  layerProgram(): string {
    return "";
  }

  layerKvBytes(layer: number): number {
    return layer === 0 || layer === this.layerCount - 1 ? 0 : this.#kvBytes;
  }
}

// A tensor of a safetensors file as numbers.
export function readSafetensor(file: string, name: string): { shape: number[]; values: number[] } {
  const bytes = readFileSync(file);
  const headerBytes = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.toString("utf8", 8, 8 + headerBytes)) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >;
  const entry = header[name];
  if (!entry) throw new Error(`${file} has no tensor ${name}`);
  const [begin, end] = entry.data_offsets;
  const data = bytes.subarray(8 + headerBytes + begin, 8 + headerBytes + end);
  const values: number[] = [];
  const width = entry.dtype === "I64" ? 8 : 4;
  for (let at = 0; at < data.length; at += width) {
    values.push(width === 8 ? Number(data.readBigInt64LE(at)) : data.readFloatLE(at));
  }
  return { shape: entry.shape, values };
}
