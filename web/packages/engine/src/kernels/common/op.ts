// The parameters of a dispatch, the `struct Op` of its kernel, declared once: the struct's text and
// the bytes of its values come from the same list of fields, so that order and types cannot differ
// between the two languages.
//
//   const scaleOp = declareOp({ rowsAt: "u32", in: "place", factor: "f32" });
//   scaleOp.wgsl     struct Op { rows_at: u32, in_base: u32, in_stride: u32, factor: f32, }
//   scaleOp.bytes({ rowsAt: 0, in: { base: 64, stride: 32 }, factor: 0.5 })
//                    words 0, 64, 32, 0x3f000000, then zeros up to kParamBytes
//
// Places in `act` and `vectors` are counted in f32 values, those in `aux` in words of 32 bits.

export const kNone = 0xffffffff; // where a place or an index is optional
export const kParamBytes = 256; // of one dispatch: what offsets of uniform buffers are multiples of

// [rows, columns] in a buffer: row r begins at base + r stride.
export interface Place {
  readonly base: number;
  readonly stride: number;
}

export type Params = Uint8Array<ArrayBuffer>;

type Scalar = "u32" | "f32" | "bool" | "place"; // a place is two words: base and stride
type Scalars = Readonly<Record<string, Scalar>>;

interface List<F extends Scalars = Scalars> {
  readonly struct: string;
  readonly fields: F;
  readonly most: number;
}

export type Fields = Readonly<Record<string, Scalar | List>>;

type ValueOf<K> = K extends "u32" | "f32"
  ? number
  : K extends "bool"
    ? boolean
    : K extends "place"
      ? Place
      : K extends List<infer F>
        ? readonly ValuesOf<F>[]
        : never;
export type ValuesOf<F> = { readonly [K in keyof F]: ValueOf<F[K]> };

// The values of the elements of a list, which is declared by listOf.
export type ElementOf<L> = L extends List<infer F> ? ValuesOf<F> : never;

export interface OpStruct<F extends Fields = Fields> {
  readonly wgsl: string;
  bytes(values: ValuesOf<F>): Params;
}

// An array of at most `most` elements, which are a struct of that name in WGSL. Fewer are followed
// by zeros; how many there are must be a field of its own where the kernel needs to know.
export function listOf<F extends Scalars>(struct: string, fields: F, most: number): List<F> {
  return { struct, fields, most };
}

// Throws where the struct is larger than kParamBytes: a mistake of ours, found when it is loaded.
export function declareOp<F extends Fields>(fields: F): OpStruct<F> {
  const byteCount = new Layout().skip(fields).offset;
  if (byteCount > kParamBytes) {
    throw new Error(`an Op of ${byteCount} bytes; ${kParamBytes} is the most`);
  }
  return {
    wgsl: structsOf(fields),
    bytes: (values) => new Layout().write(fields, values).bytes,
  };
}

// Elements of arrays in uniform buffers begin at multiples of 16 bytes. The array's own place is
// said, too: Firefox's compiler does not take it from the elements.
const kElementBytes = 16;

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function members(name: string, kind: Scalar): string[] {
  if (kind === "place") return [`${snake(name)}_base: u32`, `${snake(name)}_stride: u32`];
  return [`${snake(name)}: ${kind === "f32" ? "f32" : "u32"}`];
}

function structOf(name: string, lines: readonly string[]): string {
  return `struct ${name} {\n${lines.map((line) => `  ${line},\n`).join("")}}\n`;
}

function structsOf(fields: Fields): string {
  const elements: string[] = [];
  const own = Object.entries(fields).flatMap(([name, kind]) => {
    if (typeof kind === "string") return members(name, kind);
    const [first, ...rest] = Object.entries(kind.fields).flatMap(([key, k]) => members(key, k));
    elements.push(structOf(kind.struct, [`@align(${kElementBytes}) ${first}`, ...rest]));
    return [`@align(${kElementBytes}) ${snake(name)}: array<${kind.struct}, ${kind.most}>`];
  });
  return [...elements, structOf("Op", own)].join("");
}

// Walks over the fields as WGSL lays them out, and writes values on its way.
class Layout {
  readonly #view = new DataView(new ArrayBuffer(kParamBytes));
  offset = 0;

  get bytes(): Params {
    return new Uint8Array(this.#view.buffer);
  }

  skip(fields: Fields): this {
    for (const kind of Object.values(fields)) {
      if (typeof kind === "string") this.offset += kind === "place" ? 8 : 4;
      else for (let i = 0; i < kind.most; ++i) this.#aligned().skip(kind.fields).#aligned();
    }
    return this;
  }

  write<F extends Fields>(fields: F, values: ValuesOf<F>): this {
    for (const [name, kind] of Object.entries(fields)) {
      const value: unknown = values[name];
      if (typeof kind === "string") this.#writeScalar(kind, value);
      else this.#writeList(kind, value as readonly ValuesOf<Scalars>[]);
    }
    return this;
  }

  #writeList({ struct, fields, most }: List, elements: readonly ValuesOf<Scalars>[]): void {
    if (elements.length > most) {
      throw new Error(`${elements.length} elements ${struct}; ${most} is the most`);
    }
    for (const element of elements) this.#aligned().write(fields, element).#aligned();
  }

  #writeScalar(kind: Scalar, value: unknown): void {
    if (kind === "place") {
      const { base, stride } = value as Place;
      this.#writeScalar("u32", base);
      this.#writeScalar("u32", stride);
      return;
    }
    if (kind === "f32") this.#view.setFloat32(this.offset, value as number, true);
    else this.#view.setUint32(this.offset, Number(value), true);
    this.offset += 4;
  }

  #aligned(): this {
    this.offset = Math.ceil(this.offset / kElementBytes) * kElementBytes;
    return this;
  }
}
