// Seeded strings that tokenizers find hard: mixed scripts, white space of all kinds, contractions,
// code, emoji, marks, special tokens whole and broken.
import { readFileSync } from "node:fs";

const words = readFileSync(new URL("words.txt", import.meta.url), "utf8")
  .trim()
  .split(/\s+/);
const marks = [
  ".",
  ",",
  "!",
  "?",
  ";",
  ":",
  "-",
  "--",
  "...",
  "…",
  '"',
  "'",
  "(",
  ")",
  "[",
  "]",
  "{",
  "}",
  "/",
  "\\",
  "|",
  "*",
  "**",
  "#",
  "##",
  "_",
  "~",
  "`",
  "```",
  "=",
  "==",
  "+",
  "<",
  ">",
  "&",
  "%",
  "^",
  "@",
  "$",
  "«",
  "»",
  "“",
  "”",
  "‘",
  "’",
  "—",
  "–",
  "。",
  "、",
  "！",
  "「",
  "」",
  "¿",
  "¡",
  "§",
  "©",
  "™",
  "→",
  "∑",
  "√",
  "≠",
  "∞",
];
const spaces = [
  " ",
  " ",
  " ",
  " ",
  "  ",
  "   ",
  "    ",
  "        ",
  "\n",
  "\n\n",
  "\r\n",
  "\r",
  "\t",
  "\t\t",
  " \n",
  "\n ",
  " \n \n",
  "\u00a0",
  "\u2003",
  "\u3000",
  "\u2028",
  "\u0085",
  "\u200b",
  "\u000b",
  "\u000c",
];
const emoji =
  "😀 🦙 🚀 🔥 👩\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 🇩🇪 👍🏽 ❤️ ☃ ♥ ✔ 🀄 🧑🏿\u200d💻".split(" ");
const odd = [
  "\u0000",
  "\u0001",
  "\u001b",
  "\u007f",
  "\u00ad",
  "\u200d",
  "\ufeff",
  "\ufffd",
  "e\u0301",
  "a\u0323\u0302",
  "a\u0302\u0323",
  "\u0301",
  "\u1112\u1161\u11ab",
  "▁",
  "▁▁",
  "▁the",
  "Ġ",
  "Ġthe",
  "Ċ",
  "<0x41>",
  "<0xE2>",
  "<s",
  "</s>",
  "<unk>",
  "<|",
  "|>",
  "<|endoftext",
  "\u{10ffff}",
  "\u{1f9d1}",
  "𝒜𝓑",
  "𐍈",
  "\u{20000}",
];

// Small, fast, and the same everywhere: splitmix32.
export function randomSource(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x9e3779b9) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 16), 0x85ebca6b);
    z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
    return (z ^ (z >>> 16)) >>> 0;
  };
  const below = (bound) => next() % bound;
  return { below, pick: (list) => list[below(list.length)] };
}

function randomCharacter(random) {
  const ranges = [
    [0x20, 0x7e],
    [0xa1, 0x17f],
    [0x370, 0x3ff],
    [0x400, 0x4ff],
    [0x5d0, 0x5ea],
    [0x620, 0x64a],
    [0x900, 0x94d],
    [0xe01, 0xe3a],
    [0x1e00, 0x1eff],
    [0x2010, 0x2027],
    [0x2190, 0x21ff],
    [0x3041, 0x3096],
    [0x4e00, 0x9fa5],
    [0xac00, 0xd7a3],
    [0xff01, 0xff5e],
    [0x1f300, 0x1f5ff],
    [0x10330, 0x1034a],
  ];
  for (;;) {
    const [low, high] = random.pick(ranges);
    const text = String.fromCodePoint(low + random.below(high - low + 1));
    if (!/\p{Cn}/u.test(text)) return text;
  }
}

function part(random, specials) {
  const kind = random.below(100);
  if (kind < 38) return random.pick(words);
  if (kind < 58) return random.pick(spaces);
  if (kind < 70) return random.pick(marks);
  if (kind < 75) return random.pick(emoji);
  if (kind < 82) return random.pick(odd);
  if (kind < 90) return randomCharacter(random);
  if (kind < 94 && specials.length > 0) return random.pick(specials);
  if (kind < 96) return String(random.below(10 ** (1 + random.below(9))));
  const unit = random.pick([...words, ...marks, ...spaces, ...emoji]);
  return unit.repeat(1 + random.below(12));
}

/** `count` distinct strings; none contains what `avoid` (a RegExp) matches. */
export function randomTexts({ seed, count, specials = [], avoid }) {
  const random = randomSource(seed);
  const texts = new Set(["", " ", "  ", "a", "\n"].filter((text) => !avoid.test(text)));
  while (texts.size < count) {
    const length = 1 + random.below(random.below(10) === 0 ? 80 : 14);
    let text = "";
    const spaced = random.below(2) === 0;
    for (let i = 0; i < length; ++i) text += (spaced && i > 0 ? " " : "") + part(random, specials);
    if (!avoid.test(text)) texts.add(text);
  }
  return [...texts];
}
