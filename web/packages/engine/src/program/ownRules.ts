// What must hold of only one operation: "own" in src/program/ops.json, OpChecker::Own in C++.
import type { OpChecker } from "./checker.ts";
import { kMaxExperts, wrongShape } from "./checker.ts";
import {
  RouteKind, isBlockFormat, kMaxConvTaps, kMaxGroupBest, kMaxRouteGroups, outColumnsOf,
} from "./ir.ts";
import type {
  Attention,
  CausalConv,
  Embed,
  Exchange,
  Gate,
  MoeExperts,
  MoeRoute,
  QkNormRope,
  RmsNorm,
  SsmScan,
} from "./ir.ts";
import { invalid } from "./validateWeight.ts";
import { overlap, same } from "./views.ts";

export const kOwnRules = {
  embed(check: OpChecker, _op: Embed): void {
    if (check.program.input === null) return;
    throw invalid("it reads token ids, but the program also has an input buffer.");
  },

  // One row a group of columns. Rows of blocks are of matrices.
  rmsNorm(check: OpChecker, op: RmsNorm): void {
    const weight = check.weight("weight", op.weight);
    const { columns } = op.in;
    if (weight.shape.length !== 2) {
      check.shape("weight", op.weight, [columns]);
      return;
    }
    const [groups, width] = weight.shape as readonly [number, number];
    if (!isBlockFormat(weight.dtype) && groups * width === columns) return;
    const expected = `[${columns}] or [groups, ${columns} / groups] in f32, f16 or bf16`;
    throw wrongShape("weight", weight, expected);
  },

  qkNormRope(check: OpChecker, op: QkNormRope): void {
    if (op.normWeight === null && !op.rope) {
      throw invalid("it has neither a norm nor a rotation.");
    }
    if (op.normWeight !== null) check.epsilon("epsilon", op.epsilon);
  },

  attention(check: OpChecker, op: Attention): void {
    check.oneAttention();
    check.read("q", op.q);
    check.heads("q", op.q, "heads", op.heads, "head_columns", op.headColumns);
    if (op.valueColumns > op.headColumns) {
      throw invalid(
        `its values are ${op.valueColumns} of the ${op.headColumns} columns of a key.`,
      );
    }
    if (op.kvLayer === null) ownKeys(check, op);
    else sharedKeys(check, op, op.kvLayer);
    const columnsRole = op.valueColumns > 0 ? "value_columns" : "head_columns";
    check.heads("out", op.out, "heads", op.heads, columnsRole, outColumnsOf(op));
    if (op.heads % op.kvHeads !== 0) {
      throw invalid(
        `${op.heads} heads cannot share ${op.kvHeads} key and value heads evenly.`,
      );
    }
  },

  moeRoute(check: OpChecker, op: MoeRoute): void {
    const { experts, topK, groups, topGroups, groupBest, parts } = op;
    const isAll = op.routeKind === RouteKind.all;
    if (parts < 1 || parts * experts > kMaxExperts || (isAll && parts > 1)) {
      throw invalid(
        `its ${experts} experts are in ${parts} parts each, expected at most ${kMaxExperts} ` +
          `parts in all, and no parts where all experts are taken.`,
      );
    }
    check.columns("out", op.out, 2 * topK * parts);
    if (isAll && topK !== experts) {
      throw invalid(`it takes all of its ${experts} experts, but top_k is ${topK}.`);
    }
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
  },

  // `down` says the width, from which follows whether gate_up has gates.
  moeExperts(check: OpChecker, op: MoeExperts): void {
    const { experts } = op;
    const { columns } = op.in;
    check.shape("down", op.down, [experts, columns, "width"]);
    const width = check.weight("down", op.down).shape[2]!;
    const { shape } = check.weight("gate_up", op.gateUp);
    const hasGate = shape.length !== 3 || shape[1] !== width;
    const rows = hasGate ? 2 * width : width;
    check.shape("gate_up", op.gateUp, [experts, rows, columns]);
    check.shape("gate_up_bias", op.gateUpBias, [experts, rows]);
    check.shape("down_bias", op.downBias, [experts, columns]);
  },

  exchange(check: OpChecker, op: Exchange): void {
    check.newExchange(op.id);
  },

  gate(check: OpChecker, op: Gate): void {
    if (op.gate.columns === op.in.columns) {
      check.elementwise([["in", op.in], ["gate", op.gate]], op.out);
      return;
    }
    check.read("gate", op.gate);
    check.columns("gate", op.gate, 1);
    if (overlap(op.gate, op.out)) throw invalid("'out' overlaps 'gate'.");
    check.elementwise([["in", op.in]], op.out);
  },

  causalConv(check: OpChecker, op: CausalConv): void {
    const weight = check.weight("weight", op.weight);
    const [rows, taps = 0] = weight.shape;
    const fits = weight.dtype === 0 && weight.shape.length === 2 && rows === op.in.columns;
    if (fits && taps >= 2 && taps <= kMaxConvTaps) return;
    throw wrongShape("weight", weight, `[${op.in.columns}, 2 to ${kMaxConvTaps}] in f32`);
  },

  ssmScan(check: OpChecker, { dtMin, dtMax }: SsmScan): void {
    check.finite("dt_min", dtMin);
    check.finite("dt_max", dtMax);
    if (dtMin >= 0 && dtMax >= 0 && (dtMax === 0 || dtMax >= dtMin)) return;
    throw invalid(`its time steps lie between ${dtMin} and ${dtMax}.`);
  },
};

function ownKeys(check: OpChecker, op: Attention): void {
  check.apart([["q", op.q], ["k", op.k], ["v", op.v]], op.out);
  check.heads("k", op.k, "kv_heads", op.kvHeads, "head_columns", op.headColumns);
  check.heads("v", op.v, "kv_heads", op.kvHeads, "head_columns", op.headColumns);
  if (op.valueColumns > 0 && !same(op.v, op.k)) {
    throw invalid("its values lie in its keys, but 'v' is not 'k'.");
  }
}

function sharedKeys(check: OpChecker, op: Attention, source: number): void {
  if (source >= check.program.layerIndex) {
    throw invalid(
      `it attends to the keys and values of layer ${source}; expected a layer before its own.`,
    );
  }
  if (op.k.columns > 0 || op.v.columns > 0) {
    throw invalid("it attends to another layer's keys and values, but has its own, too.");
  }
  if (op.kvHeads === 0) throw invalid("it has 0 kv_heads.");
  check.apart([["q", op.q]], op.out);
}
