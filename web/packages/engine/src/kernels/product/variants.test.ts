// Every product kernel of every arithmetic is valid WGSL with the bindings it says, also those that
// need features which the machine at hand lacks: on Dawn's null backend, which has all features
// and computes nothing. Of outputs all three where they choose between paths (int16: lane_scales of
// matvec_blocks.wgsl), else one, because there they are sizes of arrays.
import { describe, expect, it } from "vitest";

import { Pipelines } from "../../gpu/pipelines.ts";
import { DType } from "../../program/ir.ts";
import type { Arithmetic, LaneKind, ProductKind } from "./arithmetic.ts";
import { expertKernels } from "../experts/experts.ts";
import { productKernels } from "./variants.ts";
import type { Variant } from "../common/variant.ts";

async function openNull(): Promise<{ gpu: GPU; device: GPUDevice } | null> {
  try {
    const { create } = await import("webgpu");
    const gpu = create(["backend=null"]); // Dawn dies when this is collected before its devices
    const adapter = await gpu.requestAdapter();
    const features = ["shader-f16", "subgroups"] as const;
    if (!adapter || !features.every((feature) => adapter.features.has(feature))) return null;
    return { gpu, device: await adapter.requestDevice({ requiredFeatures: [...features] }) };
  } catch {
    return null;
  }
}

const opened = await openNull();
const kDTypes = [DType.q4, DType.q8, DType.f16, DType.bf16, DType.f32];
const kProducts: ProductKind[] = ["f32", "int16", "f16"];
const kLanes: LaneKind[] = ["subgroups", "shared", "serial"];
const outputsOf = (products: ProductKind): number[] =>
  products === "int16" ? [8, 16, 32] : [16];

function arithmetics(): Arithmetic[] {
  return kProducts.flatMap((products) =>
    kLanes.flatMap((lanes) =>
      outputsOf(products).map((outputs) => ({ products, lanes, outputs, tileRows: outputs / 4 })),
    ),
  );
}

function variantsOf(arithmetic: Arithmetic, dtype: number): Variant[] {
  const base = { dtype, arithmetic, parts: 4 };
  const dense = [1, arithmetic.tileRows].flatMap((tileRows) =>
    [false, true].flatMap((withNorm) =>
      [false, true].map((paired) =>
        productKernels.matvec({
          ...base,
          tileRows,
          withNorm,
          paired,
          experts: false,
          biased: paired,
        }),
      ),
    ),
  );
  const shape = { tileRows: 1, withNorm: false, paired: true, experts: true, biased: true };
  return [
    ...dense,
    productKernels.matvec({ ...base, ...shape }),
    expertKernels.moeDown({ ...base, biased: true }),
    productKernels.quantise({ ...base, withNorm: true }),
    productKernels.matmul({ ...base, withNorm: true, paired: true, biased: true }),
    productKernels.matmul({ ...base, withNorm: false, paired: false, biased: false }),
  ];
}

describe.skipIf(!opened)("every product kernel", () => {
  for (const dtype of kDTypes) {
    it(`is valid, of weights of type ${dtype}`, { timeout: 120_000 }, async () => {
      const { device } = opened!;
      const pipelines = Pipelines.of(device);
      const seen = new Set<string>();
      for (const arithmetic of arithmetics()) {
        const isQuantised = arithmetic.products === "int16" && arithmetic.lanes !== "serial";
        for (const { key, code, bindings } of variantsOf(arithmetic, dtype)) {
          const isBlocks = dtype === DType.q4 || dtype === DType.q8;
          const isQuantise = key.startsWith("quantise") || key.startsWith("matmul");
          if (seen.has(key) || (isQuantise && !(isQuantised && isBlocks))) continue;
          seen.add(key);
          // Without its simpler form it throws where it is refused.
          await pipelines.get({ key, code, bindings });
        }
      }
      expect(seen.size).toBeGreaterThan(0);
    });
  }
});
