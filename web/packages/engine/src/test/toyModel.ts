// Programs made in a test, as the bytes that a package would hold, with their weights: a
// WeightSource. Tests only.
import { create, toBinary } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";

import { ProgramSchema } from "../../gen/program/program_pb.ts";
import { kProgramVersion } from "../program/ir.ts";
import type { WeightSource } from "../stage/stageEngine.ts";
import type { WeightArrays } from "./caseInputs.ts";

type ProgramInit = MessageInitShape<typeof ProgramSchema>;

interface PartInit {
  readonly digest: Uint8Array;
  readonly offset: bigint;
  readonly byteCount: bigint;
}

export interface ToyLayer {
  readonly buffers: readonly number[]; // columns
  readonly weights: readonly WeightArrays[];
  readonly ops: NonNullable<ProgramInit["ops"]>;
  readonly input: number | null;
  readonly output: number;
}

export class ToyModel implements WeightSource {
  readonly #blobs = new Map<string, Uint8Array<ArrayBuffer>>();
  readonly #programs = new Map<number, string>();
  readonly #keepsWeights: boolean;
  #digestCount = 0;

  // Without `keepsWeights` there are programs only, whose weights another source makes up.
  constructor(layers: ReadonlyMap<number, ToyLayer>, keepsWeights = true) {
    this.#keepsWeights = keepsWeights;
    for (const [index, layer] of layers) this.#programs.set(index, this.#program(index, layer));
  }

  #add(bytes: Uint8Array<ArrayBuffer>, isWeight = true): string {
    const digest = (++this.#digestCount).toString(16).padStart(64, "0");
    if (this.#keepsWeights || !isWeight) this.#blobs.set(digest, bytes);
    return digest;
  }

  // An array as two parts in different blobs, the first one not at the blob's begin.
  #parts(bytes: Uint8Array<ArrayBuffer>): PartInit[] {
    if (bytes.length === 0) return [];
    const cut = Math.min(bytes.length, Math.max(1, Math.floor(bytes.length / 3)));
    const shifted = new Uint8Array(cut + 3);
    shifted.set(bytes.subarray(0, cut), 3);
    const part = (blob: Uint8Array<ArrayBuffer>, offset: number) => ({
      digest: Uint8Array.from(Buffer.from(this.#add(blob), "hex")),
      offset: BigInt(offset),
      byteCount: BigInt(blob.length - offset),
    });
    const rest = bytes.slice(cut);
    return rest.length === 0 ? [part(shifted, 3)] : [part(shifted, 3), part(rest, 0)];
  }

  #program(index: number, layer: ToyLayer): string {
    const message = create(ProgramSchema, {
      version: kProgramVersion,
      layerIndex: index,
      buffers: layer.buffers.map((columns, id) => ({ name: `b${id}`, columns })),
      weights: layer.weights.map(({ dtype, shape, data, scale, zero }, id) => ({
        name: `w${id}`,
        dtype,
        shape: shape.map(BigInt),
        data: this.#parts(data),
        scale: this.#parts(scale),
        zero: this.#parts(zero),
      })),
      ops: layer.ops,
      ...(layer.input === null ? {} : { input: layer.input }),
      output: layer.output,
    });
    return this.#add(Uint8Array.from(toBinary(ProgramSchema, message)), false);
  }

  programBytes(layer: number): Uint8Array<ArrayBuffer> {
    return this.#blobs.get(this.layerProgram(layer))!;
  }

  readBlob(digest: string): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = this.#blobs.get(digest);
    return bytes ? Promise.resolve(bytes) : Promise.reject(new Error(`no blob ${digest}`));
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

  readGraph(): Promise<Uint8Array<ArrayBuffer>> {
    return Promise.reject(new Error("a toy model has no graph"));
  }

  layerBlobs(): readonly string[] {
    return [];
  }

  layerProgram(layer: number): string {
    return this.#programs.get(layer) ?? "";
  }

  layerKvBytes(): number {
    return 0;
  }
}
