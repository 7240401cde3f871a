// Chats in localStorage, one entry each, so that tabs do not overwrite each other's; which chat is
// open belongs to the tab. What another tab changes comes as an event.
import { readChat, readChats } from "@weft/ui";
import type { Chat, Chats } from "@weft/ui";
import {
  keysWithPrefix, load, loadForTab, loadJson, remove, save, saveForTab,
} from "../browser/storage.ts";

const kPrefix = "weft.chat.";
const kDraftPrefix = "weft.draft.";
const kCurrentKey = "weft.currentChat";

export function loadChats(): Chats {
  const saved = keysWithPrefix(kPrefix).map(loadJson);
  return readChats(saved, loadForTab(kCurrentKey), Date.now());
}

export function loadChat(chatId: string): Chat | null {
  return readChat(loadJson(kPrefix + chatId), Date.now());
}

export class ChatStorage {
  #saved = new Map<string, Chat>();

  constructor(loaded: Chats) {
    for (const chat of loaded.chats) this.#saved.set(chat.id, chat);
  }

  // Writes what changed since the last call, and removes what this tab deleted. False: there was no
  // room for all of it.
  store(state: Chats): boolean {
    let hasRoom = true;
    const kept = new Map<string, Chat>();
    for (const chat of state.chats) {
      const isKept = this.#saved.get(chat.id) === chat ||
        save(kPrefix + chat.id, JSON.stringify(chat));
      hasRoom &&= isKept;
      // What did not fit is tried again with the next change.
      const last = isKept ? chat : this.#saved.get(chat.id);
      if (last) kept.set(chat.id, last);
    }
    const isThere = new Set(state.chats.map((chat) => chat.id));
    for (const id of this.#saved.keys()) {
      if (isThere.has(id)) continue;
      remove(kPrefix + id);
      remove(kDraftPrefix + id);
    }
    this.#saved = kept;
    saveForTab(kCurrentKey, state.currentId);
    return hasRoom;
  }

  // `chat` is what another tab has stored: there is nothing to write.
  noteStored(chatId: string, chat: Chat | null): void {
    if (chat) this.#saved.set(chatId, chat);
    else this.#saved.delete(chatId);
  }

  // Calls `onChat` with what other tabs store; null: they deleted it.
  watch(onChat: (chatId: string, chat: Chat | null) => void): void {
    addEventListener("storage", ({ key, newValue }) => {
      if (!key?.startsWith(kPrefix)) return;
      const chatId = key.slice(kPrefix.length);
      const chat = newValue === null ? null : loadChat(chatId);
      if (chat || newValue === null) onChat(chatId, chat);
    });
  }
}

// What is written and not yet sent, of each chat and of the next new one.
export function loadDraft(chatId: string | null): string {
  return load(kDraftPrefix + (chatId ?? "new")) ?? "";
}

export function saveDraft(chatId: string | null, text: string): void {
  const key = kDraftPrefix + (chatId ?? "new");
  if (text === "") remove(key);
  else save(key, text);
}
