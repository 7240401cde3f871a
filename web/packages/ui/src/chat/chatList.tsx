// The conversations that this browser keeps: search, names, files.
import type { VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import { IconButton } from "../elements/controls.tsx";
import { Dialog } from "../elements/dialog.tsx";
import { formatCount } from "../words/format.ts";
import type { Chat, Chats } from "./chat.ts";
import { searchChats } from "./keptChats.ts";

export interface ChatListActions {
  onOpen: (chatId: string) => void;
  onRename: (chatId: string, title: string) => void;
  onDelete: (chatId: string) => void;
  onDeleteAll: () => void;
  onExport: (chat: Chat) => void; // one chat, for people
  onExportAll: () => void;
  onImport: (file: File) => void;
  onClose: () => void;
}

interface ChatListProps extends ChatListActions {
  isOpen: boolean;
  state: Chats;
  notice: string; // what came of an import, or that there is no more room; "" for nothing
}

// So many more are listed with each press of "More".
const kPageLength = 50;

export function ChatList(props: ChatListProps): VNode {
  return (
    <Dialog title="Chats" isOpen={props.isOpen} onClose={props.onClose}>
      <ChatListBody {...props} />
    </Dialog>
  );
}

function ChatListBody(props: ChatListProps): VNode {
  const { state, notice } = props;
  const [query, setQuery] = useState("");
  const [most, setMost] = useState(kPageLength);
  const found = searchChats(state.chats, query);
  return (
    <>
      {state.chats.length === 0
        ? <p class="muted">There is no chat yet. Chats are kept in this browser only.</p>
        : (
          <input type="search" class="chat-search" aria-label="Search the chats"
            placeholder="Search titles and messages" value={query}
            onInput={(event) => {
              setQuery(event.currentTarget.value);
              setMost(kPageLength);
            }} />
        )}
      <p class="muted chat-list-status" role="status">
        {notice !== "" ? notice : query.trim() !== "" ? `${formatCount(found.length, "chat")} found`
          : ""}
      </p>
      {found.length > 0 && (
        <ul class="chat-list">
          {found.slice(0, most).map((chat) => (
            <ChatRow key={chat.id} chat={chat} isShown={chat.id === state.currentId} {...props} />
          ))}
        </ul>
      )}
      {found.length > most && (
        <button type="button" class="button button-block"
          onClick={() => setMost(most + kPageLength)}>
          More ({found.length - most})
        </button>
      )}
      <ListFoot {...props} />
    </>
  );
}

function ChatRow({ chat, isShown, onOpen, onRename, onDelete, onExport }: ChatListActions & {
  chat: Chat;
  isShown: boolean;
}): VNode {
  const [name, setName] = useState<string | null>(null);
  if (name !== null) {
    const save = (): void => {
      setName(null);
      onRename(chat.id, name);
    };
    return (
      <li>
        <form class="chat-rename" onSubmit={(event) => {
          event.preventDefault();
          save();
        }}>
          <input type="text" autofocus aria-label="Name of the chat" value={name}
            onInput={(event) => setName(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key !== "Escape") return;
              event.preventDefault(); // the dialog stays open
              setName(null);
            }} />
          <button type="submit" class="button" disabled={name.trim() === ""}>Rename</button>
        </form>
      </li>
    );
  }
  return (
    <li>
      <button type="button" class="chat-open" aria-current={isShown ? "true" : undefined}
        onClick={() => onOpen(chat.id)}>
        <span class="chat-title">{chat.title}</span>
        <span class="muted">{new Date(chat.updatedAtMs).toLocaleString()}</span>
      </button>
      <span class="chat-row-actions">
        <IconButton icon="edit" label={`Rename “${chat.title}”`}
          onClick={() => setName(chat.title)} />
        <IconButton icon="save" label={`Save “${chat.title}” as a file`}
          onClick={() => onExport(chat)} />
        <IconButton icon="trash" label={`Delete “${chat.title}”`}
          onClick={() => onDelete(chat.id)} />
      </span>
    </li>
  );
}

function ListFoot({ state, onImport, onExportAll, onDeleteAll }: ChatListProps): VNode {
  const file = useRef<HTMLInputElement>(null);
  const [isAsking, setIsAsking] = useState(false);
  const count = state.chats.length;
  if (isAsking && count > 0) {
    return (
      <div class="row row-between chat-list-foot" role="alertdialog"
        aria-label="Delete all chats?">
        <span>Delete {formatCount(count, "chat")} for good?</span>
        <span class="row">
          <button type="button" class="button" autofocus onClick={() => setIsAsking(false)}>
            Keep them
          </button>
          <button type="button" class="button button-stop" onClick={() => {
            setIsAsking(false);
            onDeleteAll();
          }}>
            Delete
          </button>
        </span>
      </div>
    );
  }
  return (
    <div class="row row-between chat-list-foot">
      <span class="row">
        <input ref={file} type="file" class="visually-hidden" tabIndex={-1} aria-hidden="true"
          accept="application/json,.json" onChange={(event) => {
            const chosen = event.currentTarget.files?.[0];
            if (chosen) onImport(chosen);
            event.currentTarget.value = "";
          }} />
        <button type="button" class="button" onClick={() => file.current?.click()}>Import</button>
        {count > 0 && (
          <button type="button" class="button" onClick={onExportAll}>Export all</button>
        )}
      </span>
      {count > 0 && (
        <button type="button" class="button" onClick={() => setIsAsking(true)}>Delete all</button>
      )}
    </div>
  );
}
