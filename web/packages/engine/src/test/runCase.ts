// Runs a conformance case as a program of one layer through the whole engine. Tests only.
import type { ToyLayer } from "./toyModel.ts";
import { ToyModel } from "./toyModel.ts";
import { floatsOf, intsOf, weightOf } from "./caseInputs.ts";
import type { ConformanceCase, WeightArrays } from "./caseInputs.ts";
import { kDefaultOptions, WebGpuEngine } from "../webgpuEngine.ts";
import type { WebGpuOptions } from "../webgpuEngine.ts";
import type { Gpu } from "../gpu/open.ts";
import type { Output, StepOutput } from "../stage/stageEngine.ts";

const kActivations = ["silu", "gelu_tanh", "gelu", "swiglu_oai", "relu"];
const kRoutes = [
  "softmax_top_k",
  "softmax_top_k_normalized",
  "sigmoid_top_k",
  "sigmoid_top_k_normalized",
  "all",
];

interface View {
  buffer: number;
  firstColumn: number;
  columns: number;
}

function view(buffer: number, columns: number, firstColumn = 0): View {
  return { buffer, firstColumn, columns };
}

interface Prepared {
  readonly layer: ToyLayer;
  readonly index: number; // 0: the embedding
  readonly rows: number;
  readonly firstPosition: number;
  readonly tokenIds: Int32Array<ArrayBuffer>;
  readonly hidden: Float32Array<ArrayBuffer>;
  readonly output: Output;
}

// Several [rows, columns] inputs side by side, as one residual stream.
function sideBySide(parts: readonly Float32Array[], rows: number): Float32Array<ArrayBuffer> {
  const widths = parts.map((part) => part.length / rows);
  const width = widths.reduce((sum, w) => sum + w, 0);
  const out = new Float32Array(rows * width);
  for (let row = 0; row < rows; ++row) {
    let at = row * width;
    for (const [i, part] of parts.entries()) {
      out.set(part.subarray(row * widths[i]!, (row + 1) * widths[i]!), at);
      at += widths[i]!;
    }
  }
  return out;
}

class Preparing {
  readonly #case: ConformanceCase;
  readonly #weights: WeightArrays[] = [];

  constructor(c: ConformanceCase) {
    this.#case = c;
  }

  #floats(name: string): Float32Array<ArrayBuffer> {
    return floatsOf(this.#case.inputs[name]!);
  }

