// Real pre-tokenizers, normalizers and decoders put onto the vocabularies at hand, so that each
// kind is compared even where its own vocabulary is not: what is tested is how text is cut and put
// together again.

const byteLevel = (useRegex = false, prefixSpace = false) => ({
  type: "ByteLevel",
  add_prefix_space: prefixSpace,
  trim_offsets: true,
  use_regex: useRegex,
});
const isolate = (regex) => ({
  type: "Split",
  pattern: { Regex: regex },
  behavior: "Isolated",
  invert: false,
});
const sequence = (...pretokenizers) => ({ type: "Sequence", pretokenizers });

const contractions = "(?:'s|'t|'re|'ve|'m|'ll|'d)".replace("?:", "?i:");
const spaces = "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
const words = (digits) =>
  `${contractions}|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}${digits}|` +
  ` ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${spaces}`;
const llama3 = words("{1,3}");
const qwen2 = words("");
const upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
const lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
const before = "[^\\r\\n\\p{L}\\p{N}]?";
const o200k =
  `${before}${upper}*${lower}+${contractions}?|${before}${upper}+${lower}*${contractions}?|` +
  `\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|${spaces}`;
const notHan = (set) => `[${set.slice(1, -1)}&&[^\\p{Han}]]`;
const kimi =
  `[\\p{Han}]+|${before}${notHan(upper)}*${notHan(lower)}+${contractions}?|` +
  `\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|${spaces}`;
const metaspace = (scheme, split) => ({
  type: "Metaspace",
  replacement: "▁",
  prepend_scheme: scheme,
  split,
});

// The JavaScript library takes only ASCII digits for digits, the Rust library (and weft) all of
// category N.
const otherDigits = /[\p{N}--[0-9]]/v;

// What tokenizer.ggml.pre says in the vocabularies of GGUF files.
const gpt2 = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
export const ggufVocabularies = {
  "gpt-2": { patterns: [gpt2] },
  "llama-bpe": { patterns: [llama3], ignoreMerges: true },
  qwen2: { patterns: [qwen2], nfc: true },
  "deepseek-llm": {
    patterns: [
      "[\\r\\n]",
      "\\s?(?:(?![ა-ჿ𝐀-𝟿])[\\p{Lu}\\p{Ll}\\p{Lt}])+",
      "\\s?[!-/:-~！-／：-～‘-‟　-。]+",
      "\\s+$",
      "[一-龥ࠀ-一가-퟿]+",
      "\\p{N}+",
    ],
  },
  "llama-spm": {},
};

export const variants = [
  { base: "tokenizers/gpt2", name: "gpt2" },
  { base: "tokenizers/phi3", name: "phi3" },
  { base: "stories260K", name: "stories260K" },
  {
    base: "tokenizers/gpt2",
    name: "llama3",
    model: { ignore_merges: true },
    override: { pre_tokenizer: sequence(isolate(llama3), byteLevel()) },
  },
  {
    base: "tokenizers/gpt2",
    name: "qwen2",
    override: { normalizer: { type: "NFC" }, pre_tokenizer: sequence(isolate(qwen2), byteLevel()) },
  },
  {
    base: "tokenizers/gpt2",
    name: "o200k",
    override: { pre_tokenizer: sequence(isolate(o200k), byteLevel()) },
  },
  {
    base: "tokenizers/gpt2",
    name: "kimi",
    override: { pre_tokenizer: sequence(isolate(kimi), byteLevel()) },
  },
  {
    base: "tokenizers/gpt2",
    name: "deepseek-llm",
    avoid: otherDigits,
    override: {
      pre_tokenizer: sequence(
        isolate("[\\r\\n]"),
        isolate("\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-Ϋά-ώА-я]+"),
        isolate("\\s?[!-/:-~！-／：-～‘-‟　-。]+"),
        isolate("\\s+$"),
        isolate("[一-龥ࠀ-一가-퟿]+"),
        { type: "Digits", individual_digits: true },
        byteLevel(),
      ),
    },
  },
  {
    base: "tokenizers/gpt2",
    name: "deepseek-v3",
    override: {
      pre_tokenizer: sequence(
        isolate("\\p{N}{1,3}"),
        isolate("[一-龥぀-ゟ゠-ヿ]+"),
        isolate(
          "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" +
            "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" +
            " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        ),
        byteLevel(),
      ),
    },
  },
  {
    base: "tokenizers/gpt2",
    name: "starcoder",
    avoid: otherDigits,
    override: {
      pre_tokenizer: sequence({ type: "Digits", individual_digits: true }, byteLevel(true)),
    },
  },
  // Falcon cuts digits after the bytes became characters; the same difference about digits shows
  // in bytes such as 0xB2.
  {
    base: "tokenizers/gpt2",
    name: "falcon",
    avoid: /[^\0-\x7f]/,
    override: {
      pre_tokenizer: sequence(
        { type: "Punctuation", behavior: "Contiguous" },
        byteLevel(true),
        { type: "Digits", individual_digits: false },
        isolate("[0-9][0-9][0-9]"),
      ),
    },
  },
  {
    base: "tokenizers/gpt2",
    name: "prefix-space",
    override: { pre_tokenizer: byteLevel(true, true) },
  },
  {
    base: "tokenizers/phi3",
    name: "metaspace-first",
    override: { normalizer: null, pre_tokenizer: metaspace("first", false) },
  },
  // The JavaScript library does not split at the replacement, and drops one leading space where
  // the Rust library drops all.
  {
    base: "tokenizers/phi3",
    name: "metaspace-always",
    avoid: /^[ ▁<]/,
    override: {
      normalizer: null,
      pre_tokenizer: metaspace("always", false),
      decoder: {
        type: "Sequence",
        decoders: [{ type: "ByteFallback" }, metaspace("always", false)],
      },
    },
  },
  {
    base: "tokenizers/phi3",
    name: "gemma",
    avoid: /^ | $/,
    override: {
      normalizer: { type: "Replace", pattern: { String: " " }, content: "▁" },
      pre_tokenizer: {
        type: "Split",
        pattern: { String: " " },
        behavior: "MergedWithPrevious",
        invert: false,
      },
      decoder: {
        type: "Sequence",
        decoders: [
          { type: "Replace", pattern: { String: "▁" }, content: " " },
          { type: "ByteFallback" },
          { type: "Fuse" },
        ],
      },
    },
  },
  {
    base: "tokenizers/phi3",
    name: "nfkc-lower",
    override: {
      normalizer: {
        type: "Sequence",
        normalizers: [
          { type: "NFKC" },
          { type: "Lowercase" },
          { type: "Prepend", prepend: "▁" },
          { type: "Replace", pattern: { Regex: " {2,}" }, content: " " },
          { type: "Replace", pattern: { String: " " }, content: "▁" },
        ],
      },
    },
  },
];
