// An answer for those who listen: whole sentences, as they become complete.

// A sentence ends after . ! ? … : ; or a line's end; closing quotes and brackets belong to it.
const kSentenceEnd = /[.!?…]["'”’)\]]*(?=\s)|[。！？]|\n/g;
// "1." or "e.g." at the end of a list's number is no sentence; shorter pieces are joined.
const kFewestCharacters = 12;

export interface Spoken {
  chunk: string; // to be announced now; "" when no sentence is complete
  nextAt: number; // where the next call goes on
}

// The complete sentences of `text` from `from` on, or all the rest when the answer `isComplete`.
export function takeSentences(text: string, from: number, isComplete: boolean): Spoken {
  if (isComplete) return { chunk: readable(text.slice(from)), nextAt: text.length };
  const rest = text.slice(from);
  let end = 0;
  for (const mark of rest.matchAll(kSentenceEnd)) {
    const stop = mark.index + mark[0].length;
    if (stop - end >= kFewestCharacters) end = stop;
  }
  return { chunk: readable(rest.slice(0, end)), nextAt: from + end };
}

// The text without the marks of Markdown.
function readable(text: string): string {
  return text.replace(/```\w*/g, " ").replace(/[*`#]+/g, "").replace(/\s+/g, " ").trim();
}
