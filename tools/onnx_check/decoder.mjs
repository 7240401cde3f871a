// Runs a decoder that is cut into parts (one part: the whole model) with its key-value cache, in
// onnxruntime.
import ort from 'onnxruntime-node';

const zeroArrays = {
  float: Float32Array,
  float16: Uint16Array,
  int8: Int8Array,
  uint8: Uint8Array,
};
const tensorTypes = { float: 'float32', float16: 'float16', int8: 'int8', uint8: 'uint8' };

/** Float32 values of a float32 or float16 tensor. */
export function toFloats(tensor) {
  if (tensor.type === 'float32') return tensor.data;
  if (tensor.type !== 'float16') throw new Error(`A tensor of type ${tensor.type} has no floats.`);
  if (!(tensor.data instanceof Uint16Array)) return Float32Array.from(tensor.data);
  return Float32Array.from(tensor.data, halfToFloat);
}

function halfToFloat(half) {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

function integers(values, dims) {
  return new ort.Tensor('int64', BigInt64Array.from(values, BigInt), dims);
}

/** optimization: onnxruntime's graphOptimizationLevel, 'basic' (no fused kernels) or 'all'. */
export async function openSession(path, optimization) {
  return ort.InferenceSession.create(path, {
    logSeverityLevel: 3,
    graphOptimizationLevel: optimization,
    intraOpNumThreads: 1,
    interOpNumThreads: 1,
  });
}

/**
 * sessions: the parts in order. states: [{ inputs: [{name, type, dims}], outputs: [name] }] of the
 * whole model, with numbers for every dimension but batch and length. logitsName: the output that
 * the last part gives.
 */
export class Decoder {
  #sessions;
  #states;
  #logitsName;
  #cache = new Map();
  #pastLength = 0;

  constructor(sessions, states, logitsName) {
    this.#sessions = sessions;
    this.#states = states;
    this.#logitsName = logitsName;
    this.reset();
  }

  reset() {
    this.#cache.clear();
    this.#pastLength = 0;
    for (const { inputs } of this.#states) {
      for (const { name, type, dims } of inputs) {
        const empty = dims.map((dim, axis) => (axis === 0 ? 1 : typeof dim === 'number' ? dim : 0));
        const count = empty.reduce((a, b) => a * b, 1);
        const tensor = new ort.Tensor(tensorTypes[type], new zeroArrays[type](count), empty);
        this.#cache.set(name, tensor);
      }
    }
  }

  /** Runs `tokens` after everything so far; returns the logits [1, tokens.length, vocabulary]. */
  async run(tokens) {
    const past = this.#pastLength;
    const total = past + tokens.length;
    const common = new Map([
      ['input_ids', integers(tokens, [1, tokens.length])],
      ['attention_mask', integers(new Array(total).fill(1), [1, total])],
      ['position_ids', integers(tokens.map((_, i) => past + i), [1, tokens.length])],
    ]);
    const next = new Map();
    let hidden;
    let logits;
    for (const session of this.#sessions) {
      const feeds = {};
      for (const name of session.inputNames) {
        feeds[name] = name === 'hidden_in' ? hidden : (common.get(name) ?? this.#cache.get(name));
        if (!feeds[name]) throw new Error(`A part wants the input '${name}'.`);
      }
      const results = await session.run(feeds);
      for (const [name, tensor] of Object.entries(results)) next.set(name, tensor);
      hidden = results.hidden_out;
      logits = results[this.#logitsName] ?? logits;
    }
    for (const { inputs, outputs } of this.#states) {
      inputs.forEach(({ name }, i) => this.#cache.set(name, next.get(outputs[i])));
    }
    this.#pastLength = total;
    return logits;
  }
}
