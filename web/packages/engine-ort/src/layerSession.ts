// One layer of the model as one onnxruntime session.
//
// A session for each layer, not for each stage: a new plan then loads and frees layers without
// building anything twice, keys and values belong to their layer, only one layer's blobs are in
// memory beside the heap while loading, and the head runs for the rows that need it only. Measured
// on weft-tiny's 8 layers in wasm: 10.1 ms a token against 10.3 ms with one session, heap 50 MB
// against 73 MB.
import type { InferenceSession, Tensor } from "onnxruntime-web";

import { EngineError } from "@weft/engine";
import type { WeightSource } from "@weft/engine";

import { reason } from "./runtime.ts";
import type { OrtModule, OrtRuntime, Provider } from "./runtime.ts";

export type FloatType = "float32" | "float16";

// A cache input of the graph, [1, kv heads, positions, head columns], and the output that replaces
// it.
export interface StateSpec {
  readonly input: string;
  readonly output: string;
  readonly type: FloatType;
  readonly heads: number;
  readonly headColumns: number;
}

type Role = "tokens" | "hidden" | "mask" | "positions";
type Metadata = InferenceSession.ValueMetadata;

const kRoles: Readonly<Record<string, Role>> = {
  input_ids: "tokens",
  hidden_in: "hidden",
  attention_mask: "mask",
  position_ids: "positions",
};

// `rows` rows behind `past` positions of one session.
export interface LayerInput {
  readonly rows: number;
  readonly past: number;
  readonly value: Tensor; // token ids i64 [1, rows] or the residual stream [1, rows, columns]
  readonly states: readonly Tensor[]; // one of each StateSpec
}

export interface LayerOutput {
  readonly value: Tensor; // residual stream or logits, [1, rows, columns]
  readonly states: Tensor[];
}

export class LayerSession {
  readonly layer: number;
  readonly blobBytes: number;
  readonly states: readonly StateSpec[];
  readonly givesLogits: boolean;
  readonly #ort: OrtModule;
  readonly #session: InferenceSession;
  readonly #inputs: { name: string; role: Role; type: string }[] = [];
  readonly #outputName: string;

  private constructor(
    ort: OrtModule,
    session: InferenceSession,
    layer: number,
    blobBytes: number,
    kvBytes: number,
  ) {
    this.#ort = ort;
    this.#session = session;
    this.layer = layer;
    this.blobBytes = blobBytes;
    const stateInputs: Metadata[] = [];
    for (const input of session.inputMetadata) {
      const role = kRoles[input.name];
      if (role) this.#inputs.push({ name: input.name, role, type: typeOf(input) });
      else stateInputs.push(input);
    }
    const isState = (name: string): boolean => /\d/.test(name);
    const values = session.outputMetadata.filter((output) => !isState(output.name));
    this.states = pairStates(
      layer,
      stateInputs,
      session.outputMetadata.filter((output) => isState(output.name)),
      kvBytes,
    );
    const value = values[0];
    if (!value || values.length > 1) {
      throw new EngineError(
        "unsupported",
        `The graph of layer ${layer} has ${values.length} outputs besides its caches, expected 1.`,
      );
    }
    this.#outputName = value.name;
    this.givesLogits = value.name !== "hidden_out";
  }

  // Reads the layer's graph and blobs and builds its session.
  static async create(
    runtime: OrtRuntime,
    layer: number,
    source: WeightSource,
    reserve: (bytes: number) => () => void,
  ): Promise<LayerSession> {
    const graph = await source.readGraph({ first: layer, end: layer + 1 });
    const externalData: { path: string; data: Uint8Array }[] = [];
    const releases: (() => void)[] = [];
    let blobBytes = 0;
    try {
      for (const digest of source.layerBlobs(layer)) {
        const data = await source.readBlob(digest);
        releases.push(reserve(data.length));
        blobBytes += data.length;
        externalData.push({ path: digest, data });
      }
      const session = await createSession(runtime, graph, externalData);
      return new LayerSession(
        runtime.ort,
        session,
        layer,
        blobBytes,
        source.layerKvBytes(layer),
      );
    } catch (error) {
      if (error instanceof EngineError) throw error;
      throw new EngineError(
        isOutOfMemory(error) ? "out_of_memory" : "unsupported",
        `onnxruntime-web cannot load layer ${layer}: ${reason(error)}`,
      );
    } finally {
      for (const release of releases) release();
    }
  }

  // Type of the residual stream that the layer takes; "int64" or "int32" for token ids.
  get inputType(): string {
    return this.#inputs.find(({ role }) => role === "hidden" || role === "tokens")?.type ?? "";
  }

  get takesTokens(): boolean {
    return this.#inputs.some(({ role }) => role === "tokens");
  }

