// What a program must satisfy before an engine may run it without further checks: the same rules as
// src/program/validate.cc. Weights: validateWeight.ts.
import { EngineError } from "../base/error.ts";
import { kMaxConvTaps, kMaxGroupBest, kMaxRouteGroups, kMaxStateColumns } from "./ir.ts";
import { isBlockFormat, outColumnsOf, overlap, readsOf, same, writtenBy } from "./ir.ts";
import type {
  CausalConv,
  DeltaRule,
  Gate,
  LayerNorm,
  MoeExperts,
  MoeRoute,
  Op,
  Program,
  QkNormRope,
  RmsNorm,
  SsmScan,
  View,
  Weight,
} from "./ir.ts";
import { checkWeight, invalid, shapeText } from "./validateWeight.ts";

const kMaxColumns = 1 << 24;
const kMaxItems = 1 << 16;

// Throws EngineError (invalid_data) naming layer and operation.
export function validate(program: Program): void {
  try {
    validateUnnamed(program);
  } catch (error) {
    if (!(error instanceof EngineError)) throw error;
    throw new EngineError(
      error.code,
      `The program of layer ${program.layerIndex} is not valid: ${error.message}`,
    );
  }
}

function validateUnnamed(program: Program): void {
  checkCounts(program);
  for (const weight of program.weights) checkWeight(weight);
  const checker = new OpChecker(program);
  for (const [index, op] of program.ops.entries()) {
    try {
      checker.check(op);
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
      throw invalid(`operation ${index} (${op.kind}): ${error.message}`);
    }
  }
  if (program.input === null && program.ops[0]?.kind !== "embed") {
    throw invalid("without an input buffer it must begin with embed.");
  }
  checker.expectWholeBuffer(program.output);
  checkRoutes(program);
}

function checkCounts(program: Program): void {
  if (program.ops.length === 0) throw invalid("it has no operations.");
  if (program.layerIndex > kMaxItems) {
    throw invalid(`its layer index is ${program.layerIndex}; at most ${kMaxItems}.`);
  }
  for (const { length } of [program.ops, program.buffers, program.weights]) {
    if (length <= kMaxItems) continue;
    throw invalid(`it has ${length} operations, buffers or weights; at most ${kMaxItems}.`);
  }
  for (const { name, columns } of program.buffers) {
    if (columns >= 1 && columns <= kMaxColumns) continue;
    throw invalid(`buffer '${name.slice(0, 200)}' has ${columns} columns.`);
  }
  for (const id of [program.input, program.output]) {
    if (id === null || id < program.buffers.length) continue;
    throw invalid(`its input or output is buffer ${id}; it has ${program.buffers.length}.`);
  }
}

// Expert indices are read from a buffer, so they must be what a MoeRoute over the same experts
// wrote there: nothing else may have touched them.
function checkRoutes(program: Program): void {
  for (const [index, op] of program.ops.entries()) {
    if (op.kind !== "moeExperts") continue;
    const writer = program.ops
      .slice(0, index)
      .findLast((earlier) => overlap(writtenBy(earlier), op.route));
    const fits =
      writer?.kind === "moeRoute" &&
      same(writer.out, op.route) &&
      writer.topK === op.topK &&
      writer.experts === op.experts;
    if (fits) continue;
    throw invalid(
      `operation ${index} (moeExperts) takes its route from columns that no moeRoute over the ` +
        `same experts wrote.`,
    );
  }
}

// Checks operations one after the other, knowing which columns were written before.
class OpChecker {
  readonly #program: Program;
  readonly #written: WrittenColumns[];
  readonly #exchanges = new Set<number>();
  #attentions = 0;

  constructor(program: Program) {
    this.#program = program;
    this.#written = program.buffers.map(() => new WrittenColumns());
    const { input } = program;
    if (input !== null) this.#written[input]!.add(0, program.buffers[input]!.columns);
  }

