// How products are computed: what a device may choose among (tune/). Only `products` changes bits.

// integers: inputs of q4 and q8 products as 16-bit integers (integers.wgsl). halves: products in
// f16 (shader-f16). floats: everything in f32.
export type ProductKind = "integers" | "halves" | "floats";

// How the 32 lanes of a part are summed: by subgroup shuffles, in workgroup memory, or by one
// invocation that walks all lanes (no barriers).
export type LaneKind = "subgroups" | "shared" | "serial";

export interface Arithmetic {
  readonly products: ProductKind;
  readonly lanes: LaneKind;
  readonly outputs: number; // rows of the matrix that a workgroup makes: 8, 16 or 32
  readonly tileRows: number; // rows of a prompt that share what is read of the weights
}
