// onnxruntime's WebGPU provider as a subject: onnxruntime-node and onnxruntime-web have one API.
// Keys and values stay on the GPU, in the way that is faster there: "grow" hands the present of a
// step to the next one as its past (what transformers.js does), "in place" binds one buffer of
// full length as both (what onnxruntime-genai does; onnxruntime-node copies it all the same, so it
// is left out there).
import { shapeOf } from "../shapes.mjs";
import { timed } from "../times.mjs";

const kRoom = 320; // positions after a context for what is decoded
const kTrialTokens = 8;
const kStorage = 0x80 | 0x8 | 0x4; // and copies in both directions

export class Ort {
  #ort;
  #open; // (size) => {model, dtype, options}
  #mayBindInPlace;
  #session = null;
  #shape = null;
  #dtype = "f32";
  #names = [];
  #past = null; // the keys and values of the context that is held
  #held = "";
  #place = new Map(); // by context: the faster way

  constructor(ort, open, mayBindInPlace) {
    Object.assign(ort.env, { logLevel: "error" });
    this.#ort = ort;
    this.#open = open;
    this.#mayBindInPlace = mayBindInPlace;
  }

  async load({ size }) {
    this.#shape = shapeOf(size);
    const { model, dtype, options } = await this.#open(size);
    this.#dtype = dtype;
    this.#names = Array.from({ length: this.#shape.layers }, (_, layer) =>
      ["key", "value"].map((part) => `${layer}.${part}`),
    ).flat();
    const present = this.#names.map((name) => [`present.${name}`, "gpu-buffer"]);
    const loadMs = await timed(async () => {
      this.#session = await this.#ort.InferenceSession.create(model, {
        executionProviders: ["webgpu"],
        preferredOutputLocation: Object.fromEntries(present),
        ...options,
      });
    });
    return { loadMs: Math.round(loadMs), dtype };
  }

  async prefill({ count }) {
    let held = null;
    const ms = await timed(async () => {
      held = await this.#run(this.#ids(0, count), 0, this.#empty());
    });
    held.drop();
    return { ms };
  }

  // ms a token in the faster way, which the first call at a context finds out.
  async decode({ context, tokens }) {
    if (!this.#place.has(context)) {
      await this.#decode(context, kTrialTokens, "grow");
      const grow = await this.#decode(context, kTrialTokens, "grow");
      this.#place.set(context, "grow");
      if (this.#mayBindInPlace) {
        await this.#decode(context, kTrialTokens, "in place");
        const inPlace = await this.#decode(context, kTrialTokens, "in place");
        if (inPlace < grow) this.#place.set(context, "in place");
      }
    }
    const kv = this.#place.get(context);
    return { ms: await this.#decode(context, tokens, kv), kv };
  }

  async unload() {
    this.#past?.drop();
    await this.#session?.release();
  }

  #ids(first, count) {
    const { vocabulary } = this.#shape;
    const id = (i) => BigInt((i * 7919 + 13) % vocabulary);
    return BigInt64Array.from({ length: count }, (_, i) => id(first + i));
  }

  // Keys and values of no position.
  #empty() {
    const { kvHeads, headColumns } = this.#shape;
    const isHalf = this.#dtype === "f16";
    const Values = isHalf ? (globalThis.Float16Array ?? Uint16Array) : Float32Array;
    const dims = [1, kvHeads, 0, headColumns];
    const type = isHalf ? "float16" : "float32";
    const tensor = () => new this.#ort.Tensor(type, new Values(0), dims);
    return { tensors: this.#names.map(tensor), isInPlace: false, drop: () => undefined };
  }

  // Buffers for every position of a context and what is decoded after it.
  #bound(context) {
    const { kvHeads, headColumns } = this.#shape;
    const { device } = this.#ort.env.webgpu;
    const dims = [1, kvHeads, context + kRoom, headColumns];
    const isHalf = this.#dtype === "f16";
    const size = dims.reduce((a, b) => a * b) * (isHalf ? 2 : 4);
    const buffers = this.#names.map(() => device.createBuffer({ size, usage: kStorage }));
    const dataType = isHalf ? "float16" : "float32";
    const tensors = buffers.map((buffer) =>
      this.#ort.Tensor.fromGpuBuffer(buffer, { dataType, dims }),
    );
    const drop = () => buffers.forEach((buffer) => buffer.destroy());
    return { tensors, isInPlace: true, drop };
  }

  // Runs rows behind `position` ones; what holds the keys and values then. Its token is fetched.
  async #run(ids, position, past) {
    const { Tensor } = this.#ort;
    const length = position + ids.length;
    const feeds = {
      input_ids: new Tensor("int64", ids, [1, ids.length]),
      seqlens_k: new Tensor("int32", Int32Array.of(length - 1), [1]),
      total_length: new Tensor("int32", Int32Array.of(length), []),
    };
    const fetches = { token: null };
    for (const [index, name] of this.#names.entries()) {
      feeds[`past_key_values.${name}`] = past.tensors[index];
      fetches[`present.${name}`] = past.isInPlace ? past.tensors[index] : null;
    }
    const results = await this.#session.run(feeds, fetches);
    const token = results.token.data[0];
    if (past.isInPlace) return Object.assign(past, { token });
    const tensors = this.#names.map((name) => results[`present.${name}`]);
    const drop = () => tensors.forEach((tensor) => tensor.dispose());
    return { tensors, isInPlace: false, drop, token };
  }

  async #hold(context, kv) {
    const key = `${context} ${kv}`;
    if (this.#held === key) return;
    this.#past?.drop();
    const at = kv === "grow" ? this.#empty() : this.#bound(context);
    this.#past = await this.#fill(at, context);
    this.#held = key;
  }

  async #fill(empty, context) {
    let past = empty;
    for (let position = 0; position < context; position += 512) {
      const count = Math.min(512, context - position);
      const next = await this.#run(this.#ids(position, count), position, past);
      if (next !== past) past.drop();
      past = next;
    }
    return past;
  }

  async #decode(context, tokens, kv) {
    await this.#hold(context, kv);
    let past = this.#past;
    let token = 1n;
    const ms = await timed(async () => {
      for (let i = 0; i < tokens; ++i) {
        const next = await this.#run(BigInt64Array.of(token), context + i, past);
        if (past !== this.#past) past.drop();
        past = next;
        token = next.token;
      }
    });
    if (past !== this.#past) past.drop();
    return ms / tokens;
  }
}
