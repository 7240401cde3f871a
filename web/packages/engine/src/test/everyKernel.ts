// Every kernel that the engine makes, for compilers to be tried with. Of outputs all three where
// kernels choose between paths (int16: lane_rows.wgsl), else one, because there
// they are sizes of arrays, as widths of heads and of states are.
import { attentionKernels } from "../kernels/attention/attention.ts";
import type { Variant } from "../kernels/common/variant.ts";
import { expertKernels } from "../kernels/experts/experts.ts";
import { interleaveKernel, repackKernel } from "../kernels/load/load.ts";
import type { Arithmetic, LaneKind, ProductKind } from "../kernels/product/arithmetic.ts";
import {
  everyUnitsTile,
  gatheredTiles,
  kTileRowCounts,
  matMulTiles,
  productKernels,
  rowTileOf,
  tileRowsOf,
} from "../kernels/product/variants.ts";
import type { Products } from "../kernels/product/fragments.ts";
import { recurrentKernels } from "../kernels/recurrent/recurrent.ts";
import { rowKernels } from "../kernels/rows/rows.ts";
import { sampleKernel } from "../kernels/sample/sample.ts";
import type { SampleKernel } from "../kernels/sample/sample.ts";
import { selectKernels } from "../kernels/select/select.ts";
import { DType, isBlockFormat, isSuperblockFormat } from "../program/ir.ts";

const kPlainDTypes = [DType.q4, DType.q8, DType.f16, DType.bf16, DType.f32];
const kRowDTypes = [...kPlainDTypes, DType.q4k, DType.q5k, DType.q6k];
export const kDTypes = [...kRowDTypes, DType.q4s];
const kProducts: ProductKind[] = ["f32", "int16", "f16"];
const kLanes: LaneKind[] = ["subgroups", "shared", "serial"];
const kBools = [false, true];
const kCombined = {
  dtype: DType.q4,
  arithmetic: { products: "int16", lanes: "shared", outputs: 16, tileRows: 4 },
  parts: 4,
} as const;
const kSamplers: SampleKernel[] = ["change", "histogram", "minP", "pick", "scan"];

function arithmetics(): Arithmetic[] {
  const outputsOf = (products: ProductKind): number[] =>
    products === "int16" ? [8, 16, 32] : [16];
  return kProducts.flatMap((products) =>
    kLanes.flatMap((lanes) =>
      outputsOf(products).map((outputs) => ({ products, lanes, outputs, tileRows: outputs / 4 })),
    ),
  );
}

function productsWith(arithmetic: Arithmetic, dtype: number): Variant[] {
  const base = { dtype, arithmetic, parts: 4 };
  const tiles = [1, ...tileRowsOf(base)];
  const dense = tiles.flatMap((tileRows) =>
    kBools.flatMap((withNorm) =>
      kBools.map((paired) => {
        const shape = { tileRows, withNorm, paired, experts: false, biased: paired };
        return productKernels.matvec({ ...base, ...shape });
      }),
    ),
  );
  const plain = { withNorm: false, paired: false, experts: false, biased: false };
  const byHead = { ...plain, byHead: true };
  const experts = { tileRows: 1, withNorm: false, paired: true, experts: true, biased: true };
  const made = [
    ...dense,
    ...tiles.map((tileRows) => productKernels.matvec({ ...base, ...byHead, tileRows })),
    productKernels.matvec({ ...base, ...experts }),
    expertKernels.moeDown({ ...base, biased: true, onGrid: true }),
  ];
  const isSerial = arithmetic.lanes === "serial" && !isSuperblockFormat(dtype);
  if (!isBlockFormat(dtype) || arithmetic.products !== "int16" || isSerial) return made;
  const [tile] = matMulTiles(base, 33, 512, 1024);
  const many = { ...base, tile: tile! };
  return [
    ...made,
    productKernels.quantise({ ...base, withNorm: true }),
    ...gatheredKernels(base),
    productKernels.matmul({ ...many, ...plain, withNorm: true, paired: true, biased: true }),
    productKernels.matmul({ ...many, ...plain }),
    productKernels.quantise({ ...base, ...byHead }),
    productKernels.matmul({ ...many, ...byHead }),
  ];
}

function unique(variants: Variant[]): Variant[] {
  return [...new Map(variants.map((each) => [each.key, each])).values()];
}

// The products of weights of a type.
export function productsOf(dtype: number): Variant[] {
  return unique(arithmetics().flatMap((arithmetic) => productsWith(arithmetic, dtype)));
}