  // The caches' tensors are taken over by the caller, `input`'s stay his.
  async run(input: LayerInput, wantsValue: boolean): Promise<LayerOutput> {
    const feeds: Record<string, Tensor> = {};
    for (const { name, role, type } of this.#inputs) {
      feeds[name] = this.#feed(role, type, input);
    }
    this.states.forEach((state, index) => (feeds[state.input] = input.states[index]!));
    const fetches = this.states.map((state) => state.output);
    if (wantsValue) fetches.push(this.#outputName);
    const outputs = await this.#session.run(feeds, fetches);
    return {
      value: wantsValue ? outputs[this.#outputName]! : input.value,
      states: this.states.map((state) => outputs[state.output]!),
    };
  }

  #feed(role: Role, type: string, input: LayerInput): Tensor {
    const total = input.past + input.rows;
    if (role === "mask") {
      return integers(this.#ort, type, Array<number>(total).fill(1), [1, total]);
    }
    if (role === "positions") {
      const positions = Array.from({ length: input.rows }, (_, row) => input.past + row);
      return integers(this.#ort, type, positions, [1, input.rows]);
    }
    return input.value;
  }

  async release(): Promise<void> {
    await this.#session.release();
  }
}

function sessionOptions(
  provider: Provider,
  externalData: { path: string; data: Uint8Array }[],
): InferenceSession.SessionOptions {
  return {
    executionProviders: [provider],
    externalData,
    graphOptimizationLevel: "all",
    // Arenas and patterns trade memory for speed that a step of one row does not show.
    enableCpuMemArena: false,
    enableMemPattern: false,
    ...(provider === "webgpu" ? { preferredOutputLocation: "gpu-buffer" as const } : {}),
  };
}

export function integers(
  ort: OrtModule,
  type: string,
  values: ArrayLike<number>,
  dims: number[],
): Tensor {
  if (type === "int32") return new ort.Tensor("int32", Int32Array.from(values), dims);
  return new ort.Tensor("int64", BigInt64Array.from(Array.from(values, BigInt)), dims);
}

function typeOf(value: Metadata): string {
  return value.isTensor ? value.type : "not a tensor";
}

// "past_key_values.3.key" and "present.3.key": by their last word, else by order.
function pairStates(
  layer: number,
  inputs: readonly Metadata[],
  outputs: readonly Metadata[],
  kvBytes: number,
): StateSpec[] {
  if (inputs.length !== outputs.length) {
    throw new EngineError(
      "unsupported",
      `The graph of layer ${layer} has ${inputs.length} cache inputs and ${outputs.length} cache ` +
        `outputs: ${[...inputs, ...outputs].map(({ name }) => name).join(", ")}.`,
    );
  }
  const lastWord = (name: string): string => name.slice(name.lastIndexOf(".") + 1);
  return inputs.map((input, index) => {
    const output =
      outputs.find(({ name }) => lastWord(name) === lastWord(input.name)) ?? outputs[index]!;
    return stateSpec(layer, input, output.name, kvBytes / (2 * inputs.length));
  });
}

// `columns`: values of a position in this cache, all heads, as the package says; exporters leave
// the last axis of a cache symbolic.
function stateSpec(layer: number, input: Metadata, output: string, columns: number): StateSpec {
  const shape = input.isTensor ? input.shape : [];
  const type = typeOf(input);
  const heads = shape[1];
  const told = typeof heads === "number" && columns > 0 ? columns / heads : undefined;
  const headColumns = typeof shape[3] === "number" ? shape[3] : told;
  const isFloat = type === "float32" || type === "float16";
  const isKnown = typeof heads === "number" && typeof headColumns === "number";
  if (shape.length !== 4 || !isKnown || !isFloat) {
    throw new EngineError(
      "unsupported",
      `The input ${input.name} of layer ${layer} is ${type} [${shape.join(", ")}]; expected a ` +
        `float cache [batch, kv heads, positions, head columns] with known heads and columns.`,
    );
  }
  return { input: input.name, output, type, heads, headColumns };
}

// A wasm heap may be full for a moment, while sessions that were released are still being freed.
const kCreateAttempts = 3;
const kCreatePauseMs = 150;

async function createSession(
  runtime: OrtRuntime,
  graph: Uint8Array,
  externalData: { path: string; data: Uint8Array }[],
): Promise<InferenceSession> {
  for (let attempt = 1; ; ++attempt) {
    try {
      const options = sessionOptions(runtime.provider, externalData);
      return await runtime.ort.InferenceSession.create(graph, options);
    } catch (error) {
      if (!isOutOfMemory(error) || attempt === kCreateAttempts) throw error;
      await new Promise((resolve) => setTimeout(resolve, kCreatePauseMs));
    }
  }
}

function isOutOfMemory(error: unknown): boolean {
  return /bad_alloc|allocate|out of memory|RangeError|memory access/i.test(
    error instanceof Error ? `${error.name} ${error.message}` : String(error),
  );
}
