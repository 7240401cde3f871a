// Sentences of Markdown documents and of comments, and what can be counted about them: words,
// relative clauses, fragments. A sentence ends with a mark and white space before a capital, a
// figure, code or weft's name, or with its paragraph. A code span counts as one word; headings,
// tables, code and pictures are no prose.
//
// A fragment is a sentence in which no word is a verb of the lists below. The lists are short and
// know no grammar: a noun that is spelt as a verb ("the answer", "a step") hides a fragment, and a
// verb that is in no list makes one. So the share is good for comparing, not for proving.
import { blocksOf } from "./markdown.mjs";

const kAuxiliary = (
  "is are was were be been am has have had do does did can could may might must shall should " +
  "will would cannot let's don't doesn't isn't aren't can't won't it's that's there's you're " +
  "they're").split(" ");

// In the base form; endings are added below.
const kVerbs = (
  "accept add agree aim allow answer appear apply arrive ask assume attend avoid become begin " +
  "believe belong bind block bring build call carry change check choose chat claim close come " +
  "compare compile compute concern connect contain continue convert copy cost count cover " +
  "create cut decide decode define demand depend describe differ divide download draw drop " +
  "enable encode end ensure enter evict exceed exist expect explain fail fall fetch fill find " +
  "finish fit follow forget format free gain get give go grow guarantee hand happen hash hear " +
  "help hide hold ignore imply include install interrupt join keep know lack last lead learn " +
  "leave lend lie list listen live load look lose lower make mark match matter mean measure " +
  "meet merge mind move multiply name need note notice obey offer open overwrite own parse pass " +
  "pay permit pick post print press prefer prove pull put quantise reach read receive refuse " +
  "remain remember remove render repeat replace report require resolve respond rest return " +
  "round run save say search see seem select send serve set share show sign skip speak split " +
  "stand start state stay stop store subtract suit support switch take talk teach tell test " +
  "touch train translate travel treat try turn type understand unload update use validate vary " +
  "verify wait want watch work write yield").split(" ");

const kPast = (
  "used answered took made gave found came went kept held ran ended began fell got knew left " +
  "lost meant needed said saw sent showed started stood stopped stored told took turned worked " +
  "wrote measured reached asked").split(" ");

const kHasVerb = new Set([...kAuxiliary, ...kPast, ...kVerbs.flatMap(formsOf)]);

function formsOf(verb) {
  if (/(s|x|z|ch|sh|o)$/.test(verb)) return [verb, `${verb}es`];
  return [verb, /[^aeiou]y$/.test(verb) ? `${verb.slice(0, -1)}ies` : `${verb}s`];
}

const kRelative = /^(which|that|who|whose|where)$/;
// Behind these a full stop ends no sentence.
const kAbbreviation = /(?:\b(?:e\.g|i\.e|vs|cf|approx|No|Fig)|(?:^|\s)[A-Z])\.$/;
const kSentenceEnd = /[.!?][)"'*_\]]*\s+(?=[("'*_[]*(?:[A-Z0-9`\u0001]|weft\b))/g;

// Texts of the paragraphs and list items of a Markdown document.
export function paragraphsOfMarkdown(text) {
  return blocksOf(text)
    .filter((block) => block.kind === "text")
    .map((block) => block.lines.join(" "))
    .filter((paragraph) => !/^!\[/.test(paragraph));
}

// Texts of the paragraphs of comments that have lines of their own; what is indented or drawn in
// them is a table or a sample.
export function paragraphsOfComments(text) {
  const paragraphs = [];
  let current = [];
  const end = () => {
    if (current.length > 0) paragraphs.push(current.join(" "));
    current = [];
  };
  for (const line of text.split("\n")) {
    const comment = /^\s*\/\/[/!]?(?:$| (.*)$)/.exec(line)?.[1];
    if (!comment || /^\s/.test(comment) || /\S {3,}\S/.test(comment)) end();
    else if (/^[-*] /.test(comment)) end(), current.push(comment.slice(2));
    else current.push(comment);
  }
  end();
  return paragraphs;
}

export function sentencesOf(paragraph) {
  const plain = paragraph
    .replace(/^\*\*[^*]+[.:]\*\*\s*/, "") // words in bold that name a paragraph are a heading
    .replace(/`+[^`]+`+/g, "\u0001")
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, "$1")
    .replace(/https?:\/\/\S+/g, "\u0001");
  const sentences = [];
  let from = 0;
  for (const { index, 0: mark } of plain.matchAll(kSentenceEnd)) {
    const sentence = plain.slice(from, index + mark.length).trim();
    if (kAbbreviation.test(sentence)) continue;
    sentences.push(sentence);
    from = index + mark.length;
  }
  sentences.push(plain.slice(from).trim());
  return sentences.filter((sentence) => wordsOf(sentence).length > 0);
}

export function wordsOf(sentence) {
  return sentence.match(/\u0001|[\p{L}\p{N}][\p{L}\p{N}'’.,/_-]*/gu) ?? [];
}

export function isFragment(sentence) {
  return !wordsOf(sentence).some((word) =>
    kHasVerb.has(word.toLowerCase().replace(/[.,/’-]+$/, "")));
}

// What is counted about the sentences of these paragraphs.
export function proseFigures(paragraphs) {
  const sentences = paragraphs.flatMap(sentencesOf);
  const lengths = sentences.map((sentence) => wordsOf(sentence).length);
  const words = sentences.flatMap(wordsOf);
  const share = (count) => sentences.length === 0 ? 0 : count / sentences.length;
  return {
    words: words.length,
    sentences: sentences.length,
    words_a_sentence: medianOf(lengths),
    over_25: share(lengths.filter((length) => length > 25).length),
    over_30: share(lengths.filter((length) => length > 30).length),
    relative_per_100: words.length === 0 ? 0 :
      100 * words.filter((word) => kRelative.test(word.toLowerCase())).length / words.length,
    fragments: share(sentences.filter(isFragment).length),
  };
}

export function medianOf(values) {
  if (values.length === 0) return 0;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
