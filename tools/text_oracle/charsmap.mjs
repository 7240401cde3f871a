// Writes SentencePiece's precompiled character map: a double array of bytes (src/text/tokenizer/
// charsmap.h describes the units) and the replacements.

const kBlock = 256;
const kEnd = 0x80000000;

// The trie of the texts' bytes: {children: Map, value}.
function trieOf(pairs) {
  const root = { children: new Map(), value: -1 };
  for (const [text, value] of pairs) {
    let node = root;
    for (const byte of Buffer.from(text)) {
      if (!node.children.has(byte)) node.children.set(byte, { children: new Map(), value: -1 });
      node = node.children.get(byte);
    }
    node.value = value;
  }
  return root;
}

/** Base64 of a map, [text, replacement] each. */
export function precompiledCharsmap(pairs) {
  const offsets = new Map();
  let replacements = "";
  for (const [, to] of pairs) {
    if (offsets.has(to)) continue;
    offsets.set(to, Buffer.byteLength(replacements));
    replacements += `${to}\0`;
  }
  const units = [];
  const isTaken = [];
  const grow = () => {
    for (let i = 0; i < kBlock; ++i) units.push(0), isTaken.push(false);
  };
  grow();
  isTaken[0] = true;
  const place = (node, at, label) => {
    const bytes = [...node.children.keys()];
    if (node.value >= 0) bytes.unshift(0);
    const fits = (base) => bytes.every((byte) => !isTaken[base ^ byte]);
    // Offsets of whole blocks may be written in units of 256: those where they fit.
    let base = at % kBlock;
    while (base < units.length && !fits(base)) base += kBlock;
    if (base >= units.length) {
      base = 0;
      while (!fits(base)) if (++base === units.length) grow();
    }
    const offset = (at ^ base) >>> 0;
    const packed = offset % kBlock === 0 ? (offset << 2) | 0x200 : offset << 10;
    units[at] = (label | packed | (node.value >= 0 ? 0x100 : 0)) >>> 0;
    for (const byte of bytes) isTaken[base ^ byte] = true;
    if (node.value >= 0) units[base] = (node.value | kEnd) >>> 0;
    for (const [byte, child] of node.children) place(child, base ^ byte, byte);
  };
  place(trieOf(pairs.map(([from, to]) => [from, offsets.get(to)])), 0, 0);
  const array = Buffer.alloc(4 + 4 * units.length);
  array.writeUInt32LE(4 * units.length, 0);
  units.forEach((unit, i) => array.writeUInt32LE(unit, 4 + 4 * i));
  return Buffer.concat([array, Buffer.from(replacements)]).toString("base64");
}
