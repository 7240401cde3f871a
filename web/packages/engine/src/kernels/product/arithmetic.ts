// How products are computed: what a device may choose among (tune/). Only `products` changes bits.

// With int16 the inputs of q4 and q8 products are 16-bit integers (prepare_int16.wgsl); with f16
// products are made in f16, which needs shader-f16, and added in f32; with f32 all is in f32.
export type ProductKind = "int16" | "f16" | "f32";

// How the 32 lanes of a part are summed: by subgroup shuffles, in workgroup memory, or by one
// invocation that walks all lanes (no barriers).
export type LaneKind = "subgroups" | "shared" | "serial";

// How a workgroup walks one row of superblocks where it has shuffles: four threads share a block
// (walk_superblocks_subgroups.wgsl), or each has one, in workgroups of up to 256 threads or of 512
// (walk_blocks_subgroups.wgsl).
export type RowWalk = "quarters" | "blocks" | "wide";

export interface Arithmetic {
  readonly products: ProductKind;
  readonly lanes: LaneKind;
  readonly outputs: number; // rows of the matrix that a workgroup makes: 8, 16 or 32
  readonly tileRows: number; // rows of a prompt that share what is read of the weights
  readonly rowWalk?: RowWalk; // as it comes: quarters
  readonly units?: boolean; // whether matrix units multiply superblocks with many rows
  readonly fewUnits?: boolean; // and with few: from kFewUnitsFrom on
}