  #shape(name: string): readonly number[] {
    return this.#case.inputs[name]!.shape;
  }

  #number(name: string): number {
    return this.#case.params[name] as number;
  }

  #numberOr(name: string, otherwise: number): number {
    return (this.#case.params[name] as number | undefined) ?? otherwise;
  }

  // The id of a weight that the case has, else nothing.
  #weight(name: string): number | undefined {
    const input = this.#case.inputs[name];
    if (!input) return undefined;
    return this.#weights.push(weightOf(input)) - 1;
  }

  #optional<K extends string>(key: K, name: string): Partial<Record<K, number>> {
    const id = this.#weight(name);
    return (id === undefined ? {} : { [key]: id }) as Partial<Record<K, number>>;
  }

  // A program over inputs side by side in buffer 0, whose result is in buffer 1. The head's output
  // (logits) is any width, which suits operations that are not residual.
  #prepared(
    inputs: readonly string[],
    outColumns: number,
    buffers: readonly number[],
    ops: ToyLayer["ops"],
    rest: Partial<Prepared> = {},
  ): Prepared {
    const parts = inputs.map((name) => this.#floats(name));
    const rows = this.#shape(inputs[0]!).length === 1 ? 1 : this.#shape(inputs[0]!)[0]!;
    const hidden = sideBySide(parts, rows);
    const columns = hidden.length / rows;
    const layer = {
      buffers: [columns, outColumns, ...buffers],
      weights: this.#weights,
      ops,
      input: 0,
      output: 1,
    };
    const output = { kind: "logits" } as const;
    const tokenIds = new Int32Array(0);
    return { layer, index: 1, rows, firstPosition: 0, tokenIds, hidden, output, ...rest };
  }

  prepare(): Prepared {
    const c = this.#case;
    switch (c.op) {
      case "embed":
        return this.#embed();
      case "rms_norm":
      case "layer_norm":
        return this.#norm(c.op === "layer_norm");
      case "matmul":
        return this.#matmul();
      case "add": {
        const columns = this.#shape("a")[1]!;
        const value = { a: view(0, columns), b: view(0, columns, columns), out: view(1, columns) };
        const ops = [{ kind: { case: "add", value } }] as const;
        const more = { output: { kind: "hidden" } } as const;
        return this.#prepared(["a", "b"], columns, [columns], [...ops], more);
      }
      case "scale":
      case "softcap": {
        const columns = this.#shape("in")[1]!;
        const views = { in: view(0, columns), out: view(1, columns) };
        const number = this.#number(c.op === "scale" ? "factor" : "cap");
        const scale = { case: "scale", value: { ...views, factor: number } } as const;
        const cap = { case: "softcap", value: { ...views, cap: number } } as const;
        return this.#prepared(["in"], columns, [], [{ kind: c.op === "scale" ? scale : cap }]);
      }
      case "gated_activation": {
        const columns = this.#shape("gate")[1]!;
        const kind = kActivations.indexOf(c.params["kind"] as string);
        const views = { gate: view(0, columns), up: view(0, columns, columns) };
        const value = { ...views, out: view(1, columns), kind };
        return this.#prepared(["gate", "up"], columns, [], [
          { kind: { case: "gatedActivation", value } },
        ]);
      }
      default:
        return this.#prepareMore();
    }
  }

  #prepareMore(): Prepared {
    switch (this.#case.op) {
      case "qk_norm_rope":
        return this.#rope();
      case "attention":
        return this.#attention();
      case "moe_route": {
        const columns = this.#shape("logits")[1]!;
        const written = 2 * this.#number("top_k") * this.#numberOr("parts", 1);
        const route = this.#route(view(0, columns), view(1, written), columns);
        return this.#prepared(["logits"], written, [], [route]);
      }
      case "moe_experts":
        return this.#experts();
      case "top_k":
      case "argmax": {
        const [columns] = this.#shape("logits") as [number];
        const value = { in: view(0, columns), out: view(1, columns), factor: 1 };
        const count = this.#case.op === "top_k" ? this.#number("k") : 0;
        const output: Output =
          count > 0 ? { kind: "candidates", count } : { kind: "argmax" };
        return this.#prepared(["logits"], columns, [], [{ kind: { case: "scale", value } }], {
          output,
        });
      }
      default:
        throw new Error(`no such operation: ${this.#case.op}`);
    }
  }

  #embed(): Prepared {
    const tokenIds = intsOf(this.#case.inputs["token_ids"]!);
    const columns = this.#shape("table")[1]!;
    const weight = this.#weight("table")!;
    const value = { weight, out: view(0, columns), scale: this.#number("scale") };
    const ops = [{ kind: { case: "embed", value } }] as const;
    const layer = {
      buffers: [columns],
      weights: this.#weights,
      ops: [...ops],
      input: null,
      output: 0,
    };
    return {
      layer,
      index: 0,
      rows: tokenIds.length,
      firstPosition: 0,
      tokenIds,
      hidden: new Float32Array(0),
      output: { kind: "hidden" },
    };
  }

  #norm(isLayerNorm: boolean): Prepared {
    const columns = this.#shape("in")[1]!;
    const value = {
      in: view(0, columns),
      out: view(1, columns),
      weight: this.#weight("weight")!,
      epsilon: this.#number("epsilon"),
    };
    if (!isLayerNorm) {
      return this.#prepared(["in"], columns, [], [{ kind: { case: "rmsNorm", value } }]);
    }
    const withBias = { ...value, ...this.#optional("bias", "bias") };
    return this.#prepared(["in"], columns, [], [{ kind: { case: "layerNorm", value: withBias } }]);
  }

  #matmul(): Prepared {
    const columns = this.#shape("in")[1]!;
    const [rows] = this.#shape("weight") as [number];
    const value = {
      in: view(0, columns),
      out: view(1, rows),
      weight: { weight: this.#weight("weight")!, firstRow: 0, rows },
      ...this.#optional("bias", "bias"),
    };
    return this.#prepared(["in"], rows, [], [{ kind: { case: "matmul", value } }]);
  }

  #rope(): Prepared {
    const columns = this.#shape("in")[1]!;
    const table = this.#weight("inv_freq");
    const rope =
      table === undefined
        ? {}
        : {
            rope: {
              invFreq: table,
              scale: this.#number("rope_scale"),
              interleaved: this.#case.params["interleaved"] as boolean,
            },
          };
    const value = {
      in: view(0, columns),
      out: view(1, columns),
      heads: this.#number("heads"),
      headColumns: this.#number("head_columns"),
      epsilon: this.#number("epsilon"),
      ...this.#optional("normWeight", "norm_weight"),
      ...rope,
    };
    const firstPosition = this.#number("first_position");
    return this.#prepared(["in"], columns, [], [{ kind: { case: "qkNormRope", value } }], {
      firstPosition,
    });
  }

  // Attention belongs to a layer that leaves a residual stream: its result plus nothing.
  #attention(): Prepared {
    const q = this.#shape("q")[1]!;
    const k = this.#shape("k")[1]!;
    const valueColumns = this.#numberOr("value_columns", 0);
    const inKeys = valueColumns > 0;
    const columns = inKeys ? this.#number("heads") * valueColumns : q;
    const value = {
      q: view(0, q),
      k: view(0, k, q),
      v: view(0, k, inKeys ? q : q + k),
      out: view(2, columns),
      valueColumns,
      heads: this.#number("heads"),
      kvHeads: this.#number("kv_heads"),
      headColumns: this.#number("head_columns"),
      scale: this.#number("scale"),
      window: this.#number("window"),
      softcap: this.#number("softcap"),
      ...this.#optional("sinks", "sinks"),
    };
    const nothing = { in: view(2, columns), out: view(3, columns), factor: 0 };
    const add = { a: view(2, columns), b: view(3, columns), out: view(1, columns) };
    const ops = [
      { kind: { case: "attention", value } },
      { kind: { case: "scale", value: nothing } },
      { kind: { case: "add", value: add } },
    ] as const;
    const inputs = inKeys ? ["q", "k"] : ["q", "k", "v"];
    const more = { output: { kind: "hidden" } } as const;
    return this.#prepared(inputs, columns, [columns, columns], [...ops], more);
  }

  #route(logits: View, out: View, experts: number): ToyLayer["ops"][number] {
    const name = (this.#case.params["kind"] ?? "") as string;
    const kind = kRoutes.includes(name) ? kRoutes.indexOf(name) : 1;
    const numbers = { experts, topK: this.#number("top_k"), kind };
    const groups = {
      scale: this.#numberOr("scale", 0),
      groups: this.#numberOr("groups", 0),
      topGroups: this.#numberOr("top_groups", 0),
      groupBest: this.#numberOr("group_best", 0),
      parts: this.#numberOr("parts", 0),
    };
    const value = { logits, out, ...numbers, ...groups, ...this.#optional("bias", "bias") };
    return { kind: { case: "moeRoute", value } };
  }

  #experts(): Prepared {
    const columns = this.#shape("in")[1]!;
    const experts = this.#shape("logits")[1]!;
    const topK = this.#number("top_k");
    const value = {
      in: view(0, columns),
      route: view(2, 2 * topK),
      out: view(1, columns),
      experts,
      topK,
      kind: kActivations.indexOf(this.#case.params["kind"] as string),
      gateUp: this.#weight("gate_up")!,
      down: this.#weight("down")!,
      gridStep: this.#numberOr("grid_step", 0),
      gridLimit: this.#numberOr("grid_limit", 0),
      ...this.#optional("gateUpBias", "gate_up_bias"),
      ...this.#optional("downBias", "down_bias"),
    };
    const route = this.#route(view(0, experts, columns), view(2, 2 * topK), experts);
    const ops = [route, { kind: { case: "moeExperts", value } }] as const;
    const more = { output: { kind: "hidden" } } as const;
    return this.#prepared(["in", "logits"], columns, [2 * topK], [...ops], more);
  }
}

function flat(c: ConformanceCase, output: StepOutput): number[] {
  const [selection] = output.selections;
  if (c.op === "argmax") return selection!.candidates.flatMap((x) => [x.tokenId, x.logit]);
  if (c.op === "top_k") {
    const { candidates, logsumexp } = selection!;
    const ids = candidates.map((x) => x.tokenId);
    return [...ids, ...candidates.map((x) => x.logit), logsumexp];
  }
  const values = output.hidden.length > 0 ? output.hidden : output.logits;
  return [...values.slice(-c.expected.length)];
}

// A step has `rowsTogether` rows; the result must not depend on it.
export async function runCase(
  gpu: Gpu,
  c: ConformanceCase,
  rowsTogether: number,
  options: Partial<WebGpuOptions> = { products: "f32" },
): Promise<number[]> {
  const p = new Preparing(c).prepare();
  const engine = new WebGpuEngine(gpu, { ...kDefaultOptions, ...options });
  const layers = { first: p.index, end: p.index + 1 };
  await engine.load(layers, new ToyModel(new Map([[p.index, p.layer]])));
  const columns = p.hidden.length / p.rows;
  const values: number[] = [];
  for (let row = 0; row < p.rows; row += rowsTogether) {
    const count = Math.min(rowsTogether, p.rows - row);
    const firstPosition = p.firstPosition + row;
    const output = await engine.step({
      layers,
      runs: [{ session: 1, generation: 0, firstPosition, count, output: p.output }],
      tokenIds: p.tokenIds.slice(row, row + count),
      hidden: p.hidden.slice(row * columns, (row + count) * columns),
    });
    const rows = output.hidden.length > 0 ? output.hidden : output.logits;
    for (const value of output.selections.length > 0 ? flat(c, output) : rows) values.push(value);
  }
  engine.freeBuffers();
  return values.slice(-c.expected.length);
}
