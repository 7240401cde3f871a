// Checks the operations of a program one after the other, and remembers which columns were written
// before: src/program/op_checker.h. Its methods are the verbs of rules in src/program/ops.json, of
// which the build makes opRules.ts. Messages name the field; validate.ts names the operation.
import { kMaxStateColumns } from "./ir.ts";
import type { Program, Weight } from "./ir.ts";
import { invalid, shapeText } from "./validateWeight.ts";
import { overlap, same } from "./views.ts";
import type { Rope, SumGrid, View, WeightView } from "./views.ts";

export const kMaxExperts = 1 << 16;
const kMostSteps = 1 << 22; // of a grid

type NamedViews = readonly (readonly [role: string, view: View])[];

// A length, or the name of one that may be any.
type Dim = number | string;

export class OpChecker {
  readonly program: Program;
  readonly #written: WrittenColumns[];
  readonly #exchanges = new Set<number>();
  #attentions = 0;

  constructor(program: Program) {
    this.program = program;
    this.#written = program.buffers.map(() => new WrittenColumns());
    const { input } = program;
    if (input !== null) this.#written[input]!.add(0, program.buffers[input]!.columns);
  }

  wholeBuffer(id: number): void {
    const { name, columns } = this.program.buffers[id]!;
    if (this.#written[id]!.holds(0, columns)) return;
    throw invalid(`nothing writes the whole of its output buffer '${name.slice(0, 200)}'.`);
  }

  read(role: string, view: View): void {
    this.#checkView(role, view);
    const { firstColumn, columns } = view;
    if (this.#written[view.buffer]!.holds(firstColumn, firstColumn + columns)) return;
    const { name } = this.program.buffers[view.buffer]!;
    throw invalid(
      `'${role}' reads columns of buffer '${name.slice(0, 200)}' that nothing wrote before.`,
    );
  }

  write(role: string, view: View): void {
    this.#checkView(role, view);
    this.#written[view.buffer]!.add(view.firstColumn, view.firstColumn + view.columns);
  }

  // All views are of equal width. The output is one of the inputs, or apart from them.
  elementwise(inputs: NamedViews, out: View): void {
    this.#checkView("out", out);
    for (const [role, input] of inputs) {
      this.read(role, input);
      this.columns(role, input, out.columns);
      if (overlap(input, out) && !same(input, out)) {
        throw invalid(`'out' overlaps '${role}' without being the same view.`);
      }
    }
    this.write("out", out);
  }

  apart(inputs: NamedViews, out: View): void {
    for (const [role, input] of inputs) this.read(role, input);
    this.#checkView("out", out);
    if (inputs.some(([, input]) => overlap(input, out))) {
      throw invalid("'out' overlaps an input.");
    }
    this.write("out", out);
  }

  columns(role: string, view: View, expected: number): void {
    if (view.columns === expected) return;
    throw invalid(`'${role}' has ${view.columns} columns; expected ${expected}.`);
  }

  // Steps are a power of two, so that dividing by one is exact; all of it 0 rounds nothing.
  grid(role: string, { step, limit }: SumGrid): void {
    if (step === 0 && limit === 0) return;
    const isPower = step >= 2 ** -100 && step <= 2 ** 100 && Number.isInteger(Math.log2(step));
    if (isPower && limit >= 1 && limit <= kMostSteps && Number.isInteger(limit)) return;
    throw invalid(
      `its ${role} has steps of ${step}, at most ${limit}, not a power of two and a whole number ` +
        `up to 2^22.`,
    );
  }

  heads(
    role: string,
    view: View,
    headsRole: string,
    heads: number,
    columnsRole: string,
    headColumns: number,
  ): void {
    if (heads === 0 || headColumns === 0) {
      throw invalid(`it has ${heads} ${headsRole} of ${headColumns} ${columnsRole}.`);
    }
    this.columns(role, view, heads * headColumns);
  }

  // A weight of exactly this shape; null where it is optional and absent.
  shape(role: string, id: number | null, expected: readonly Dim[]): void {
    if (id === null) return;
    const weight = this.weight(role, id);
    const fits =
      weight.shape.length === expected.length &&
      weight.shape.every((d, i) => typeof expected[i] === "string" || d === expected[i]);
    if (!fits) throw wrongShape(role, weight, `[${expected.join(", ")}]`);
  }

  // The rows of a matrix whose columns are those of the input, one for each of the output.
  rows(role: string, view: WeightView, inColumns: number, outColumns: number): void {
    this.shape(role, view.weight, ["rows", inColumns]);
    const { name, shape } = this.program.weights[view.weight]!;
    const { firstRow, rows } = view;
    if (rows === outColumns && firstRow + rows <= shape[0]!) return;
    throw invalid(
      `'${role}' takes rows ${firstRow} to ${firstRow + rows} of '${name}' ${shapeText(shape)} ` +
        `for an output of ${outColumns} columns.`,
    );
  }

  rope(role: string, rope: Rope | null, headColumns: number): void {
    if (rope === null) return;
    this.positive(`${role}.scale`, rope.scale);
    const table = this.weight(`${role}.inv_freq`, rope.invFreq);
    const fits = table.dtype === 0 && table.shape.length === 1;
    if (fits && 2 * table.shape[0]! <= headColumns) return;
    throw wrongShape(
      `${role}.inv_freq`, table, `at most [${Math.floor(headColumns / 2)}] in f32`,
    );
  }

  kind(called: string, kind: number, last: number): void {
    if (kind <= last) return;
    throw invalid(`its ${called} is ${kind}, which is none.`);
  }

  positive(role: string, value: number): void {
    if (Number.isFinite(value) && value > 0) return;
    throw invalid(`'${role}' is ${value}; expected a positive number.`);
  }

  positiveOrZero(role: string, value: number): void {
    if (value !== 0) this.positive(role, value);
  }

  finite(role: string, value: number): void {
    if (Number.isFinite(value)) return;
    throw invalid(`'${role}' is not finite.`);
  }

  epsilon(role: string, value: number): void {
    if (Number.isFinite(value) && value >= 0 && value < 1) return;
    throw invalid(`'${role}' is ${value}; expected 0 or more and below 1.`);
  }

  experts(experts: number, topK: number): void {
    if (experts >= 1 && experts <= kMaxExperts && topK >= 1 && topK <= experts) return;
    throw invalid(`it chooses ${topK} of ${experts} experts.`);
  }

  // `heads` share `groups`, each with states of so many columns.
  shared(
    headsRole: string,
    heads: number,
    groupsRole: string,
    groups: number,
    columns: number,
  ): void {
    if (heads % groups === 0 && columns <= kMaxStateColumns) return;
    const spoken = (role: string): string => role.replaceAll("_", " ");
    throw invalid(
      `${heads} ${spoken(headsRole)} cannot share ${groups} ${spoken(groupsRole)} of ${columns} ` +
        `columns; expected a multiple, and at most ${kMaxStateColumns} columns.`,
    );
  }

  weight(role: string, id: number): Weight {
    const { weights } = this.program;
    const weight = weights[id];
    if (weight) return weight;
    throw invalid(`'${role}' names weight ${id}; the program has ${weights.length}.`);
  }

  oneAttention(): void {
    if (++this.#attentions > 1) throw invalid("a program has at most one attention.");
  }

  newExchange(id: number): void {
    if (this.#exchanges.has(id)) throw invalid(`another exchange has the id ${id} too.`);
    this.#exchanges.add(id);
  }

  #checkView(role: string, view: View): void {
    const { buffers } = this.program;
    const buffer = buffers[view.buffer];
    if (!buffer) {
      throw invalid(`'${role}' names buffer ${view.buffer}; the program has ${buffers.length}.`);
    }
    const end = view.firstColumn + view.columns;
    if (view.columns >= 1 && end <= buffer.columns) return;
    throw invalid(
      `'${role}' is columns ${view.firstColumn} to ${end} of buffer ` +
        `'${buffer.name.slice(0, 200)}', which has ${buffer.columns}.`,
    );
  }
}

// Columns of a buffer that were written, as disjoint intervals.
class WrittenColumns {
  #intervals: [number, number][] = [];

  add(first: number, end: number): void {
    const apart = this.#intervals.filter(([a, b]) => b < first || a > end);
    const touching = this.#intervals.filter(([a, b]) => !(b < first || a > end));
    const from = Math.min(first, ...touching.map(([a]) => a));
    const to = Math.max(end, ...touching.map(([, b]) => b));
    this.#intervals = [...apart, [from, to]];
  }

  holds(first: number, end: number): boolean {
    return this.#intervals.some(([a, b]) => a <= first && end <= b);
  }
}

export function wrongShape(role: string, weight: Weight, expected: string): Error {
  return invalid(
    `'${role}' is '${weight.name.slice(0, 200)}' of shape ${shapeText(weight.shape)}; expected ` +
      `${expected}.`,
  );
}
