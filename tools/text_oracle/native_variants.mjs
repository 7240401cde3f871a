// 250 tokenizer.json files, each option of what weft reads in turn on one small vocabulary, and
// texts in thirty scripts, all from seeds: for native_tokenizers.mjs.
import { unigramFiles } from "./unigram_variants.mjs";

// mulberry32
export function randomOf(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const below = (n) => Math.floor(next() * n);
  return { below, pick: (list) => list[below(list.length)] };
}

// First and last code point of letters and marks that texts draw from.
const kScripts = [
  [0x61, 0x7a], [0x41, 0x5a], [0xc0, 0x17f], [0x391, 0x3c9], [0x410, 0x44f], [0x531, 0x587],
  [0x5d0, 0x5ea], [0x621, 0x652], [0x710, 0x74a], [0x905, 0x94d], [0x985, 0x9cd], [0xa05, 0xa4d],
  [0xa85, 0xacd], [0xb05, 0xb4d], [0xb85, 0xbcd], [0xc05, 0xc39], [0xc85, 0xccd], [0xd05, 0xd3a],
  [0xe01, 0xe4e], [0xe81, 0xeb9], [0xf40, 0xf84], [0x1000, 0x1039], [0x10d0, 0x10f0],
  [0x1200, 0x1248], [0x1780, 0x17d2], [0x3041, 0x3096], [0x30a1, 0x30fa], [0x4e00, 0x4f00],
  [0xac00, 0xad00], [0x10400, 0x1044f],
];
const kBetween = [
  " ", "  ", "\n", "\t", "\r\n", "\u00a0", "\u2003", "\u3000", ".", ",", "!", "?", "-", "_", "'s",
  "'", "\"", "(", ")", "/", "#", "$", "+", "<", ">", "^", "`", "|", "~", "\u2019", "\u2014",
  "\u3002", "0", "1", "23", "456", "7890", "12345678", "\u0663\u0664", "\u096a", "\u00b2",
  "\u00bd", "\u2167", "\u2460", "\u24b6", "\u0301", "\u20dd", "\u200d", "\u200c", "\u203f",
  "\u{1f98a}", "\u{1f469}\u200d\u{1f4bb}", "\u{1d400}", "\ufb01", "\u0130", "\u00df", "\u1e9e",
  "\u03a3", "<s>", "<pad>", " <pad> ", "<mask>", "[x]",
];

const kLatin = ["the", "Hello", "don't", "x", "ABC", "abc123"];

export function scriptTexts(count, seed) {
  const random = randomOf(seed);
  const texts = [""];
  while (texts.length < count) {
    let text = "";
    const [first, last] = kScripts[texts.length % kScripts.length];
    for (let piece = random.below(8); piece >= 0; --piece) {
      for (let i = random.below(6); i > 0; --i) {
        text += String.fromCodePoint(first + random.below(last - first + 1));
      }
      text += random.pick(kBetween);
      if (random.below(3) === 0) text += random.pick(kLatin);
    }
    texts.push(text);
  }
  return texts;
}

// What maps of characters and user-perceived characters turn on: controls, ends of lines, marks
// behind letters of each length, consonants that a virama joins, flags and families.
const kControls = Array.from({ length: 0xa0 }, (_, code) => String.fromCodePoint(code));
export const kHardTexts = [
  kControls.join(""), kControls.join(" x "), "\r\n", "a\r\nb\n\rc\r",
  "\u200b\u200e\u200fx\ufeff\ufffd", "x\u1680y\u2028z\u2029\u2581w\u2003",
  "the\u0301 fi\u0301 \ufb01\u0301 \ufb01 f\u0301i", "x\u20dd\u20dd1\ufe0f\u20e3",
  "\u0915\u0301 \u0915\u094d\u0915\u0301 \u0915\u094d\u200d\u0928\u0301",
  "\u0915\u094d\u200c\u0928\u0301", "\u0915\u0301\u094d\u0928\u0301 \u0928\u094d\u0928\u093f\u0928",
  "\u2122\u0301 \u00a9\u200d\u2122\u0301", "\u304b\u3099\u304c \uac00\u11a8 \u1100\u1161\u11a8",
  "\u{1f1e9}\u{1f1ea}\u{1f1eb} \u{1f98a}\u200d\u{1f98a}", "\u0600\u00c5 \u0600a\u0301",
  "e\u0301\u0323 e\u0323\u0301 \u00e9\u0323 \u00c5\u0301",
  "<s>\uff1cs\uff1e<unk> <0x41><0xE3><0x81><0x81>",
  "   ", " x  x   x ", "\u2581\u2581x\u2581", "\0", "x\0x",
];

