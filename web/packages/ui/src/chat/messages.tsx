// The conversation: questions with "edit", answers with their figures and what can be done next.
import type { VNode } from "preact";
import { useMemo, useState } from "preact/hooks";
import { CopyIconButton, IconButton, Notice } from "../elements/controls.tsx";
import { formatCount, formatMilliseconds, formatRate } from "../words/format.ts";
import { Markdown } from "../markdown/markdown.tsx";
import { isOpen } from "./chats.ts";
import type { AnswerMessage, AnswerStats, Message, UserMessage } from "./chats.ts";
import { isSendKey } from "./composer.tsx";

interface MessageListProps {
  messages: readonly Message[];
  canAsk: boolean; // no answer is being written
  waitingWords: string; // why an answer has no text yet
  onEdit: (messageId: string, text: string) => void;
  onAgain: () => void;
}

export function MessageList(props: MessageListProps): VNode {
  const { messages, canAsk, waitingWords, onEdit, onAgain } = props;
  const last = messages.at(-1);
  return (
    <ol class="messages" aria-label="Conversation">
      {messages.map((message) => message.role === "user"
        ? <Question key={message.id} message={message} canEdit={canAsk} onEdit={onEdit} />
        : (
          <Answer
            key={message.id}
            message={message}
            waitingWords={message.phase === "waiting" ? waitingWords : ""}
            onAgain={canAsk && message === last ? onAgain : null}
          />
        ))}
    </ol>
  );
}

interface QuestionProps {
  message: UserMessage;
  canEdit: boolean;
  onEdit: (messageId: string, text: string) => void;
}

function Question({ message, canEdit, onEdit }: QuestionProps): VNode {
  const [draft, setDraft] = useState<string | null>(null);
  if (draft !== null && canEdit) {
    const save = (): void => {
      if (draft.trim() === "") return;
      setDraft(null);
      onEdit(message.id, draft);
    };
    return (
      <li class="question is-editing">
        <EditForm draft={draft} onDraft={setDraft} onSave={save} onCancel={() => setDraft(null)} />
      </li>
    );
  }
  return (
    <li class="question">
      <span class="visually-hidden">You: </span>
      <p class="question-text">{message.text}</p>
      <div class="message-actions">
        <IconButton icon="edit" label="Edit and ask again" disabled={!canEdit}
          onClick={() => setDraft(message.text)} />
      </div>
    </li>
  );
}

interface EditFormProps {
  draft: string;
  onDraft: (text: string) => void;
  onSave: () => void;
  onCancel: () => void;
}

function EditForm({ draft, onDraft, onSave, onCancel }: EditFormProps): VNode {
  return (
    <form
      class="edit-form"
      onSubmit={(event) => {
        event.preventDefault();
        onSave();
      }}
    >
      <textarea
        aria-label="Your message"
        autofocus
        rows={Math.min(10, draft.split("\n").length + 1)}
        value={draft}
        onInput={(event) => onDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") onCancel();
          if (!isSendKey(event)) return;
          event.preventDefault();
          onSave();
        }}
      />
      <div class="row row-end">
        <button type="button" class="button" onClick={onCancel}>Cancel</button>
        <button type="submit" class="button button-primary" disabled={draft.trim() === ""}>
          Ask again
        </button>
      </div>
    </form>
  );
}

interface AnswerProps {
  message: AnswerMessage;
  waitingWords: string;
  onAgain: (() => void) | null;
}

function Answer({ message, waitingWords, onAgain }: AnswerProps): VNode {
  // Only what is being written is parsed again with every piece.
  const text = useMemo(() => message.text === "" ? null : <Markdown text={message.text} />,
    [message.text]);
  return (
    <li class="answer" aria-busy={isOpen(message)}>
      <span class="visually-hidden">Answer: </span>
      {message.thoughts && (
        <details class="thoughts">
          <summary>{isOpen(message) && message.text === "" ? "Thinking …" : "Thoughts"}</summary>
          <p>{message.thoughts}</p>
        </details>
      )}
      {text}
      {message.phase === "waiting" && (
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
