// tokenizer.json from the vocabulary of a GGUF file, apart from that of src/text/tokenizer: the
// vocabularies of the llama.cpp project, for tokenizers.mjs. Pre-tokenizers are those that
// tokenizer.ggml.pre names there.
import { readFileSync } from "node:fs";

/** The tokenizer.* fields: numbers, texts, flags and arrays of them. */
function readFields(path) {
  const file = readFileSync(path);
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  let at = 8;
  const number = (read, bytes) => read.call(view, (at += bytes) - bytes, true);
  const u64 = () => Number(number(view.getBigUint64, 8));
  const text = () => {
    const length = u64();
    return file.toString("utf8", at, (at += length));
  };
  const readers = [
    () => number(view.getUint8, 1),
    () => number(view.getInt8, 1),
    () => number(view.getUint16, 2),
    () => number(view.getInt16, 2),
    () => number(view.getUint32, 4),
    () => number(view.getInt32, 4),
    () => number(view.getFloat32, 4),
    () => number(view.getUint8, 1) !== 0,
    text,
    () => {
      const type = readers[4]();
      return Array.from({ length: u64() }, () => readers[type]());
    },
    u64,
    () => Number(number(view.getBigInt64, 8)),
    () => number(view.getFloat64, 8),
  ];
  u64(); // tensors
  const fields = {};
  for (let left = u64(); left > 0; --left) {
    const key = text();
    fields[key.replace("tokenizer.ggml.", "")] = readers[readers[4]()]();
  }
  return fields;
}

const unknown = 2;
const control = 3;
const userDefined = 4;
const byte = 6;

// Every way to make a token of two others, those of better tokens first.
function scoredMerges({ tokens, scores, token_type: types }) {
  const plain = new Map();
  for (const [id, token] of tokens.entries()) {
    if (![unknown, control, byte].includes(types[id])) plain.set(token, id);
  }
  const merges = [];
  for (const [token, id] of plain) {
    const characters = [...token];
    for (let i = 1; i < characters.length; ++i) {
      const pair = [characters.slice(0, i).join(""), characters.slice(i).join("")];
      if (pair.every((part) => plain.has(part))) merges.push({ pair, score: scores[id] });
    }
  }
  return merges.sort((a, b) => b.score - a.score).map(({ pair }) => pair);
}

const replace = (from, to) => ({ type: "Replace", pattern: { String: from }, content: to });

/** `patterns` cut the text of a byte-level vocabulary, one after the other. */
export function ggufTokenizer(path, { patterns, nfc = false, ignoreMerges = false }) {
  const fields = readFields(path);
  const { tokens, token_type: types } = fields;
  const isAdded = (id) => {
    const type = types[id];
    const isUnknown = type === unknown && fields.model === "llama";
    return type === control || type === userDefined || isUnknown;
  };
  const added_tokens = tokens
    .map((content, id) => ({ id, content, special: types[id] !== userDefined }))
    .filter(({ id }) => isAdded(id))
    .map((token) => ({
      ...token,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
    }));
  const vocab = Object.fromEntries(tokens.map((token, id) => [token, id]));
  const common = { version: "1.0", truncation: null, padding: null, added_tokens };
  if (fields.model === "llama") {
    const decoders = [replace("▁", " "), { type: "ByteFallback" }, { type: "Fuse" }];
    decoders.push({ type: "Strip", content: " ", start: 1, stop: 0 });
    const merges = scoredMerges(fields);
    const unk_token = tokens[fields.unknown_token_id];
    const model = { type: "BPE", vocab, merges, unk_token, fuse_unk: true, byte_fallback: true };
    return {
      ...common,
      normalizer: {
        type: "Sequence",
        normalizers: [{ type: "Prepend", prepend: "▁" }, replace(" ", "▁")],
      },
      pre_tokenizer: null,
      post_processor: null,
      decoder: { type: "Sequence", decoders },
      model,
    };
  }
  const bytes = {
    type: "ByteLevel",
    add_prefix_space: false,
    trim_offsets: false,
    use_regex: false,
  };
  const splits = patterns.map((Regex) => ({
    type: "Split",
    pattern: { Regex },
    behavior: "Isolated",
    invert: false,
  }));
  return {
    ...common,
    normalizer: nfc ? { type: "NFC" } : null,
    pre_tokenizer: { type: "Sequence", pretokenizers: [...splits, bytes] },
    post_processor: null,
    decoder: bytes,
    model: { type: "BPE", vocab, merges: fields.merges, ignore_merges: ignoreMerges },
  };
}
