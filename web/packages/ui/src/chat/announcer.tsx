// Reads an answer out while it is written, sentence by sentence, for those who use a screen reader.
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { isOpen } from "./chats.ts";
import type { AnswerMessage } from "./chat.ts";
import { takeSentences } from "./sentences.ts";

export function Announcer({ answer }: { answer: AnswerMessage | null }): VNode {
  const heard = useRef({ id: "", at: 0, ended: true });
  const [chunk, setChunk] = useState("");
  useEffect(() => {
    if (!answer) return;
    const at = heard.current;
    if (at.id !== answer.id) {
      // An answer that was complete when it was first seen belongs to a chat that was opened again.
      heard.current = { id: answer.id, at: 0, ended: !isOpen(answer) };
      return;
    }
    if (at.ended) return;
    const isComplete = !isOpen(answer);
    const { chunk: next, nextAt } = takeSentences(answer.text, at.at, isComplete);
    heard.current = { id: answer.id, at: nextAt, ended: isComplete };
    const ending = answer.failure ? answer.failure.sentence
      : answer.phase === "stopped" ? "Stopped." : "";
    const words = isComplete ? `${next} ${ending}`.trim() : next;
    if (words !== "") setChunk(words);
  }, [answer]);
  return <div class="visually-hidden" aria-live="polite" aria-atomic="true">{chunk}</div>;
}
