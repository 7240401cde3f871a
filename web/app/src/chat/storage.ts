// Chats in localStorage, one entry each, so that tabs do not overwrite each other's; which chat is
// open belongs to the tab.
import { readChats } from "@weft/ui";
import type { Chat, Chats } from "@weft/ui";
import {
  keysWithPrefix, loadForTab, loadJson, remove, save, saveForTab,
} from "../browser/storage.ts";

const kPrefix = "weft.chat.";
const kCurrentKey = "weft.currentChat";

export function loadChats(): Chats {
  const saved = keysWithPrefix(kPrefix).map(loadJson);
  return readChats(saved, loadForTab(kCurrentKey));
}

export class ChatStorage {
  #saved = new Map<string, Chat>();

  constructor(loaded: Chats) {
    for (const chat of loaded.chats) this.#saved.set(chat.id, chat);
  }

  // Writes what changed since the last call, and removes what this tab deleted.
  store(state: Chats): void {
    for (const chat of state.chats) {
      if (this.#saved.get(chat.id) !== chat) this.#storeOne(chat, state);
    }
    const kept = new Set(state.chats.map((chat) => chat.id));
    for (const id of this.#saved.keys()) if (!kept.has(id)) remove(kPrefix + id);
    this.#saved = new Map(state.chats.map((chat) => [chat.id, chat]));
    saveForTab(kCurrentKey, state.currentId);
  }

  // Where there is no room, the oldest chats give way.
  #storeOne(chat: Chat, state: Chats): void {
    const text = JSON.stringify(chat);
    const oldestFirst = [...state.chats].reverse().filter((other) => other.id !== chat.id);
    while (!save(kPrefix + chat.id, text)) {
      const oldest = oldestFirst.shift();
      if (!oldest) return;
      remove(kPrefix + oldest.id);
    }
  }
}