const kHeads = { headColumns: 128, valueColumns: 0, heads: 16, kvHeads: 8 };
const kLatent = { headColumns: 576, valueColumns: 512, heads: 16, kvHeads: 1 };

function attention(): Variant[] {
  return kBools.flatMap((kvIsF32) => [
    attentionKernels.heads(kvIsF32),
    ...kBools.flatMap((isSplit) =>
      kBools.map((isFused) => attentionKernels.attention(kvIsF32, isSplit, isFused, kHeads)),
    ),
    ...kBools.map((isFused) => attentionKernels.attention(kvIsF32, true, isFused, kHeads, true)),
    attentionKernels.attentionRows(kvIsF32, 128, false, false), // in tiles
    attentionKernels.attentionRows(kvIsF32, 576, true, false),
    ...kBools.map((isSplit) => attentionKernels.attention(kvIsF32, isSplit, true, kLatent)),
  ]);
}

// Those that want more workgroup memory than WebGPU promises.
export function roomyKernels(): Variant[] {
  return kBools.map((kvIsF32) => attentionKernels.attentionRows(kvIsF32, 128, false, true));
}

// Those that no browser compiles without a flag.
export function unitsKernels(): Variant[] {
  const tuning = { lanes: "subgroups", outputs: 32, tileRows: 4 } as const;
  const arithmetic = { products: "int16", ...tuning, units: true, fewUnits: true } as const;
  const base = { dtype: DType.q4s, arithmetic, parts: 4 };
  const dense = everyUnitsTile(arithmetic, 33).flatMap((tile) =>
    kBools.flatMap((paired) =>
      kBools.map((byHead) => {
        const kinds = { withNorm: !byHead, paired, biased: paired, experts: false, byHead };
        return productKernels.matmul({ ...base, ...kinds, tile });
      }),
    ),
  );
  return [...dense, ...gatheredKernels(base)];
}

// One row of superblocks with a block a thread: those of many threads, or of much memory, too.
export function rowWalkKernels(): Variant[] {
  const forms = [DType.q4s, DType.q4k, DType.q6k];
  const shapes = [
    ...[[64, 64], [64, 700], [128, 512], [128, 700], [128, 2048]],
    ...[[192, 256], [192, 512]],
  ] as const;
  return (["blocks", "wide"] as const).flatMap((rowWalk) =>
    forms.flatMap((dtype) =>
      shapes.flatMap(([blocks, groups]) =>
        kBools.map((byHead) => {
          const tuning = { lanes: "subgroups", outputs: 32, tileRows: 4, rowWalk } as const;
          const arithmetic = { products: "int16", ...tuning } as const;
          const kinds = { withNorm: !byHead, paired: !byHead, biased: !byHead, experts: false };
          const of = { dtype, arithmetic, parts: 4, ...kinds, byHead, tileRows: 1 };
          return productKernels.matvec({ ...of, row: rowTileOf(of, blocks, groups) });
        }),
      ),
    ),
  );
}

// Both halves of experts whose rows lie together, in every tile.
function gatheredKernels(of: Products & { readonly parts: number }): Variant[] {
  const halves = [
    { withNorm: false, paired: true, experts: true, biased: true },
    { withNorm: false, paired: false, experts: false, biased: false },
  ];
  return gatheredTiles(of).flatMap((tile) =>
    halves.map((half) => productKernels.matmul({ ...of, ...half, tile, gathered: true })),
  );
}

// All but products.
export function otherKernels(): Variant[] {
  return [
    ...attention(),
    attentionKernels.attentionCombine(),
    ...kTileRowCounts.map((rows) => expertKernels.moeOrder(rows)),
    ...kBools.map((biased) => expertKernels.moeCombine({ ...kCombined, biased, onGrid: !biased })),
    expertKernels.moePart(),
    expertKernels.moeRouteAll(),
    ...kLanes.map((lanes) => expertKernels.moeRoute(lanes)),
    repackKernel(),
    interleaveKernel(),
    recurrentKernels.causalConv(4),
    recurrentKernels.deltaRule(128),
    recurrentKernels.ssmScan(128),
    ...kRowDTypes.map((dtype) => rowKernels.embed(dtype)),
    rowKernels.norm(),
    rowKernels.elementwise(),
    rowKernels.check(),
    rowKernels.unpack(),
    ...kSamplers.map(sampleKernel),
    ...kBools.map((isMerge) => selectKernels.argmax(isMerge)),
    selectKernels.topK(),
    selectKernels.scaledSum(),
  ];
}

export function everyKernel(): Variant[] {
  return unique([...kDTypes.flatMap(productsOf), ...otherKernels()]);
}
