// Markdown cut into blocks. Paragraphs and list items may be filled anew; tables, code, headings,
// HTML and quotes stay as they are. It knows the Markdown of this repository and is no parser of
// CommonMark.

const kFence = /^\s*(```|~~~)/;
const kItem = /^(\s*)([-*+]|\d+[.)])(\s+)(?=\S)/;
const kVerbatim = /^\s*(#{1,6}\s|\||>|<|\[[^\]]+\]:\s|(?:-{3,}|\*{3,}|_{3,})\s*$)/;
const kHardBreak = /(?: {2}|\\)$/;

// A code span, with the punctuation that touches it, is one word: a command is not broken unless it
// is longer than a line.
const kWord = /(?:`+[^`]+`+|[^\s`]|`)+/g;

// What would begin a list, a heading or a quote if a line began with it.
const kMarker = /^(?:[-*+>]|#{1,6}|\d+[.)]|={2,}|-{2,})$|^[|]|^(?:```|~~~)/;

// [{kind: "text", first, rest, lines} | {kind: "verbatim", lines}]; `first` and `rest` are what
// stands before the first and the other lines of a filled block.
export function blocksOf(text) {
  const reader = { lines: text.split("\n"), at: 0, blocks: [], itemIndent: 0 };
  while (reader.at < reader.lines.length) readBlock(reader);
  return reader.blocks;
}

function readBlock(reader) {
  const line = reader.lines[reader.at];
  const indent = /^\s*/.exec(line)[0].length;
  const item = kItem.exec(line);
  if (kFence.test(line)) return readFence(reader);
  if (line.trim() === "") return verbatim(reader, 1);
  if (!item && indent === 0) reader.itemIndent = 0;
  // Four columns more than what surrounds it: code.
  if (kVerbatim.test(line) || indent >= reader.itemIndent + 4) return verbatim(reader, 1);
  const first = item ? item[0] : " ".repeat(indent);
  if (item) reader.itemIndent = first.length;
  const lines = [line.slice(first.length)];
  reader.at += 1;
  while (reader.at < reader.lines.length && continues(reader.lines[reader.at])) {
    lines.push(reader.lines[reader.at].trimStart());
    reader.at += 1;
  }
  reader.blocks.push({ kind: "text", first, rest: " ".repeat(first.length), lines });
}

function continues(line) {
  return line.trim() !== "" && !kFence.test(line) && !kVerbatim.test(line) && !kItem.test(line);
}

function readFence(reader) {
  const mark = kFence.exec(reader.lines[reader.at])[1];
  let end = reader.at + 1;
  while (end < reader.lines.length && !reader.lines[end].trimStart().startsWith(mark)) end += 1;
  verbatim(reader, end + 1 - reader.at);
}

function verbatim(reader, count) {
  const lines = reader.lines.slice(reader.at, reader.at + count);
  reader.blocks.push({ kind: "verbatim", lines });
  reader.at += count;
}

// The same text with paragraphs and list items filled up to `columns`.
export function formatMarkdown(text, columns = 100) {
  return blocksOf(text).flatMap((block) => {
    const isFixed = block.kind === "verbatim" || block.lines.some((line) => kHardBreak.test(line));
    if (!isFixed) return fill(block, columns);
    if (block.kind === "verbatim") return block.lines;
    return block.lines.map((line, index) => (index === 0 ? block.first : block.rest) + line);
  }).join("\n");
}

function fill({ first, rest, lines }, columns) {
  const filled = [];
  let line = "";
  for (const word of wordsOf(lines.join(" "), columns - first.length)) {
    const prefix = filled.length === 0 ? first : rest;
    const longer = line === "" ? word : `${line} ${word}`;
    if (line !== "" && [...prefix + longer].length > columns) {
      filled.push(prefix + line);
      line = word;
    } else {
      line = longer;
    }
  }
  filled.push((filled.length === 0 ? first : rest) + line);
  return filled;
}

// Words that may stand at the beginning of a line; a marker stays with the word in front of it.
function wordsOf(text, columns) {
  const words = [];
  const found = [...text.matchAll(kWord)].flatMap(([word]) =>
    [...word].length > columns ? word.split(/\s+/) : [word]);
  for (const word of found) {
    if (words.length > 0 && kMarker.test(word)) words[words.length - 1] += ` ${word}`;
    else words.push(word);
  }
  return words;
}