// Every mark, and every character with a decomposition, that was added after Unicode 9, beside old
// ones: the library's normal forms do not know them.
export function normalFormTexts() {
  const texts = [];
  for (let code = 0x80; code < 0x1fc00; ++code) {
    const character = String.fromCodePoint(code);
    if (/[\uac00-\ud7a3\ud800-\udfff]/.test(character)) continue;
    const isMark = /[\p{M}\u1cf2\u1cf3]/u.test(character); // the two were marks
    if (!isMark && character.normalize("NFKD") === character) continue;
    if (texts.length === 0 || texts.at(-1).length > 400) texts.push("");
    texts[texts.length - 1] += isMark ? `x${character}e\u0345${character}\u0301` : character;
  }
  return texts;
}

// The byte-level alphabet.
const kBytes = (() => {
  const plain = (b) => (b > 32 && b < 127) || (b > 160 && b < 173) || b > 173;
  let moved = 0;
  return Array.from({ length: 256 }, (_, b) => String.fromCodePoint(plain(b) ? b : 256 + moved++));
})();

// The most frequent pairs of neighbours in `pieces`, one after another.
function train(pieces, alphabet, count) {
  const vocab = [...new Set(alphabet)];
  const merges = [];
  let words = pieces.map((piece) => [...piece].filter((c) => vocab.includes(c)));
  while (merges.length < count) {
    const pairs = new Map();
    for (const word of words) {
      for (let i = 0; i + 1 < word.length; ++i) {
        const key = `${word[i]} ${word[i + 1]}`;
        pairs.set(key, (pairs.get(key) ?? 0) + 1);
      }
    }
    const [best] = [...pairs].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
    if (!best || best[1] < 2) break;
    const [left, right] = best[0].split(" ");
    merges.push([left, right]);
    vocab.push(left + right);
    words = words.map((word) => {
      const joined = [];
      for (let i = 0; i < word.length; ++i) {
        if (word[i] === left && word[i + 1] === right) joined.push(left + word[++i] );
        else joined.push(word[i]);
      }
      return joined;
    });
  }
  return { vocab: [...new Set(vocab)], merges };
}

const split = (pattern, behavior, invert = false) => ({ type: "Split", pattern, behavior, invert });
const kBehaviors = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"];
const byteLevel = (options = {}) => ({
  type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false, ...options });
const sequence = (...pretokenizers) => ({ type: "Sequence", pretokenizers });
const metaspace = (prepend_scheme, isSplit, replacement = "\u2581") => ({
  type: "Metaspace", replacement, prepend_scheme, split: isSplit });

const kPatterns = [
  "\\w+", "\\W+", "\\d", "\\D+", "\\s+", "\\S+", "\\h+", "\\b", "\\B", "[\\w']+", "[^\\w\\s]+",
  "[\\W\\d]+", "[^\\S\\n]+", "[[:alpha:]]+", "[[:^alpha:]]+", "[[:alnum:]_]+",
  "[[:upper:]][[:lower:]]*", "[[:punct:]]", "[^[:punct:][:space:]]+", "[[:word:]]+",
  "[[:digit:]]+", "[[:graph:]]+", "[[:print:]]+", "[[:blank:]]", "[[:cntrl:]]", "[[:xdigit:]]{2}",
  "[[:ascii:]]+", "\\p{L}+", "\\p{Alpha}+", "\\p{^Alpha}+", "\\P{Letter}+",
  "\\p{Lowercase_Letter}+", "\\p{Han}", "\\p{N}{1,3}", "[\\p{L}&&[^\\p{Lu}]]+",
  "[^\\p{L}&&[^\\d]]+", "[a-z[^\\p{L}]]+", "\\p{N}{2}+", "a{,2}", "x*", "", "(?=\\d)", "(?<=\\s)",
  "(?=(\\d{3})+(?!\\d))", "(?i:'s|'t)|\\p{L}+", "$", "^", "\\n|", "\\d*",
];

