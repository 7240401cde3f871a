// The `struct Op` of each kernel as bytes: fields in the order of the WGSL. Offsets of `act` are in
// f32 values, of `aux` in words.
export const kNone = 0xffffffff;
export const kParamBytes = 256; // of one operation, and their alignment

// Which count of rows in the step's arena an operation runs over (run/arena.ts).
export const RowsAt = { body: 0, head: 5 } as const;

// [rows, columns] in `act`.
export interface Place {
  readonly base: number;
  readonly stride: number;
}

export const Elementwise = {
  add: 0,
  scale: 1,
  softcap: 2,
  gated: 3,
  copy: 4,
  gather: 5,
} as const;

class Fields {
  readonly #view = new DataView(new ArrayBuffer(kParamBytes));
  #at = 0;

  u32(...values: number[]): this {
    for (const value of values) {
      this.#view.setUint32(this.#at, value, true);
      this.#at += 4;
    }
    return this;
  }

  f32(...values: number[]): this {
    for (const value of values) {
      this.#view.setFloat32(this.#at, value, true);
      this.#at += 4;
    }
    return this;
  }

  place(place: Place): this {
    return this.u32(place.base, place.stride);
  }

  get bytes(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#view.buffer);
  }
}

export type Params = Uint8Array<ArrayBuffer>;

export interface Segment {
  readonly first: number;
  readonly end: number;
  readonly out: Place;
  readonly bias: number;
  readonly biasUp: number;
}

export interface ProductParams {
  readonly rowsAt: number;
  readonly input: Place;
  readonly columns: number;
  readonly blocks: number;
  readonly groupCount: number;
  readonly rowFirst: number;
  readonly zeroBase: number;
  readonly normBase: number;
  readonly epsilon: number;
  readonly activation: number;
  readonly residual: Place | null;
  readonly round: number;
  readonly segments: readonly Segment[];
  readonly experts: ExpertParams | null;
  readonly planesBase: number;
}

export interface ExpertParams {
  readonly topK: number;
  readonly route: Place;
  readonly groups: number;
  readonly bias: number;
}

export function productParams(p: ProductParams): Params {
  const residual = p.residual ?? { base: kNone, stride: 0 };
  const experts = p.experts ?? { topK: 1, route: { base: 0, stride: 0 }, groups: 0, bias: 0 };
  const fields = new Fields()
    .u32(p.rowsAt)
    .place(p.input)
    .u32(p.columns, p.blocks, p.groupCount, p.rowFirst, p.zeroBase, p.normBase)
    .f32(p.epsilon)
    .u32(p.activation)
    .place(residual)
    .u32(p.round, p.segments.length, experts.topK)
    .place(experts.route)
    .u32(experts.groups, experts.bias, p.planesBase, 0, 0, 0);
  for (const { first, end, out, bias, biasUp } of p.segments) {
    fields.u32(first, end).place(out).u32(bias, biasUp, 0, 0);
  }
  return fields.bytes;
}

export interface NormParams {
  readonly rowsAt: number;
  readonly input: Place;
  readonly out: Place;
  readonly columns: number;
  readonly weight: number;
  readonly bias: number;
  readonly epsilon: number;
  readonly isLayerNorm: boolean;
}

export function normParams(p: NormParams): Params {
  return new Fields()
    .u32(p.rowsAt)
    .place(p.input)
    .place(p.out)
    .u32(p.columns, p.weight, p.bias)
    .f32(p.epsilon)
    .u32(p.isLayerNorm ? 1 : 0).bytes;
}

export interface ElementwiseParams {
  readonly rowsAt: number;
  readonly a: Place;
  readonly b: Place;
  readonly out: Place;
  readonly columns: number;
  readonly kind: number;
  readonly value: number;
  readonly activation: number;
  readonly round: number;
}

export function elementwiseParams(p: ElementwiseParams): Params {
  return new Fields()
    .u32(p.rowsAt)
    .place(p.a)
    .place(p.b)
    .place(p.out)
    .u32(p.columns, p.kind)
    .f32(p.value)
    .u32(p.activation, p.round).bytes;
}

export interface EmbedParams {
  readonly rowsAt: number;
  readonly out: Place;
  readonly columns: number;
  readonly blocks: number;
  readonly rowFirst: number;
  readonly rowEnd: number;
  readonly zeroBase: number;
  readonly scale: number;
  readonly chainAt: number;
  readonly round: number;
}

export function embedParams(p: EmbedParams): Params {
  return new Fields()
    .u32(p.rowsAt)
    .place(p.out)
    .u32(p.columns, p.blocks, p.rowFirst, p.rowEnd, p.zeroBase)
    .f32(p.scale)
    .u32(p.chainAt, p.round).bytes;
}

// Where the heads of one part go.
export const HeadsTo = { out: 0, keys: 1, values: 2 } as const;

export interface HeadsPart {
  readonly input: Place;
  readonly out: Place;
  readonly heads: number;
  readonly norm: number;
  readonly ropeFirst: number;
  readonly ropeHalf: number;
  readonly interleaved: boolean;
  readonly ropeScale: number;
  readonly epsilon: number;
  readonly goesTo: number;
}

export function headsParams(
  rowsAt: number,
  headColumns: number,
  kvHeads: number,
  parts: readonly HeadsPart[],
): Params {
  return headParts(new Fields().u32(rowsAt, headColumns, kvHeads, parts.length), parts).bytes;
}

