// An answer: thoughts, which are folded, the text, calls of tools, and below them its figures and
// what can be done next.
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { CopyIconButton, IconButton, Notice } from "../elements/controls.tsx";
import { Markdown } from "../markdown/markdown.tsx";
import { formatCount, formatMilliseconds, formatRate } from "../words/format.ts";
import type { Versions } from "./branches.ts";
import { isOpen } from "./chats.ts";
import type { AnswerMessage, AnswerStats } from "./chat.ts";
import { ToolCalls } from "./toolCalls.tsx";
import { VersionSwitch } from "./versionSwitch.tsx";

interface AnswerProps {
  message: AnswerMessage;
  waitingWords: string;
  onAgain: (() => void) | null;
  onResults: ((results: Record<string, string>) => void) | null;
  versions: Versions;
  onChoose: (messageId: string) => void;
}

export function Answer(props: AnswerProps): VNode {
  const { message, waitingWords, onAgain, onResults, versions, onChoose } = props;
  // Only what is being written is parsed again with every piece.
  const text = useMemo(() => message.text === "" ? null : <Markdown text={message.text} />,
    [message.text]);
  return (
    <li class="answer" aria-busy={isOpen(message)}>
      <span class="visually-hidden">Answer: </span>
      {message.thoughts && <Thoughts message={message} text={message.thoughts} />}
      {text}
      {message.calls && <ToolCalls calls={message.calls} onResults={onResults} />}
      {isOpen(message) && waitingWords !== "" && (
        <p class="waiting">
          <span class="waiting-dots" aria-hidden="true"><i /><i /><i /></span>
          {waitingWords}
        </p>
      )}
      {message.failure && (
        <Notice kind="error">
          <p>{message.failure.sentence}</p>
          {message.failure.advice !== "" && <p class="muted">{message.failure.advice}</p>}
        </Notice>
      )}
      {!isOpen(message) && (
        <footer class="answer-foot">
          <VersionSwitch what="answer" versions={versions} onChoose={onChoose} />
          <span class="message-actions">
            {message.text !== "" && <CopyIconButton text={message.text} label="Copy the answer" />}
            {onAgain && <IconButton icon="again" label="Answer again" onClick={onAgain} />}
          </span>
          <span class="answer-stats figure">{statsText(message)}</span>
        </footer>
      )}
    </li>
  );
}

function Thoughts({ message, text }: { message: AnswerMessage; text: string }): VNode {
  const isThinking = isOpen(message) && message.text === "";
  const words = isThinking ? "Thinking …"
    : message.thoughtMs === undefined ? "Thoughts"
      : `Thought for ${formatMilliseconds(message.thoughtMs)}`;
  return (
    <details class="thoughts">
      <summary>{words}</summary>
      <Markdown text={text} />
    </details>
  );
}

function statsText(message: AnswerMessage): string {
  const parts: string[] = [];
  if (message.phase === "stopped") parts.push("Stopped");
  if (message.stats) parts.push(...figures(message.stats));
  if (message.atLimit) parts.push("ended by the length limit");
  return parts.join(" · ");
}

function figures(stats: AnswerStats): string[] {
  const parts: string[] = [];
  if (stats.tokensPerSecond > 0) parts.push(formatRate(stats.tokensPerSecond, "tokens"));
  if (stats.tokens > 0) parts.push(formatCount(stats.tokens, "token"));
  if (stats.firstTokenMs > 0) {
    parts.push(`first after ${formatMilliseconds(stats.firstTokenMs)}`);
  }
  return parts;
}
