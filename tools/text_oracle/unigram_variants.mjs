// tokenizer.json files with Unigram vocabularies, each option of the model and of the normalisers,
// pre-tokenizers and decoders that such files have in turn: for native_variants.mjs.
import { precompiledCharsmap } from "./charsmap.mjs";

const kSpace = "\u2581";
const kFront = ["<unk>", "<s>", "</s>", "<pad>"];

// Every part of the words, up to `longest` characters, that is there more than once, with the
// logarithm of how often; of single letters, every second one.
function countedPieces(words, longest) {
  const counts = new Map();
  for (const word of words) {
    const letters = [...word];
    for (let begin = 0; begin < letters.length; ++begin) {
      for (let end = begin + 1; end <= Math.min(letters.length, begin + longest); ++end) {
        const piece = letters.slice(begin, end).join("");
        counts.set(piece, (counts.get(piece) ?? 0) + 1);
      }
    }
  }
  const all = [...counts].filter(([, count]) => count > 1).sort((a, b) => (
    b[1] - a[1] || (a[0] < b[0] ? -1 : 1)));
  const total = all.reduce((sum, [, count]) => sum + count, 0);
  return all
    .filter(([piece], i) => !kFront.includes(piece) && ([...piece].length > 1 || i % 2 === 0))
    .slice(0, 1500)
    .map(([piece, count]) => [piece, Math.log(count / total)]);
}

// What a map replaces: characters with a compatibility form, letters with a mark, and texts whose
// beginnings are texts of the map, too.
function replacements() {
  const pairs = new Map([
    ["\t", " "], ["\n", " "], ["\r", " "], ["\u00a0", " "], ["\u3000", " "], ["\u200d", ""],
    ["f", "F"], ["fi", "1"], ["x\u0301", "X"], ["\u0301", ""], ["\u20dd", "o"], ["the", "THE"],
    ["\u304b\u3099", "\u304c"], ["\u{1f98a}", "fox"], ["\u0915\u094d", "k"], ["\u0928", "n"],
  ]);
  const ranges = [[0xa0, 0x24f], [0x300, 0x345], [0x2100, 0x2190], [0x2460, 0x24ff],
    [0x30a0, 0x30ff], [0xac00, 0xac40], [0xfb00, 0xfb06], [0x1d400, 0x1d410]];
  for (const [first, last] of ranges) {
    for (let code = first; code <= last; ++code) {
      const character = String.fromCodePoint(code);
      const form = character.normalize("NFKC");
      if (form !== character) pairs.set(character, form);
      for (const mark of ["\u0301", "\u0323"]) {
        const composed = (character + mark).normalize("NFC");
        if ([...composed].length === 1) pairs.set(character + mark, composed);
      }
    }
  }
  return [...pairs];
}

const sequence = (kind, ...steps) => ({ type: "Sequence", [kind]: steps });
const replace = (pattern, content) => ({ type: "Replace", pattern, content });
const token = (id, content, options = {}) => ({
  id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: true,
  ...options });
const spaces = (prepend_scheme = "always", split = true) => ({
  type: "Metaspace", replacement: kSpace, prepend_scheme, split });

const kHex = Array.from({ length: 256 }, (_, byte) => (
  `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`));

const kFrame = {
  type: "TemplateProcessing",
  single: [{ Sequence: { id: "A", type_id: 0 } }, { SpecialToken: { id: "</s>", type_id: 0 } }],
  pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 0 } }],
  special_tokens: { "</s>": { id: "</s>", ids: [2], tokens: ["</s>"] } },
};

const file = (parts) => ({
  version: "1.0", truncation: null, padding: null, added_tokens: [], normalizer: null,
  pre_tokenizer: spaces(), post_processor: null, decoder: spaces(), ...parts });
const model = (vocab, options = {}) => ({
  type: "Unigram", unk_id: 0, vocab, byte_fallback: false, ...options });