const kCuts = [
  "\\s+|\\d", "(?=\\d)|!", "\\w+", "x*", "\\b", "[[:punct:]]+", "(?<=\\d)(?=\\d)", "\\p{L}|",
];

function preTokenizers() {
  const list = [];
  for (const pattern of kPatterns) {
    list.push(["split", split({ Regex: pattern }, "Isolated")]);
  }
  for (const behavior of kBehaviors) {
    for (const invert of [false, true]) {
      for (const pattern of kCuts) {
        list.push(["behavior", split({ Regex: pattern }, behavior, invert)]);
      }
      list.push(["text", split({ String: " " }, behavior, invert)]);
    }
    list.push(["punctuation", { type: "Punctuation", behavior }]);
  }
  for (const individual_digits of [false, true]) {
    list.push(["digits", { type: "Digits", individual_digits }]);
  }
  for (const type of ["Whitespace", "WhitespaceSplit", "BertPreTokenizer"]) {
    list.push(["plain", { type }]);
  }
  list.push(["delimiter", { type: "CharDelimiterSplit", delimiter: "-" }]);
  list.push(["both", sequence({ type: "Whitespace" }, { type: "Digits", individual_digits: true },
    { type: "Punctuation", behavior: "Contiguous" })]);
  return list;
}

// The library itself ends at a Replace whose expression finds nothing between two characters.
const kPlainNormalizers = [
  "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "ByteLevel",
];
const kStrips = [[true, true], [true, false], [false, true], [false, false]];
const replace = (pattern, content) => ({ type: "Replace", pattern, content });
const kNormalizers = [
  ...kPlainNormalizers.map((type) => ({ type })),
  ...kStrips.map(([strip_left, strip_right]) => ({ type: "Strip", strip_left, strip_right })),
  { type: "Prepend", prepend: "\u2581" },
  replace({ String: " " }, "\u2581"),
  replace({ Regex: "\\s+" }, " "),
  replace({ Regex: "[[:punct:]]" }, ""),
  { type: "Sequence",
    normalizers: [{ type: "NFD" }, { type: "StripAccents" }, { type: "Lowercase" }] },
];

const token = (id, content, options = {}) => ({
  id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true,
  ...options });

const file = (parts) => ({
  version: "1.0", truncation: null, padding: null, added_tokens: [], normalizer: null,
  pre_tokenizer: null, post_processor: null, decoder: null, ...parts });

const model = ({ vocab, merges }, options = {}) => ({
  type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null,
  end_of_word_suffix: null, fuse_unk: false, byte_fallback: false, ignore_merges: false,
  vocab: Object.fromEntries(vocab.map((text, id) => [text, id])), merges, ...options });