  expectWholeBuffer(id: number): void {
    const { name, columns } = this.#program.buffers[id]!;
    if (this.#written[id]!.holds(0, columns)) return;
    throw invalid(`nothing writes the whole of its output buffer '${name.slice(0, 200)}'.`);
  }

  check(op: Op): void {
    switch (op.kind) {
      case "embed":
        return this.#embed(op);
      case "rmsNorm":
      case "layerNorm":
        this.#elementwise([op.in], op.out);
        expectEpsilon(op.epsilon);
        this.#normWeight(op);
        if (op.kind === "layerNorm") this.#vector("bias", op.bias, op.in.columns);
        return;
      case "matmul":
        return this.#matmul(op);
      case "add":
        return this.#elementwise([op.a, op.b], op.out);
      case "scale":
        if (!Number.isFinite(op.factor)) throw invalid("'factor' is not finite.");
        return this.#elementwise([op.in], op.out);
      case "softcap":
        expectPositive("cap", op.cap);
        return this.#elementwise([op.in], op.out);
      case "qkNormRope":
        return this.#qkNormRope(op);
      case "attention":
        return this.#attention(op);
      case "gatedActivation":
        expectAtMost("activation", op.activation, 4);
        return this.#elementwise([op.gate, op.up], op.out);
      case "moeRoute":
        return this.#moeRoute(op);
      case "moeExperts":
        return this.#moeExperts(op);
      case "exchange":
        if (this.#exchanges.has(op.id)) {
          throw invalid(`another exchange has the id ${op.id} too.`);
        }
        this.#exchanges.add(op.id);
        this.#read(op.out);
        return this.#write(op.in);
      case "gate":
        return this.#gate(op);
      case "causalConv":
        return this.#causalConv(op);
      case "deltaRule":
        return this.#deltaRule(op);
      case "ssmScan":
        return this.#ssmScan(op);
    }
  }

  #gate(op: Gate): void {
    expectAtMost("kind of gate", op.gateKind, 2);
    if (op.gate.columns === op.in.columns) {
      this.#elementwise([op.in, op.gate], op.out);
      return;
    }
    this.#read(op.gate);
    expectColumns("gate", op.gate, 1);
    if (overlap(op.gate, op.out)) throw invalid("'out' overlaps 'gate'.");
    this.#elementwise([op.in], op.out);
  }