function headParts(fields: Fields, parts: readonly HeadsPart[]): Fields {
  for (const p of parts) {
    fields
      .place(p.input)
      .place(p.out)
      .u32(p.heads, p.norm, p.ropeFirst, p.ropeHalf, p.interleaved ? 1 : 0)
      .f32(p.ropeScale, p.epsilon)
      .u32(p.goesTo);
  }
  return fields;
}

export interface AttentionParams {
  readonly rowsAt: number;
  readonly q: Place;
  readonly out: Place;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headColumns: number;
  readonly window: number;
  readonly scale: number;
  readonly softcap: number;
  readonly sinks: number;
  readonly splitBase: number;
  readonly tile: AttentionTile;
}

// Queries that attention_rows.wgsl takes at a time: rows times heads.
export interface AttentionTile {
  readonly heads: number;
  readonly rows: number;
}

// `parts`: of the query, the key and the value, for the kernel that makes them too.
export function attentionParams(p: AttentionParams, parts: readonly HeadsPart[] = []): Params {
  const fields = new Fields()
    .u32(p.rowsAt)
    .place(p.q)
    .place(p.out)
    .u32(p.heads, p.kvHeads, p.headColumns, p.window)
    .f32(p.scale, p.softcap)
    .u32(p.sinks, p.splitBase, p.tile.heads, p.tile.rows, 0);
  return headParts(fields, parts).bytes;
}

export interface RouteParams {
  readonly rowsAt: number;
  readonly logits: Place;
  readonly out: Place;
  readonly experts: number;
  readonly topK: number;
  readonly normalized: boolean;
}

export function routeParams(p: RouteParams): Params {
  return new Fields()
    .u32(p.rowsAt)
    .place(p.logits)
    .place(p.out)
    .u32(p.experts, p.topK, p.normalized ? 1 : 0).bytes;
}

export interface RoutePartParams {
  readonly rowsAt: number;
  readonly route: Place;
  readonly out: Place;
  readonly topK: number;
  readonly firstExpert: number;
  readonly expertCount: number;
}

export function routePartParams(p: RoutePartParams): Params {
  return new Fields()
    .u32(p.rowsAt)
    .place(p.route)
    .place(p.out)
    .u32(p.topK, p.firstExpert, p.expertCount).bytes;
}

export interface ArgmaxParams {
  readonly logits: Place;
  readonly vocabulary: number;
  readonly partialAt: number;
  readonly resultAt: number;
  readonly resultStride: number;
  readonly chainAt: number;
  readonly historyAt: number;
  readonly slices: number;
}

export function argmaxParams(p: ArgmaxParams): Params {
  return new Fields()
    .u32(RowsAt.head)
    .place(p.logits)
    .u32(p.vocabulary, p.partialAt, p.resultAt, p.resultStride, p.chainAt, p.historyAt, p.slices)
    .bytes;
}

// Of a search among the sorted tokens (sample.wgsl).
export const SamplePurpose = { topK: 0, topP: 1, draw: 2 } as const;

export interface SampleParams {
  readonly logits: Place;
  readonly vocabulary: number;
  readonly resultAt: number;
  readonly chainAt: number;
  readonly historyAt: number;
  readonly samplerAt: number;
  readonly level: number;
  readonly purpose: number;
}

export function sampleParams(p: SampleParams): Params {
  return new Fields().u32(
    RowsAt.head,
    p.logits.base,
    p.vocabulary,
    p.resultAt,
    p.chainAt,
    p.historyAt,
    p.samplerAt,
    p.level,
    p.purpose,
  ).bytes;
}

export interface TopKParams {
  readonly fromLogits: boolean;
  readonly input: Place;
  readonly count: number;
  readonly out: Place;
}

export function topKParams(p: TopKParams): Params {
  return new Fields()
    .u32(RowsAt.head, p.fromLogits ? 1 : 0)
    .place(p.input)
    .u32(p.count)
    .place(p.out).bytes;
}

export interface ScaledSumParams {
  readonly logits: Place;
  readonly vocabulary: number;
  readonly resultAt: number;
  readonly resultStride: number;
  readonly outAt: number;
  readonly slices: number;
}

export function scaledSumParams(p: ScaledSumParams): Params {
  return new Fields()
    .u32(RowsAt.head)
    .place(p.logits)
    .u32(p.vocabulary, p.resultAt, p.resultStride, p.outAt, p.slices).bytes;
}

export interface CheckParams {
  readonly rows: Place;
  readonly columns: number;
  readonly packed: Place; // in words; base kNone: nothing is packed
  readonly packedKind: number; // as rounding
}

export function checkParams(p: CheckParams): Params {
  return new Fields()
    .u32(RowsAt.body)
    .place(p.rows)
    .u32(p.columns)
    .place(p.packed)
    .u32(p.packedKind).bytes;
}

export interface UnpackParams {
  readonly packedBase: number;
  readonly out: Place;
  readonly columns: number;
  readonly kind: number;
}

export function unpackParams(p: UnpackParams): Params {
  return new Fields().u32(RowsAt.body, p.packedBase).place(p.out).u32(p.columns, p.kind).bytes;
}

export interface RepackParams {
  readonly kind: number; // 0: data, 1: scales, 2: zero points
  readonly rowBytes: number;
  readonly rows: number;
  readonly words: number;
  readonly outBase: number;
  readonly groupStep: number;
  readonly groups: number;
  readonly threadsX: number;
}

export function repackParams(p: RepackParams): Params {
  return new Fields().u32(
    p.kind,
    p.rowBytes,
    p.rows,
    p.words,
    p.outBase,
    p.groupStep,
    p.groups,
    p.threadsX,
  ).bytes;
}
