// What a device may choose among, and what it gets without measuring.
import { kRoomyBytes, kWideThreads } from "../gpu/open.ts";
import type { Gpu } from "../gpu/open.ts";
import type { Arithmetic, LaneKind, ProductKind, RowWalk } from "../kernels/product/arithmetic.ts";

const kOutputs = [8, 16, 32] as const;
const kTiles = [2, 4, 8] as const;

// What decides beside the device. `products` null: whatever is fastest; models served in f32 have
// theirs in f32.
export interface Wish {
  readonly products: ProductKind | null;
}

// The first one is taken without measuring.
function productKinds(gpu: Gpu, { products }: Wish): ProductKind[] {
  const kinds: ProductKind[] = [
    ...(gpu.hasIntegerDots ? (["int16"] as const) : []),
    "f32",
    ...(gpu.hasF16 ? (["f16"] as const) : []),
  ];
  if (products === null) return kinds;
  return kinds.includes(products) ? [products] : ["f32"];
}

function laneKinds(gpu: Gpu): LaneKind[] {
  return gpu.hasSubgroups ? ["subgroups", "shared", "serial"] : ["shared", "serial"];
}

// Those of one row that a device may have beside the usual one.
function rowWalks(gpu: Gpu, lanes: LaneKind): RowWalk[] {
  const { workgroupBytes, workgroupThreads } = gpu.limits;
  const isThere = gpu.hasIntegerDots && lanes === "subgroups" && workgroupBytes >= kRoomyBytes;
  if (!isThere) return [];
  return workgroupThreads >= kWideThreads ? ["blocks", "wide"] : ["blocks"];
}

// Integers are prepared once for all outputs of a workgroup, so that more of them pay.
function shapeOf(products: ProductKind): Pick<Arithmetic, "outputs" | "tileRows"> {
  return { outputs: products === "int16" ? 32 : 16, tileRows: 4 };
}

// A software adapter switches between invocations at every barrier, so it gets kernels without;
// products in f32 take it half the time of those in int16.
export function defaultArithmetic(gpu: Gpu, wish: Wish): Arithmetic {
  if (!gpu.isHardware) {
    const [products] = productKinds(gpu, { products: wish.products ?? "f32" });
    return { products: products!, lanes: "serial", ...shapeOf(products!) };
  }
  const [products] = productKinds(gpu, wish);
  return { products: products!, lanes: laneKinds(gpu)[0]!, ...shapeOf(products!) };
}

export function isCandidate(
  gpu: Gpu,
  wish: Wish,
  { products, lanes, outputs, tileRows, rowWalk, units = false, fewUnits = false }: Arithmetic,
): boolean {
  return (
    (rowWalk === undefined || rowWalks(gpu, lanes).includes(rowWalk)) &&
    (!units || gpu.hasMatrixUnits) &&
    (!fewUnits || units) &&
    productKinds(gpu, wish).includes(products) &&
    laneKinds(gpu).includes(lanes) &&
    kOutputs.some((count) => count === outputs) &&
    kTiles.some((rows) => rows === tileRows)
  );
}

// What is decided one after another, each from the best so far. Serial lanes have neither outputs
// of a workgroup nor tiles to choose, but stay only if prompts are not slower with them. `rows`: of
// the step that is timed.
export interface Stage {
  readonly name: string;
  readonly rows: number;
  readonly form: RigForm;
  readonly from: (best: Arithmetic) => Arithmetic[]; // without itself
}

// Weights that a product is timed with: those of the model's usual form, or superblocks.
export type RigForm = "usual" | "superblocks";

const kPromptRows = 16; // a few tiles: many rows have a kernel of their own in int16
const kManyRows = 256;

export function stagesOf(gpu: Gpu, wish: Wish): Stage[] {
  const stage = (
    name: string,
    rows: number,
    from: (best: Arithmetic) => Arithmetic[],
    form: RigForm = "usual",
  ): Stage => ({
    name,
    rows,
    form,
    from: (best) =>
      from(best).filter(
        (other) =>
          isCandidate(gpu, wish, other) && JSON.stringify(other) !== JSON.stringify(best),
      ),
  });
  return [
    stage("products", 1, (best) =>
      productKinds(gpu, wish).map((products) => ({ ...best, products, ...shapeOf(products) })),
    ),
    stage("lanes", 1, (best) => laneKinds(gpu).map((lanes) => ({ ...best, lanes }))),
    stage("outputs", 1, (best) =>
      best.lanes === "serial" ? [] : kOutputs.map((outputs) => ({ ...best, outputs })),
    ),
    stage("tile", kPromptRows, (best) =>
      best.lanes === "serial"
        ? laneKinds(gpu).map((lanes) => ({ ...best, lanes }))
        : kTiles.map((tileRows) => ({ ...best, tileRows })),
    ),
    stage(
      "row",
      1,
      (best) => rowWalks(gpu, best.lanes).map((rowWalk) => ({ ...best, rowWalk })),
      "superblocks",
    ),
    stage("units", kManyRows, (best) => [{ ...best, units: true }], "superblocks"),
    stage("few units", kPromptRows, (best) => [{ ...best, fewUnits: true }], "superblocks"),
  ];
}
