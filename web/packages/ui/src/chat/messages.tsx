// The conversation: questions with "edit", answers with their figures and what can be done next.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { IconButton } from "../elements/controls.tsx";
import { Answer } from "./answer.tsx";
import { shownMessages, versionsOf } from "./branches.ts";
import type { Versions } from "./branches.ts";
import type { Chat, ToolMessage, UserMessage } from "./chat.ts";
import { isSendKey } from "./composer.tsx";
import { VersionSwitch } from "./versionSwitch.tsx";

interface MessageListProps {
  chat: Chat;
  canAsk: boolean; // no answer of this chat is being written
  waitingWords: string; // why an answer has no text yet, or does not go on
  onEdit: (messageId: string, text: string) => void;
  onAgain: () => void;
  onChoose: (messageId: string) => void; // shows another version
  onResults: (results: Record<string, string>) => void; // of the calls of the last answer
}

export function MessageList(props: MessageListProps): VNode {
  const { chat, canAsk, waitingWords, onEdit, onAgain, onChoose, onResults } = props;
  const messages = shownMessages(chat);
  const last = messages.at(-1);
  return (
    <ol class="messages" aria-label="Conversation">
      {messages.map((message) => {
        const versions = versionsOf(chat, message);
        switch (message.role) {
          case "user":
            return <Question key={message.id} message={message} canEdit={canAsk} onEdit={onEdit}
              versions={versions} onChoose={onChoose} />;
          case "tool":
            return <ToolResult key={message.id} message={message} />;
          case "assistant":
            return (
              <Answer
                key={message.id}
                message={message}
                waitingWords={waitingWords}
                onAgain={canAsk && message === last ? onAgain : null}
                onResults={canAsk && message === last ? onResults : null}
                versions={versions}
                onChoose={onChoose}
              />
            );
        }
      })}
    </ol>
  );
}

interface QuestionProps {
  message: UserMessage;
  canEdit: boolean;
  onEdit: (messageId: string, text: string) => void;
  versions: Versions;
  onChoose: (messageId: string) => void;
}

function Question({ message, canEdit, onEdit, versions, onChoose }: QuestionProps): VNode {
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
      <div class="question-tools">
        <VersionSwitch what="question" versions={versions} onChoose={onChoose} />
        <div class="message-actions">
          <IconButton icon="edit" label="Edit and ask again" disabled={!canEdit}
            onClick={() => setDraft(message.text)} />
        </div>
      </div>
    </li>
  );
}

function ToolResult({ message }: { message: ToolMessage }): VNode {
  return (
    <li class="tool-result">
      <span class="muted">Result: </span>
      <code>{message.text || "nothing"}</code>
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
