// The conversations that this browser keeps.
import type { VNode } from "preact";
import { IconButton } from "../elements/controls.tsx";
import { Dialog } from "../elements/dialog.tsx";
import type { Chats } from "./chats.ts";

interface ChatListProps {
  isOpen: boolean;
  state: Chats;
  onOpen: (chatId: string) => void;
  onDelete: (chatId: string) => void;
  onDeleteAll: () => void;
  onClose: () => void;
}

export function ChatList(props: ChatListProps): VNode {
  const { isOpen, state, onOpen, onDelete, onDeleteAll, onClose } = props;
  return (
    <Dialog title="Chats" isOpen={isOpen} onClose={onClose}>
      {state.chats.length === 0
        ? <p class="muted">There is no chat yet. Chats are kept in this browser only.</p>
        : (
          <>
            <ul class="chat-list">
              {state.chats.map((chat) => (
                <li key={chat.id}>
                  <button
                    type="button"
                    class="chat-open"
                    aria-current={chat.id === state.currentId ? "true" : undefined}
                    onClick={() => onOpen(chat.id)}
                  >
                    <span class="chat-title">{chat.title}</span>
                    <span class="muted">{new Date(chat.updatedAtMs).toLocaleString()}</span>
                  </button>
                  <IconButton icon="trash" label={`Delete “${chat.title}”`}
                    onClick={() => onDelete(chat.id)} />
                </li>
              ))}
            </ul>
            <div class="row row-between">
              <span class="muted">Kept in this browser only.</span>
              <button type="button" class="button" onClick={onDeleteAll}>Delete all</button>
            </div>
          </>
        )}
    </Dialog>
  );
}
