// Every kernel is valid WGSL with the bindings it says, also those that need features which the
// machine at hand lacks: on Dawn's null backend, which has all features and computes nothing.
// tests/e2e/firefox.mjs compiles the same list in Firefox.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import { Pipelines } from "../gpu/pipelines.ts";
import type { Variant } from "./common/variant.ts";
import {
  everyKernel,
  kDTypes,
  otherKernels,
  productsOf,
  roomyKernels,
  rowWalkKernels,
  unitsKernels,
} from "../test/everyKernel.ts";

const kUnits = "chromium-experimental-subgroup-matrix" as GPUFeatureName;

async function openNull(): Promise<{ gpu: GPU; device: GPUDevice } | null> {
  try {
    const { create } = await import("webgpu");
    // Dawn dies when this is collected before its devices.
    const gpu = create(["backend=null", "enable-dawn-features=allow_unsafe_apis"]);
    const adapter = await gpu.requestAdapter();
    const features = ["shader-f16", "subgroups", kUnits] as const;
    if (!adapter || !features.every((feature) => adapter.features.has(feature))) return null;
    return { gpu, device: await adapter.requestDevice({ requiredFeatures: [...features] }) };
  } catch {
    return null;
  }
}

const opened = await openNull();

async function compile(variants: readonly Variant[]): Promise<void> {
  const pipelines = Pipelines.of(opened!.device);
  // Without its simpler form it throws where it is refused.
  for (const { key, code, bindings } of variants) await pipelines.get({ key, code, bindings });
}

describe.skipIf(!opened)("every kernel is valid", () => {
  for (const dtype of kDTypes) {
    it(`that multiplies weights of type ${dtype}`, { timeout: 120_000 }, async () => {
      await compile(productsOf(dtype));
    });
  }

  // Their pipelines want more workgroup memory than this backend has.
  it("of matrix units or much memory", { timeout: 120_000 }, async () => {
    for (const { key, code } of [...unitsKernels(), ...rowWalkKernels(), ...roomyKernels()]) {
      const module = opened!.device.createShaderModule({ code });
      const { messages } = await module.getCompilationInfo();
      const errors = messages.filter(({ type }) => type === "error");
      expect(errors.map(({ lineNum, message }) => `line ${lineNum}: ${message}`), key).toEqual([]);
    }
  });

  it("that does anything else", { timeout: 120_000 }, async () => {
    await compile(otherKernels());
  });
});

// Lines of a file that are in a kernel's text as they are: loops are written out, and declarations
// of bindings that a kernel does not use are left out.
function lasting(text: string): string[] {
  const withoutLoops = text.replace(/^\/\/\* each [^]*?^\/\/\* end\n/gm, "");
  return withoutLoops.split("\n").filter((line) => !/^@group|^\/\/\*|\$/.test(line));
}

describe("the list of every kernel", () => {
  it("leaves no file of WGSL out", () => {
    const kernels = [...everyKernel(), ...unitsKernels(), ...rowWalkKernels()];
    const texts = kernels.map(({ code }) => new Set(code.split("\n")));
    const files = readdirSync(import.meta.dirname, { recursive: true, encoding: "utf8" });
    const left = files.filter((name) => name.endsWith(".wgsl")).filter((name) => {
      const lines = lasting(readFileSync(join(import.meta.dirname, name), "utf8"));
      return !texts.some((text) => lines.every((line) => text.has(line)));
    });
    expect(left).toEqual([]);
  });
});
