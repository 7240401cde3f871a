// A variant is what one pipeline is made of: the declaration of its parameters, constants, the
// fragments and the kernel that stands behind them, as one text. Its key names the pipeline in
// gpu/pipelines.ts.
import { kRowWords, named, Rounding, RowWord, StepWord } from "./numbers.ts";
import { kNone } from "./op.ts";
import type { OpStruct } from "./op.ts";
import { repeated } from "./repeat.ts";

export interface Variant {
  readonly key: string;
  readonly code: string;
  readonly bindings: readonly number[]; // what the kernel uses of the common ones
  // Runs in its place where the driver refuses it: the same bindings, parameters and grid.
  readonly simpler?: Variant;
}

export type Constants = Readonly<Record<string, number | boolean>>;

export interface VariantSource {
  readonly name: string;
  readonly op: Pick<OpStruct, "wgsl">;
  // What tells variants of a name apart: `const kName` in WGSL, and part of the key.
  readonly constants?: Constants;
  // Declarations of numbers of the family (numbers.ts).
  readonly numbers?: string;
  readonly parts: readonly string[];
  // Bindings that the text names only in functions which this kernel does not call.
  readonly unused?: readonly number[];
  // All bindings of a kernel that declares them under names of its own.
  readonly bindings?: readonly number[];
}

function declared(constants: Constants): string {
  return Object.entries(constants)
    .map(([name, value]) => `const ${name} = ${value}${typeof value === "number" ? "u" : ""};\n`)
    .join("");
}

const kNumbers = [
  `const kNone = ${kNone}u;\n`,
  named("Step", StepWord),
  named("Row", { ...RowWord, words: kRowWords }),
  named("Rounding", Rounding),
].join("");

// Declared in fragments/common.wgsl and the files beside it. What a kernel does not use is not
// bound: a device tracks every buffer of every dispatch.
const kNames = ["step", "op", "act", "vectors", "wdata", "wscale", "kv", "aux|planes"] as const;

function usedBindings(code: string, unused: readonly number[]): Omit<Variant, "key"> {
  const bindings: number[] = [];
  let kept = code;
  for (const [binding, names] of kNames.entries()) {
    const isNamed = new RegExp(`\\b(${names})[\\[.]`).test(code);
    const place = `@group\\(0\\) @binding\\(${binding}\\)`;
    if (!isNamed) kept = kept.replace(new RegExp(`^${place}.*\\b(${names}):.*\\n`, "m"), "");
    else if (!unused.includes(binding)) bindings.push(binding);
  }
  return { code: kept, bindings };
}

const variants = new Map<string, Variant>(); // every layer asks for the same ones

export function variant(source: VariantSource): Variant {
  const { name, op, constants = {}, numbers = "", parts, unused = [], bindings } = source;
  const key = [name, ...Object.values(constants)].join(" ");
  const known = variants.get(key);
  if (known) return known;
  const text = repeated(parts.join("\n"), constants);
  const head = [declared(constants), kNumbers, numbers, op.wgsl].join("");
  const code = `${head}\n${text}`;
  const made = { key, ...(bindings ? { code, bindings } : usedBindings(code, unused)) };
  variants.set(key, made);
  return made;
}