  #causalConv(op: CausalConv): void {
    this.#read(op.in);
    this.#writeDisjoint(op.out, [op.in]);
    expectColumns("out", op.out, op.in.columns);
    const weight = this.#weight("weight", op.weight);
    const [rows, taps = 0] = weight.shape;
    const fits = weight.dtype === 0 && weight.shape.length === 2 && rows === op.in.columns;
    if (!fits || taps < 2 || taps > kMaxConvTaps) {
      throw wrongShape("weight", weight, `[${op.in.columns}, 2 to ${kMaxConvTaps}] in f32`);
    }
    this.#vector("bias", op.bias, op.in.columns);
  }

  #deltaRule(op: DeltaRule): void {
    const inputs = [op.q, op.k, op.v, op.a, op.b];
    for (const view of inputs) this.#read(view);
    this.#writeDisjoint(op.out, inputs);
    expectHeads("q", op.q, op.keyHeads, op.keyColumns);
    expectHeads("k", op.k, op.keyHeads, op.keyColumns);
    expectHeads("v", op.v, op.valueHeads, op.valueColumns);
    expectHeads("out", op.out, op.valueHeads, op.valueColumns);
    expectColumns("a", op.a, op.valueHeads);
    expectColumns("b", op.b, op.valueHeads);
    expectShared("value heads", op.valueHeads, op.keyHeads, op.keyColumns);
    expectAtMost("kind of key groups", op.groups, 1);
    this.#vector("decay", op.decay, op.valueHeads);
    this.#vector("dt_bias", op.dtBias, op.valueHeads);
  }

  #ssmScan(op: SsmScan): void {
    const inputs = [op.x, op.b, op.c, op.dt];
    for (const view of inputs) this.#read(view);
    this.#writeDisjoint(op.out, inputs);
    expectHeads("x", op.x, op.heads, op.headColumns);
    expectHeads("out", op.out, op.heads, op.headColumns);
    expectHeads("b", op.b, op.groups, op.stateColumns);
    expectHeads("c", op.c, op.groups, op.stateColumns);
    expectColumns("dt", op.dt, op.heads);
    expectShared("heads", op.heads, op.groups, op.stateColumns);
    const { dtMin, dtMax } = op;
    const isRange = Number.isFinite(dtMin) && Number.isFinite(dtMax) && dtMin >= 0 && dtMax >= 0;
    if (!isRange || (dtMax > 0 && dtMax < dtMin)) {
      throw invalid(`its time steps lie between ${dtMin} and ${dtMax}.`);
    }
    for (const [role, weight] of Object.entries({ decay: op.decay, dt_bias: op.dtBias })) {
      this.#vector(role, weight, op.heads);
    }
    this.#vector("skip", op.skip, op.heads);
  }

  #embed(op: Extract<Op, { kind: "embed" }>): void {
    if (this.#program.input !== null) {
      throw invalid("it reads token ids, but the program also has an input buffer.");
    }
    if (!Number.isFinite(op.scale)) throw invalid("'scale' is not finite.");
    this.#write(op.out);
    const weight = this.#weight("weight", op.weight);
    if (weight.shape.length !== 2 || weight.shape[1] !== op.out.columns) {
      throw wrongShape("weight", weight, `[vocabulary, ${op.out.columns}]`);
    }
  }

  #matmul(op: Extract<Op, { kind: "matmul" }>): void {
    this.#read(op.in);
    this.#writeDisjoint(op.out, [op.in]);
    const { firstRow, rows } = op.weight;
    const weight = this.#weight("weight", op.weight.weight);
    if (weight.shape.length !== 2 || weight.shape[1] !== op.in.columns) {
      throw wrongShape("weight", weight, `[rows, ${op.in.columns}]`);
    }
    if (rows !== op.out.columns || firstRow + rows > weight.shape[0]!) {
      throw invalid(
        `'weight' takes rows ${firstRow} to ${firstRow + rows} of '${weight.name}' ` +
          `${shapeText(weight.shape)} for an output of ${op.out.columns} columns.`,
      );
    }
    this.#vector("bias", op.bias, op.out.columns);
  }

  #qkNormRope(op: QkNormRope): void {
    this.#elementwise([op.in], op.out);
    expectHeads("in", op.in, op.heads, op.headColumns);
    if (op.normWeight === null && !op.rope) {
      throw invalid("it has neither a norm nor a rotation.");
    }
    if (op.normWeight !== null) {
      expectEpsilon(op.epsilon);
      this.#vector("norm_weight", op.normWeight, op.headColumns);
    }
    if (!op.rope) return;
    expectPositive("rope.scale", op.rope.scale);
    const table = this.#weight("rope.inv_freq", op.rope.invFreq);
    const fits = table.dtype === 0 && table.shape.length === 1;
    if (fits && 2 * table.shape[0]! <= op.headColumns) return;
    throw wrongShape("rope.inv_freq", table, `at most [${op.headColumns / 2}] in f32`);
  }

  #attention(op: Extract<Op, { kind: "attention" }>): void {
    if (++this.#attentions > 1) throw invalid("a program has at most one attention.");
    const reads = readsOf(op);
    for (const view of reads) this.#read(view);
    this.#writeDisjoint(op.out, reads);
    expectHeads("q", op.q, op.heads, op.headColumns);
    if (op.kvLayer === null) {
      expectHeads("k", op.k, op.kvHeads, op.headColumns);
      expectHeads("v", op.v, op.kvHeads, op.headColumns);
    } else {
      this.#sharedKeys(op, op.kvLayer);
    }
    if (op.valueColumns > op.headColumns) {
      throw invalid(
        `its values are ${op.valueColumns} of the ${op.headColumns} columns of a key.`,
      );
    }
    if (op.kvLayer === null && op.valueColumns > 0 && !same(op.v, op.k)) {
      throw invalid("its values lie in its keys, but 'v' is not 'k'.");
    }
    expectHeads("out", op.out, op.heads, outColumnsOf(op));
    if (op.heads % op.kvHeads !== 0) {
      throw invalid(
        `${op.heads} heads cannot share ${op.kvHeads} key and value heads evenly.`,
      );
    }
    expectPositive("scale", op.scale);
    if (op.softcap !== 0) expectPositive("softcap", op.softcap);
    this.#vector("sinks", op.sinks, op.heads);
  }

  #sharedKeys(op: Extract<Op, { kind: "attention" }>, source: number): void {
    if (source >= this.#program.layerIndex) {
      throw invalid(
        `it attends to the keys and values of layer ${source}; expected a layer before its own.`,
      );
    }
    if (op.k.columns > 0 || op.v.columns > 0) {
      throw invalid("it attends to another layer's keys and values, but has its own, too.");
    }
    if (op.kvHeads === 0) throw invalid("it has 0 kv_heads.");
  }

  #moeRoute(op: MoeRoute): void {
    this.#read(op.logits);
    this.#writeDisjoint(op.out, [op.logits]);
    expectExperts(op.experts, op.topK);
    expectColumns("logits", op.logits, op.experts);
    expectColumns("out", op.out, 2 * op.topK);
    expectAtMost("kind of routing", op.route, 3);
    expectPositive("scale", op.scale);
    this.#vector("bias", op.bias, op.experts);
    const { experts, topK, groups, topGroups, groupBest } = op;
    if (groups === 1) return;
    const members = experts / groups;
    const fits =
      groups <= kMaxRouteGroups &&
      topGroups > 0 &&
      topGroups <= groups &&
      groupBest > 0 &&
      groupBest <= kMaxGroupBest &&
      Number.isInteger(members) &&
      groupBest <= members &&
      topK <= topGroups * members;
    if (fits) return;
    throw invalid(
      `it chooses ${topK} of ${experts} experts in ${topGroups} of ${groups} groups by the best ` +
        `${groupBest} of each, which cannot be.`,
    );
  }

  #moeExperts(op: MoeExperts): void {
    this.#read(op.in);
    this.#read(op.route);
    this.#writeDisjoint(op.out, [op.in, op.route]);
    expectExperts(op.experts, op.topK);
    expectColumns("route", op.route, 2 * op.topK);
    expectColumns("out", op.out, op.in.columns);
    expectAtMost("activation", op.activation, 4);
    const down = this.#weight("down", op.down);
    const [experts, columns, width] = down.shape;
    if (down.shape.length !== 3 || experts !== op.experts || columns !== op.in.columns) {
      throw wrongShape("down", down, `[${op.experts}, ${op.in.columns}, width]`);
    }
    const gateUp = this.#weight("gate_up", op.gateUp);
    const hasGate = gateUp.shape.length !== 3 || gateUp.shape[1] !== width;
    const rows = hasGate ? 2 * width! : width!;
    this.#shape("gate_up", op.gateUp, [op.experts, rows, op.in.columns]);
    this.#shape("gate_up_bias", op.gateUpBias, [op.experts, rows]);
    this.#shape("down_bias", op.downBias, [op.experts, op.in.columns]);
  }

  #checkView(view: View): void {
    const buffer = this.#program.buffers[view.buffer];
    if (!buffer) {
      throw invalid(
        `it names buffer ${view.buffer}; the program has ${this.#program.buffers.length}.`,
      );
    }
    if (view.columns >= 1 && view.firstColumn + view.columns <= buffer.columns) return;
    throw invalid(
      `it names columns ${view.firstColumn} to ${view.firstColumn + view.columns} of buffer ` +
        `'${buffer.name.slice(0, 200)}', which has ${buffer.columns}.`,
    );
  }

  #read(view: View): void {
    this.#checkView(view);
    const { firstColumn, columns } = view;
    if (this.#written[view.buffer]!.holds(firstColumn, firstColumn + columns)) return;
    const { name } = this.#program.buffers[view.buffer]!;
    throw invalid(
      `it reads columns of buffer '${name.slice(0, 200)}' that nothing wrote before.`,
    );
  }

  #write(view: View): void {
    this.#checkView(view);
    this.#written[view.buffer]!.add(view.firstColumn, view.firstColumn + view.columns);
  }

  #writeDisjoint(out: View, inputs: readonly View[]): void {
    this.#checkView(out);
    if (inputs.some((input) => overlap(input, out))) {
      throw invalid("'out' overlaps an input.");
    }
    this.#write(out);
  }

  // All views of equal width; the output is one of the inputs or apart from them.
  #elementwise(inputs: readonly View[], out: View): void {
    this.#checkView(out);
    for (const input of inputs) {
      this.#read(input);
      expectColumns("an input", input, out.columns);
      if (overlap(input, out) && !same(input, out)) {
        throw invalid("'out' overlaps an input without being the same view.");
      }
    }
    this.#write(out);
  }

  #weight(role: string, id: number): Weight {
    const weight = this.#program.weights[id];
    if (weight) return weight;
    throw invalid(
      `'${role}' names weight ${id}; the program has ${this.#program.weights.length}.`,
    );
  }

  // An optional weight of exactly this shape in a plain dtype.
  #shape(role: string, id: number | null, shape: readonly number[]): void {
    if (id === null) return;
    const weight = this.#weight(role, id);
    const fits =
      weight.shape.length === shape.length && weight.shape.every((d, i) => d === shape[i]);
    if (!fits) throw wrongShape(role, weight, shapeText(shape));
  }

  // One row a group of columns. Rows of blocks are of matrices.
  #normWeight(op: RmsNorm | LayerNorm): void {
    const weight = this.#weight("weight", op.weight);
    const [groups, columns] = weight.shape as readonly [number, number];
    if (op.kind === "layerNorm" || weight.shape.length !== 2) {
      this.#vector("weight", op.weight, op.in.columns);
    } else if (isBlockFormat(weight.dtype) || groups * columns !== op.in.columns) {
      const expected = `[${op.in.columns}] or [groups, ${op.in.columns} / groups], in no blocks`;
      throw wrongShape("weight", weight, expected);
    }
  }

  #vector(role: string, id: number | null, columns: number): void {
    if (id === null) return;
    this.#shape(role, id, [columns]);
  }
}

