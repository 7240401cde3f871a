// The chat's state and what its buttons do. Each chat may have an answer that is being written: it
// goes on while another chat is looked at.
import { computed, effect, signal } from "@preact/signals";
import {
  chatMarkdown, chatsFile, currentChat, openAnswerOf, readChatsFile, readSettings, reduceChats,
  waitingText,
} from "@weft/ui";
import type { Chat, ChatAction, ChatSettings } from "@weft/ui";
import { feedState, swarmPicture } from "../api/swarmFeed.ts";
import { saveFile } from "../browser/files.ts";
import { loadJson, randomId, save } from "../browser/storage.ts";
import { AnswerRunner } from "./answerRunner.ts";
import { ChatStorage, loadChat, loadChats, loadDraft, saveDraft } from "./storage.ts";

const kSettingsKey = "weft.chatSettings";
const kStoreMs = 500;

const loaded = loadChats();
const storage = new ChatStorage(loaded);

export const chats = signal(loaded);
const newSettings = signal<ChatSettings>(readSettings(loadJson(kSettingsKey)));
export const draft = signal("");
// About the list of chats: what came of an import, or that there is no room for more.
export const listNotice = signal("");

export const shownChat = computed(() => currentChat(chats.value));
const openShown = computed(() => openAnswerOf(shownChat.value));
export const isAnswering = computed(() => openShown.value !== null);
export const settings = computed(() => shownChat.value?.settings ?? newSettings.value);
export const waitingWords = computed(() => {
  const answer = openShown.value;
  if (!answer) return "";
  const waiting = runner.waitings.value.get(answer.id);
  if (!waiting) return "Another tab of this browser writes this answer.";
  if (waiting.isCut) return "The connection was lost. The answer goes on when the server is back.";
  if (answer.text !== "" || answer.thoughts || answer.calls) return "";
  return waitingText(waiting, feedState.value === "live" ? swarmPicture.value : null);
});

export function dispatch(action: ChatAction): void {
  chats.value = reduceChats(chats.value, action);
}

const runner = new AnswerRunner({
  chats, dispatch,
  // Another tab may have finished it while this one waited for its turn.
  refresh: (chatId) => sync(chatId, loadChat(chatId)),
  storeNow: () => storeNow(),
});

let storeTimer: ReturnType<typeof setTimeout> | undefined;
effect(() => {
  void chats.value;
  storeTimer ??= setTimeout(storeNow, kStoreMs);
});
effect(() => runner.startOpen(chats.value));

function storeNow(): void {
  clearTimeout(storeTimer);
  storeTimer = undefined;
  const hasRoom = storage.store(chats.peek());
  if (!hasRoom) {
    listNotice.value = "This browser has no room for more: what is new is lost with this page. " +
      "Export chats and delete some.";
  }
}
addEventListener("pagehide", storeNow);

storage.watch(sync);

function sync(chatId: string, chat: Chat | null): void {
  runner.stopAsElsewhere(chatId, chat);
  storage.noteStored(chatId, chat);
  dispatch({ kind: "synced", chatId, chat, ownIds: runner.ownIds });
}

let draftOf: string | null | undefined;
effect(() => {
  const { currentId } = chats.value;
  if (currentId === draftOf) return;
  draftOf = currentId;
  draft.value = loadDraft(currentId);
});

export function changeDraft(text: string): void {
  draft.value = text;
  saveDraft(chats.peek().currentId, text);
}

// Those of the chat that is shown, or of the next new one.
export function changeSettings(next: ChatSettings): void {
  const chat = shownChat.peek();
  if (chat) dispatch({ kind: "settings", chatId: chat.id, settings: next });
  else useForNewChats(next);
}

export function useForNewChats(next: ChatSettings): void {
  newSettings.value = next;
  save(kSettingsKey, JSON.stringify(next));
}

function asking(): { nowMs: number; newId: () => string; settings: ChatSettings } {
  return { nowMs: Date.now(), newId: randomId, settings: settings.peek() };
}

export function send(): void {
  const text = draft.value;
  if (text.trim() === "" || isAnswering.value) return;
  changeDraft("");
  dispatch({ kind: "ask", text, ...asking() });
}

export function askAgain(messageId?: string, text?: string): void {
  dispatch({
    kind: "askAgain",
    ...(messageId === undefined ? {} : { messageId }),
    ...(text === undefined ? {} : { text }),
    ...asking(),
  });
}

export function sendResults(results: Record<string, string>): void {
  dispatch({ kind: "results", results, ...asking() });
}

export function choose(messageId: string): void {
  const chat = shownChat.peek();
  if (chat) dispatch({ kind: "choose", chatId: chat.id, messageId });
}

export function stop(): void {
  const chat = shownChat.peek();
  if (chat) runner.stop(chat);
}

export function newChat(): void {
  dispatch({ kind: "new" });
}

// A chat that is being answered is stopped first: nobody could see its end.
export function deleteChat(chatId: string): void {
  const chat = chats.peek().chats.find(({ id }) => id === chatId);
  if (chat) runner.stop(chat);
  dispatch({ kind: "delete", chatId });
}

export function deleteAllChats(): void {
  for (const chat of chats.peek().chats) runner.stop(chat);
  dispatch({ kind: "deleteAll" });
  listNotice.value = "";
}

export function exportChat(chat: Chat): void {
  const name = chat.title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "") || "chat";
  saveFile(`${name}.md`, "text/markdown", chatMarkdown(chat));
}

export function exportAll(): void {
  saveFile("weft-chats.json", "application/json", chatsFile(chats.peek().chats));
}

export async function importFile(file: File): Promise<void> {
  const read = readChatsFile(await file.text(), Date.now());
  if (typeof read === "string") {
    listNotice.value = read;
    return;
  }
  dispatch({ kind: "added", chats: read });
  listNotice.value = `Imported: ${read.length === 1 ? "1 chat" : `${read.length} chats`}.`;
}
