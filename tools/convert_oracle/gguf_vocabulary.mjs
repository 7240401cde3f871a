// Vocabularies of GGUF files, read without weft, and small models that have them.
import { readFileSync } from 'node:fs';
import { encodeTensor } from './gguf_blocks.mjs';
import { writeGguf } from './gguf_writer.mjs';

export { Tokenizer } from '@huggingface/tokenizers';

/** The tokenizer.* metadata of a GGUF file, each as the bytes of its type and value. */
export function readVocabulary(path) {
  const file = readFileSync(path);
  let at = 8;
  const u32 = () => file.readUInt32LE((at += 4) - 4);
  const u64 = () => Number(file.readBigUInt64LE((at += 8) - 8));
  const text = () => {
    const length = u64();
    return file.toString('utf8', at, (at += length));
  };
  const sizes = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
  let count = 0;
  const skip = (type) => {
    if (type === 8) text();
    else if (type !== 9) at += sizes[type];
    else {
      const items = u32();
      const length = u64();
      count = length;
      for (let i = 0; i < length; ++i) skip(items);
    }
  };
  u64();
  const keys = u64();
  const metadata = {};
  let tokens = 0;
  for (let i = 0; i < keys; ++i) {
    const key = text();
    const begin = at;
    skip(u32());
    if (key === 'tokenizer.ggml.tokens') tokens = count;
    if (key.startsWith('tokenizer.')) metadata[key] = { raw: file.subarray(begin, at) };
  }
  return { metadata, tokens };
}

/** A model of one layer of 32 columns that does nothing but have this vocabulary. */
export function writeVocabularyModel(path, vocabulary, rows) {
  const metadata = { 'general.architecture': { text: 'qwen3' }, ...vocabulary };
  const sizes = { block_count: 1, context_length: 64, embedding_length: 32 };
  Object.assign(sizes, { feed_forward_length: 32, 'attention.head_count': 1 });
  for (const [key, size] of Object.entries(sizes)) metadata[`qwen3.${key}`] = { u32: size };
  metadata['qwen3.attention.layer_norm_rms_epsilon'] = { f32: 1e-6 };
  const tensors = [];
  const add = (name, type, ...shape) => {
    const count = shape.reduce((a, b) => a * b);
    tensors.push({ name, type, shape, bytes: encodeTensor(type, new Float32Array(count)) });
  };
  add('token_embd.weight', 'Q8_0', rows, 32);
  add('output_norm.weight', 'F32', 32);
  for (const name of ['attn_norm', 'attn_q_norm', 'attn_k_norm', 'ffn_norm']) {
    add(`blk.0.${name}.weight`, 'F32', 32);
  }
  const matrices = ['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down'];
  for (const name of matrices) {
    add(`blk.0.${name}.weight`, 'F32', 32, 32);
  }
  writeGguf(path, metadata, tensors);
}