// The same pieces with scores of other kinds: sums that are equal, that are equal but for the last
// bit, that a float has, and scores so high that two unknown characters beat any token.
function modelFiles(pieces) {
  const front = kFront.map((text) => [text, 0]);
  const scored = (score) => [...front, ...pieces.map(([piece, value]) => [piece, score(value)])];
  const plain = scored((value) => value);
  const bytes = [...front, ...kHex.map((text) => [text, 0]), ...pieces];
  const tail = kFront.map((text, id) => token(id, text));
  return [
    ["scores", model(plain)],
    ["whole scores", model(scored(Math.round))],
    ["tenths", model(scored((value) => Math.round(value * 10) / 10))],
    ["floats", model(scored(Math.fround))],
    ["no difference", model(scored(() => -1))],
    ["high scores", model([...kFront.map((text) => [text, 60]),
      ...pieces.map(([piece, value]) => [piece, value + 60])])],
    ["bytes", model(bytes, { byte_fallback: true })],
    ["bytes unused", model(bytes)],
    ["some bytes", model(bytes.filter(([text]) => text < "<0xE0" || text > "<0xF0"),
      { byte_fallback: true })],
    ["no unknown", model(plain, { unk_id: null })],
    ["no unknown but bytes", model(bytes, { unk_id: null, byte_fallback: true })],
    ["unknown last", model([...plain, ["?", -3]], { unk_id: plain.length })],
    ["twice", model([...plain, ["the", -1], ["the", -9], ["", -2], ["x", -2.5]])],
    ["inner spaces", model([...plain, [`x${kSpace}x`, -4], [`${kSpace}${kSpace}`, -3],
      ["x x", -2], [`the${kSpace}`, -5], ["\0", -4]])],
  ].map(([name, made]) => [name, file({ model: made, added_tokens: tail })]);
}

const kPreTokenizers = [
  null, spaces("first"), spaces("never"), spaces("always", false), spaces("first", false),
  { type: "WhitespaceSplit" },
  sequence("pretokenizers", { type: "WhitespaceSplit" }, spaces()),
  sequence("pretokenizers", { type: "WhitespaceSplit" }, spaces("first")),
  sequence("pretokenizers", spaces(), { type: "Digits", individual_digits: true }),
  { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: true },
];

function normalizers() {
  const map = { type: "Precompiled", precompiled_charsmap: precompiledCharsmap(replacements()) };
  const twoSpaces = replace({ Regex: " {2,}" }, " ");
  const strip = { type: "Strip", strip_left: false, strip_right: true };
  const of = (...steps) => sequence("normalizers", ...steps);
  return [
    map, { type: "Nmt" }, of({ type: "Nmt" }, { type: "NFKC" }, twoSpaces),
    of(map, strip, replace({ Regex: " {2,}" }, kSpace)),
    of(replace({ String: "``" }, "\""), { type: "NFKD" }, { type: "StripAccents" },
      { type: "Lowercase" }, map, twoSpaces),
    of(map, twoSpaces, { type: "Prepend", prepend: kSpace }, replace({ String: " " }, kSpace)),
    of(replace({ Regex: "(?<!\\n)^" }, kSpace), replace({ Regex: " " }, kSpace)),
  ];
}

const kDecoders = [
  null, spaces("never"), { type: "ByteFallback" },
  sequence("decoders", { type: "ByteFallback" }, spaces()),
  sequence("decoders", replace({ String: kSpace }, " "), { type: "ByteFallback" },
    { type: "Fuse" }, { type: "Strip", content: " ", start: 1, stop: 0 }),
  sequence("decoders", { type: "ByteFallback" }, replace({ Regex: kSpace }, " "), { type: "Fuse" },
    replace({ Regex: "(?<!\\n)^ " }, "")),
];

const kAdded = [
  [["<s>"], ["</s>"], ["<mask>", { lstrip: true }]],
  [["<s>", { normalized: true }], ["the", { special: false, normalized: true }],
    ["\ufb01", { special: false, normalized: true }]],
  [["<pad>", { rstrip: true }], ["x", { special: false, single_word: true }]],
];

// [name, json] of every file.
export function unigramFiles(words) {
  const pieces = countedPieces(words.map((word) => word.replaceAll(" ", kSpace)), 5);
  const vocab = [...kFront.map((text) => [text, 0]), ...kHex.map((text) => [text, 0]), ...pieces];
  const made = model(vocab, { byte_fallback: true });
  const tail = kFront.map((text, id) => token(id, text));
  const files = modelFiles(pieces);
  for (const pre_tokenizer of kPreTokenizers) {
    files.push(["pre-tokenizer", file({ model: made, pre_tokenizer, added_tokens: tail })]);
  }
  for (const normalizer of normalizers()) {
    files.push(["normalizer", file({ model: made, normalizer, added_tokens: tail })]);
    files.push(["normalizer alone", file({ model: model(vocab), normalizer, added_tokens: tail,
      pre_tokenizer: null })]);
  }
  for (const decoder of kDecoders) {
    files.push(["decoder", file({ model: made, decoder, post_processor: kFrame })]);
  }
  for (const list of kAdded) {
    let next = vocab.length;
    const added_tokens = list.map(([content, options]) => {
      const own = vocab.findIndex(([text]) => text === content);
      return token(own < 0 ? next++ : own, content, options);
    });
    for (const normalizer of [null, normalizers()[0]]) {
      files.push(["added", file({ model: made, normalizer, added_tokens })]);
    }
  }
  return files.map(([name, json]) => [`unigram ${name}`, json]);
}