// Which columns of a buffer were written, as disjoint intervals.
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

function wrongShape(role: string, weight: Weight, expected: string): EngineError {
  return invalid(
    `'${role}' is '${weight.name.slice(0, 200)}' ${shapeText(weight.shape)}; expected ${expected}.`,
  );
}

function expectColumns(role: string, view: View, columns: number): void {
  if (view.columns === columns) return;
  throw invalid(`'${role}' has ${view.columns} columns; expected ${columns}.`);
}

function expectHeads(role: string, view: View, heads: number, headColumns: number): void {
  if (heads === 0 || headColumns === 0) {
    throw invalid(`it has ${heads} heads of ${headColumns} columns.`);
  }
  expectColumns(role, view, heads * headColumns);
}

// `heads` share what belongs to each of `groups`, states of so many columns.
function expectShared(what: string, heads: number, groups: number, columns: number): void {
  if (heads % groups === 0 && columns <= kMaxStateColumns) return;
  throw invalid(
    `${heads} ${what} cannot share ${groups} of ${columns} columns; expected a multiple, and at ` +
      `most ${kMaxStateColumns} columns.`,
  );
}

function expectPositive(role: string, value: number): void {
  if (Number.isFinite(value) && value > 0) return;
  throw invalid(`'${role}' is ${value}; expected a positive number.`);
}

function expectEpsilon(value: number): void {
  if (Number.isFinite(value) && value >= 0 && value < 1) return;
  throw invalid(`'epsilon' is ${value}; expected 0 or more and below 1.`);
}

function expectAtMost(role: string, value: number, most: number): void {
  if (value <= most) return;
  throw invalid(`its ${role} is ${value}, which is none.`);
}

function expectExperts(experts: number, topK: number): void {
  if (experts >= 1 && experts <= kMaxItems && topK >= 1 && topK <= experts) return;
  throw invalid(`it chooses ${topK} of ${experts} experts.`);
}
