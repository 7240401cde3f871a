// What the fuzzers of the C++ decoders begin with (tests/fuzz/corpus), and what becomes of it when
// bytes change: the same hostile inputs for the decoders of the web.
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const kCorpus = fileURLToPath(new URL("../../../../../tests/fuzz/corpus", import.meta.url));

// Inputs by name. Throws where there are none: a test of nothing is none.
export function corpusOf(name: string): Map<string, Uint8Array> {
  const folder = join(kCorpus, name);
  const names = existsSync(folder) ? readdirSync(folder) : [];
  if (names.length === 0) throw new Error(`tests/fuzz/corpus/${name} has no inputs`);
  return new Map(names.map((each) => [each, new Uint8Array(readFileSync(join(folder, each)))]));
}

// The bytes as they are, cut at every eighth, and with one to four of them changed, by a rule.
export function hostileForms(bytes: Uint8Array, count: number): Uint8Array[] {
  const forms = [bytes];
  for (let part = 0; part < 8; ++part) {
    forms.push(bytes.slice(0, Math.floor((bytes.length * part) / 8)));
  }
  let state = 0x9e3779b9 ^ bytes.length;
  const below = (limit: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
  const kEdges = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
  for (let i = 0; i < count && bytes.length > 0; ++i) {
    const form = bytes.slice();
    for (let change = below(4); change >= 0; --change) {
      form[below(form.length)] = below(2) === 0 ? kEdges[below(kEdges.length)]! : below(256);
    }
    forms.push(form);
  }
  return forms;
}
