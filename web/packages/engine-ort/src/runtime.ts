// onnxruntime-web, loaded when it is first needed (14 to 27 MB): which provider, how many threads,
// which memory. One runtime in a worker; a worker that needs another is started anew.
import type * as Ort from "onnxruntime-web";

import { EngineError } from "@weft/engine";
import { findGpuAdapter } from "@weft/engine/gpu/open.ts";
import type { TuneStore } from "@weft/engine/tune/store.ts";

import type { HeapBudget } from "./heapBudget.ts";
import { chooseThreads } from "./threadChoice.ts";
import { timeRound } from "./threadTimer.ts";

export type OrtModule = typeof Ort;
export type Provider = "wasm" | "webgpu";

export interface OrtRuntime {
  readonly ort: OrtModule;
  readonly provider: Provider;
  readonly threads: number;
}

export async function findAdapter(): Promise<GPUAdapter | null> {
  return await findGpuAdapter((globalThis.navigator as Navigator | undefined)?.gpu);
}

// A software adapter computes more slowly than wasm. Older Safaris do not say what an adapter is.
export function isFallback(adapter: GPUAdapter): boolean {
  const info = adapter.info as GPUAdapterInfo | undefined;
  return info?.isFallbackAdapter ?? false;
}

export async function chooseProvider(choice: "auto" | "webgpu" | "wasm"): Promise<Provider> {
  if (choice === "wasm") return "wasm";
  const adapter = await findAdapter().catch(() => null);
  if (choice === "webgpu") return adapter ? "webgpu" : "wasm";
  return adapter && !isFallback(adapter) ? "webgpu" : "wasm";
}

// Threads need shared memory, which a page has only when it is isolated (COOP and COEP). What was
// measured is kept in `store`.
export async function threadsHere(store: TuneStore | null): Promise<number> {
  if (!globalThis.crossOriginIsolated || typeof SharedArrayBuffer === "undefined") return 1;
  const { hardwareConcurrency: cores, userAgent } = navigator;
  return await chooseThreads({ cores, userAgent, timeRound, nowMs: Date.now() }, store);
}

function configure(ort: OrtModule, threads: number): void {
  ort.env.logLevel = "error";
  ort.env.wasm.numThreads = threads;
  ort.env.wasm.proxy = false; // this is a worker already
}

// Imports the library's build for `provider` and instantiates it.
export async function loadRuntime(
  provider: Provider,
  budget: HeapBudget,
  threads: number,
): Promise<OrtRuntime> {
  try {
    const ort =
      provider === "webgpu"
        ? await import("onnxruntime-web/webgpu")
        : await import("onnxruntime-web/wasm");
    return await startRuntime(ort, provider, budget, threads);
  } catch (error) {
    if (error instanceof EngineError) throw error;
    throw new EngineError("unavailable", `onnxruntime-web cannot be loaded: ${reason(error)}`);
  }
}

// The same with a library that is at hand (tests in Node).
export async function startRuntime(
  ort: OrtModule,
  provider: Provider,
  budget: HeapBudget,
  threads = 1,
): Promise<OrtRuntime> {
  configure(ort, threads);
  // The library instantiates its wasm with the first session; this graph only makes it do so.
  await budget.catchMemory(async () => {
    const session = await ort.InferenceSession.create(emptyGraph(), {
      executionProviders: [provider],
    });
    await session.release();
  });
  return { ort, provider, threads };
}

// An ONNX model whose output is its input: ir_version 8, opset 17, one Identity node.
function emptyGraph(): Uint8Array {
  const text = (value: string): number[] => [...new TextEncoder().encode(value)];
  const field = (number: number, bytes: number[]): number[] => [
    (number << 3) | 2,
    bytes.length,
    ...bytes,
  ];
  const dims = field(2, field(1, [0x08, 1])); // TensorShapeProto of one dimension, 1
  const type = field(2, field(1, [0x08, 1, ...dims])); // TypeProto.tensor_type: float
  const value = (name: string): number[] => [...field(1, text(name)), ...type];
  const node = [...field(1, text("x")), ...field(2, text("y")), ...field(4, text("Identity"))];
  const graph = [
    ...field(1, node),
    ...field(2, text("g")),
    ...field(11, value("x")),
    ...field(12, value("y")),
  ];
  return Uint8Array.from([0x08, 8, ...field(7, graph), ...field(8, [0x10, 17])]);
}

// The first line of what the library throws, short enough for a person.
export function reason(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return (text.split("\n")[0] ?? "").slice(0, 300);
}