// Files with a vocabulary of bytes, [name, json] each.
function byteFiles(words) {
  const byteText = (text) => [...Buffer.from(text)].map((b) => kBytes[b]).join("");
  const bytes = train(words.map(byteText), kBytes, 120);
  const n = bytes.vocab.length;
  // With the ids that the library gives them: those of the model, or behind it.
  const placed = (tokens) => {
    let next = n;
    return tokens.map(([content, options]) => {
      const own = bytes.vocab.indexOf(content);
      return token(own < 0 ? next++ : own, content, options);
    });
  };
  const added = placed([["<s>"], ["<pad>", { lstrip: true }],
    ["<mask>", { rstrip: true, special: false }],
    ["the", { single_word: true, special: false, normalized: true }],
    ["[x]", { special: false }]]);
  const plain = { decoder: byteLevel(), model: model(bytes) };
  const files = preTokenizers().map(([name, pre], i) => [name, file({ ...plain,
    pre_tokenizer: sequence(pre, byteLevel()), added_tokens: i % 3 === 0 ? added : [] })]);
  for (const add_prefix_space of [false, true]) {
    for (const use_regex of [false, true]) {
      files.push(["byte-level", file({ ...plain, model: model(bytes, { ignore_merges: use_regex }),
        pre_tokenizer: byteLevel({ add_prefix_space, use_regex }) })]);
    }
  }
  for (const normalizer of kNormalizers) {
    const pre_tokenizer = normalizer.type === "ByteLevel" ? null : byteLevel({ use_regex: true });
    files.push(["normalizer", file({ ...plain, normalizer, pre_tokenizer, added_tokens: added })]);
  }
  for (const options of [{}, { lstrip: true }, { rstrip: true }, { single_word: true },
    { normalized: true }, { special: false },
    { lstrip: true, rstrip: true, single_word: true }]) {
    files.push(["added", file({ ...plain, pre_tokenizer: byteLevel({ use_regex: true }),
      added_tokens: placed([["<pad>", options], ["the", options]]) })]);
  }
  for (const added_tokens of doubledTokens(n, bytes.vocab.indexOf("!"))) {
    files.push(["double", file({ ...plain, pre_tokenizer: byteLevel(), added_tokens })]);
  }
  return files;
}

// Added tokens that are there twice, or empty, or share an id.
function doubledTokens(n, own) {
  return [
    [token(n, "<s>"), token(n, "<s>")],
    [token(n, "<s>"), token(n + 1, "<s>", { lstrip: true }), token(n + 2, "<pad>")],
    [token(n, ""), token(n + 1, "<s>"), token(n + 2, "<pad>")],
    [token(n, "<s>"), token(n, "<pad>")],
    [token(n, ""), token(n, "the"), token(n, "the"), token(own, "!")],
  ];
}

// Files whose texts have marked spaces, with letters that are missing and bytes in their place.
function spacedFiles(words) {
  const marked = words.map((word) => word.replaceAll(" ", "\u2581"));
  const letters = [...new Set(marked.join(""))];
  const hex = (b) => `<0x${b.toString(16).toUpperCase().padStart(2, "0")}>`;
  const pieces = train(marked, letters.slice(0, letters.length / 2), 80);
  const vocab = [...new Set(
    ["<unk>", "<s>", ...Array.from({ length: 256 }, (_, b) => hex(b)), ...pieces.vocab])];
  const made = (options) => model({ vocab, merges: pieces.merges },
    { unk_token: "<unk>", ...options });
  const added_tokens = [token(0, "<unk>"), token(1, "<s>")];
  const files = [];
  for (const scheme of ["always", "first", "never"]) {
    for (const isSplit of [true, false]) {
      for (const byte_fallback of [true, false]) {
        const spaces = metaspace(scheme, isSplit);
        files.push(["metaspace", file({ pre_tokenizer: spaces, added_tokens,
          decoder: { type: "Sequence", decoders: [{ type: "ByteFallback" }, spaces] },
          model: made({ fuse_unk: scheme === "first", byte_fallback }) })]);
      }
    }
  }
  for (const [start, stop] of [[0, 0], [1, 0], [1, 1]]) {
    files.push(["sentence", file({ added_tokens,
      normalizer: { type: "Sequence", normalizers: [
        { type: "Prepend", prepend: "\u2581" }, replace({ String: " " }, "\u2581")] },
      decoder: { type: "Sequence", decoders: [replace({ String: "\u2581" }, " "),
        { type: "ByteFallback" }, { type: "Fuse" }, { type: "Strip", content: " ", start, stop }] },
      model: made({ fuse_unk: true, byte_fallback: true }) })]);
  }
  return files;
}

// {name, json} of every file.
export function nativeVariants() {
  const words = scriptTexts(400, 7).join(" ").split(/(?= )/);
  const files = [...byteFiles(words), ...spacedFiles(words), ...unigramFiles(words)];
  return files.map(([name, json], i) => ({ name: `${String(i).padStart(3, "0")}-${name}`, json }));
}
