// A model that says a given text: each piece of it is a token of its own, and all that the model
// computes is which token follows the last one. Written as a Llama checkpoint whose layer adds
// nothing: the row of the token in the embedding is a random direction, and the head's row of the
// token that is to follow is that direction again.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const kColumns = 64;

// Directions that have little in common.
function direction(seed) {
  let state = (seed + 1) * 2654435761 >>> 0;
  return Float32Array.from({ length: kColumns }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state & 0x80000000 ? 1 : -1;
  });
}

function safetensors(tensors) {
  const header = {};
  let at = 0;
  for (const [name, { shape, values }] of Object.entries(tensors)) {
    header[name] = { dtype: "F32", shape, data_offsets: [at, at + values.byteLength] };
    at += values.byteLength;
  }
  let text = JSON.stringify(header);
  text += " ".repeat((8 - (text.length % 8)) % 8);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const bodies = Object.values(tensors).map(({ values }) => Buffer.from(values.buffer));
  return Buffer.concat([length, Buffer.from(text), ...bodies]);
}

// The alphabet of byte-level vocabularies: bytes that do not print have letters from U+0100 on.
function byteAlphabet() {
  const printing = (byte) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) =>
    String.fromCodePoint(printing(byte) ? byte : next++));
}

// Writes the checkpoint to `folder`. `follows` maps a token's text to the next one's: "<|begin|>"
// is the end of every prompt, "<|end|>" ends the answer; `special` lists those that are control
// tokens, others are added tokens or single bytes.
export function writeScriptedModel(folder, { follows, special = [], chatTemplate }) {
  mkdirSync(folder, { recursive: true });
  const alphabet = byteAlphabet();
  const vocabulary = Object.fromEntries(alphabet.map((letter, id) => [letter, id]));
  const texts = new Set(["<|begin|>", "<|end|>", ...special, ...Object.keys(follows),
    ...Object.values(follows)].filter((text) => Buffer.byteLength(text) > 1));
  const ids = new Map([...texts].map((text, i) => [text, 256 + i]));
  const idOf = (text) => ids.get(text) ?? Buffer.from(text)[0];
  const control = new Set(["<|begin|>", "<|end|>", ...special]);
  const rows = Math.ceil((256 + ids.size) / 32) * 32;
  const embedding = new Float32Array(rows * kColumns);
  const head = new Float32Array(rows * kColumns);
  for (let id = 0; id < rows; id += 1) embedding.set(direction(id), id * kColumns);
  for (const [text, next] of Object.entries(follows)) {
    const to = head.subarray(idOf(next) * kColumns, (idOf(next) + 1) * kColumns);
    direction(idOf(text)).forEach((x, column) => (to[column] += x));
  }
  const zeros = (...shape) => ({ shape, values: new Float32Array(shape[0] * shape[1]) });
  const ones = () => ({ shape: [kColumns], values: new Float32Array(kColumns).fill(1) });
  const layer = "model.layers.0.";
  const tensors = {
    "model.embed_tokens.weight": { shape: [rows, kColumns], values: embedding },
    "lm_head.weight": { shape: [rows, kColumns], values: head },
    "model.norm.weight": ones(),
    [`${layer}input_layernorm.weight`]: ones(),
    [`${layer}post_attention_layernorm.weight`]: ones(),
  };
  for (const name of ["q", "k", "v", "o"])
    tensors[`${layer}self_attn.${name}_proj.weight`] = zeros(kColumns, kColumns);
  for (const name of ["gate", "up", "down"])
    tensors[`${layer}mlp.${name}_proj.weight`] = zeros(kColumns, kColumns);
  const write = (name, value) =>
    writeFileSync(join(folder, name), typeof value === "string" ? value : JSON.stringify(value));
  writeFileSync(join(folder, "model.safetensors"), safetensors(tensors));
  write("config.json", {
    architectures: ["LlamaForCausalLM"], model_type: "llama", hidden_size: kColumns,
    intermediate_size: kColumns, num_hidden_layers: 1, num_attention_heads: 1,
    num_key_value_heads: 1, head_dim: kColumns, hidden_act: "silu", rms_norm_eps: 1e-6,
    rope_theta: 10000, max_position_embeddings: 4096, vocab_size: rows,
    tie_word_embeddings: false, eos_token_id: idOf("<|end|>"), torch_dtype: "float32",
  });
  const level = { type: "ByteLevel", add_prefix_space: false, trim_offsets: false,
    use_regex: false };
  write("tokenizer.json", {
    version: "1.0", normalizer: null, pre_tokenizer: level, post_processor: null, decoder: level,
    added_tokens: [...ids].map(([content, id]) => ({
      id, content, single_word: false, lstrip: false, rstrip: false, normalized: false,
      special: control.has(content),
    })),
    model: { type: "BPE", vocab: vocabulary, merges: [] },
  });
  write("tokenizer_config.json", { eos_token: "<|end|>" });
  write("chat_template.jinja", chatTemplate);
}

// Each piece is followed by the next; the last one by the end.
export function inOrder(begin, pieces) {
  return Object.fromEntries([...pieces, "<|end|>"].map((piece, i) =>
    [i === 0 ? begin : pieces[i - 1], piece]));
}
