// Conversations and what can happen to them: a pure reducer, so that every path of the page is one
// that a test can take. chat/branches.ts says how messages hang together.
import { leafBelow, shownMessages } from "./branches.ts";
import type {
  AnswerMessage, AnswerStats, Chat, Chats, Failure, Message, ToolCall, ToolMessage, UserMessage,
} from "./chat.ts";
import type { ChatSettings } from "./chatSettings.ts";

export interface AnswerEnd {
  phase: "done" | "stopped" | "failed";
  stats?: AnswerStats;
  atLimit?: boolean;
  failure?: Failure;
}

// What comes of an answer while it is written.
export type AnswerPart =
  | { kind: "text"; text: string }
  | { kind: "thought"; text: string }
  | { kind: "thoughtTime"; durationMs: number }
  | { kind: "calls"; calls: ToolCall[] }
  // Another answer than the one before came of the same request.
  | { kind: "again"; text: string; thoughts: string };

interface Asking {
  nowMs: number;
  newId: () => string;
  settings: ChatSettings; // for the request of the answer
}

export type ChatAction =
  | { kind: "new" }
  | { kind: "open"; chatId: string }
  | { kind: "delete"; chatId: string }
  | { kind: "deleteAll" }
  | { kind: "rename"; chatId: string; title: string }
  | { kind: "settings"; chatId: string; settings: ChatSettings }
  // Adds a question and an answer that waits. `newId` makes ids.
  | { kind: "ask"; text: string } & Asking
  // Another answer to the last question, or to the question `messageId` with another text.
  | { kind: "askAgain"; messageId?: string; text?: string } & Asking
  // What the calls of the last answer gave, by their ids; the model goes on with it.
  | { kind: "results"; results: Record<string, string> } & Asking
  | { kind: "choose"; chatId: string; messageId: string } // shows the path through a message
  | { kind: "part"; chatId: string; messageId: string; part: AnswerPart }
  | { kind: "end"; chatId: string; messageId: string; end: AnswerEnd }
  // Another tab changed a chat (null: deleted it). What `ownIds` names is written by this tab.
  | { kind: "synced"; chatId: string; chat: Chat | null; ownIds: ReadonlySet<string> }
  | { kind: "added"; chats: readonly Chat[] };

const kTitleCharacters = 60;

export function noChats(): Chats {
  return { chats: [], currentId: null };
}

export function currentChat(state: Chats): Chat | null {
  return state.chats.find((chat) => chat.id === state.currentId) ?? null;
}

export interface OpenAnswer {
  chat: Chat;
  answer: AnswerMessage;
}

// The answers that are still being written; at most one of each chat.
export function openAnswers(state: Chats): OpenAnswer[] {
  return state.chats.flatMap((chat) => {
    const answer = openAnswerOf(chat);
    return answer ? [{ chat, answer }] : [];
  });
}

export function openAnswerOf(chat: Chat | null): AnswerMessage | null {
  for (const message of chat?.messages ?? []) {
    if (message.role === "assistant" && isOpen(message)) return message;
  }
  return null;
}

export function isOpen(message: AnswerMessage): boolean {
  return message.phase === "waiting" || message.phase === "streaming";
}

export function reduceChats(state: Chats, action: ChatAction): Chats {
  switch (action.kind) {
    case "new":
      return { ...state, currentId: null };
    case "open":
      return state.chats.some((chat) => chat.id === action.chatId)
        ? { ...state, currentId: action.chatId } : state;
    case "delete":
      return without(state, action.chatId);
    case "deleteAll":
      return noChats();
    case "rename":
      return change(state, action.chatId, (chat) =>
        ({ ...chat, title: titleOf(action.title.trim()) || chat.title }));
    case "settings":
      return change(state, action.chatId, (chat) => ({ ...chat, settings: action.settings }));
    case "choose":
      return change(state, action.chatId, (chat) =>
        ({ ...chat, leafId: leafBelow(chat.messages, action.messageId) }));
    case "part":
      return changeAnswer(state, action.chatId, action.messageId, (answer) =>
        withPart(answer, action.part));
    case "end":
      return changeAnswer(state, action.chatId, action.messageId, (answer) =>
        ({ ...answer, ...action.end }));
    case "synced":
      return synced(state, action);
    case "added":
      return withAdded(state, action.chats);
    default:
      return asked(state, action);
  }
}

type AskAction = Extract<ChatAction, Asking>;

// Whoever waits for an answer in a chat asks nothing more in it.
function asked(state: Chats, action: AskAction): Chats {
  const chat = currentChat(state);
  if (openAnswerOf(chat)) return state;
  if (action.kind === "ask") return ask(state, chat, action);
  if (!chat) return state;
  return action.kind === "results" ? addResults(state, chat, action)
    : askAgain(state, chat, action);
}

function ask(state: Chats, chat: Chat | null, action: Extract<AskAction, { kind: "ask" }>): Chats {
  const text = action.text.trim();
  if (text === "") return state;
  const begun = chat ?? {
    id: action.newId(), title: titleOf(text), updatedAtMs: action.nowMs, messages: [], leafId: "",
    settings: action.settings,
  };
  const question: UserMessage = {
    role: "user", id: action.newId(), text,
    parentId: begun.messages.length === 0 ? null : begun.leafId,
  };
  return putFirst(state, withAnswer(begun, [question], action));
}

function askAgain(
  state: Chats, chat: Chat, action: Extract<AskAction, { kind: "askAgain" }>,
): Chats {
  const shown = shownMessages(chat);
  const at = action.messageId === undefined
    ? shown.findLastIndex((message) => message.role !== "assistant")
    : shown.findIndex((message) => message.id === action.messageId);
  const asking = shown[at];
  const text = (action.text ?? asking?.text ?? "").trim();
  if (!asking || asking.role === "assistant" || text === "") return state;
  if (text === asking.text) {
    return putFirst(state, withAnswer({ ...chat, leafId: asking.id }, [], action));
  }
  const edited = { ...asking, id: action.newId(), text };
  const isOnlyTitle = asking.parentId === null && chat.title === titleOf(asking.text);
  const titled = isOnlyTitle ? { ...chat, title: titleOf(text) } : chat;
  return putFirst(state, withAnswer(titled, [edited], action));
}

function addResults(
  state: Chats, chat: Chat, action: Extract<AskAction, { kind: "results" }>,
): Chats {
  const answer = chat.messages.find(({ id }) => id === chat.leafId);
  if (answer?.role !== "assistant" || !answer.calls) return state;
  let parentId = answer.id;
  const results = answer.calls.map((call): ToolMessage => {
    const id = action.newId();
    const message: ToolMessage = {
      role: "tool", id, parentId, callId: call.id, text: action.results[call.id] ?? "",
    };
    parentId = id;
    return message;
  });
  return putFirst(state, withAnswer(chat, results, action));
}

// The chat with `added` behind each other, and an answer that waits behind the last of them.
function withAnswer(chat: Chat, added: readonly Message[], asking: Asking): Chat {
  const answer: AnswerMessage = {
    role: "assistant", id: asking.newId(), parentId: added.at(-1)?.id ?? chat.leafId, text: "",
    phase: "waiting", requestKey: asking.newId(), asked: asking.settings,
  };
  return {
    ...chat, updatedAtMs: asking.nowMs, messages: [...chat.messages, ...added, answer],
    leafId: answer.id,
  };
}

function withPart(answer: AnswerMessage, part: AnswerPart): AnswerMessage {
  switch (part.kind) {
    case "text":
      return { ...answer, phase: "streaming", text: answer.text + part.text };
    case "thought":
      return { ...answer, phase: "streaming", thoughts: (answer.thoughts ?? "") + part.text };
    case "thoughtTime":
      return { ...answer, thoughtMs: part.durationMs };
    case "calls":
      return { ...answer, phase: "streaming", calls: part.calls };
    case "again":
      return { ...answer, phase: "streaming", text: part.text, thoughts: part.thoughts };
  }
}

function synced(state: Chats, action: Extract<ChatAction, { kind: "synced" }>): Chats {
  const { chat: theirs, chatId, ownIds } = action;
  if (!theirs) return without(state, chatId);
  const mine = state.chats.find((chat) => chat.id === chatId);
  const own = mine?.messages.filter(({ id }) => ownIds.has(id)) ?? [];
  const isTheirs = new Set(theirs.messages.map(({ id }) => id));
  const ownById = new Map(own.map((message) => [message.id, message]));
  const merged: Chat = {
    ...theirs,
    messages: [
      ...theirs.messages.map((message) => ownById.get(message.id) ?? message),
      ...own.filter(({ id }) => !isTheirs.has(id)),
    ],
  };
  const others = state.chats.filter((chat) => chat.id !== chatId);
  return { ...state, chats: sorted([...others, own.length > 0 ? merged : theirs]) };
}

// A chat that is there already stays unless the imported one is newer.
function withAdded(state: Chats, chats: readonly Chat[]): Chats {
  const byId = new Map(state.chats.map((chat) => [chat.id, chat]));
  for (const chat of chats) {
    const mine = byId.get(chat.id);
    if (!mine || mine.updatedAtMs < chat.updatedAtMs) byId.set(chat.id, chat);
  }
  return { ...state, chats: sorted([...byId.values()]) };
}

export function sorted(chats: Chat[]): Chat[] {
  return chats.sort((a, b) => b.updatedAtMs - a.updatedAtMs);
}

function putFirst(state: Chats, chat: Chat): Chats {
  return { chats: [chat, ...without(state, chat.id).chats], currentId: chat.id };
}

function without(state: Chats, chatId: string): Chats {
  return {
    chats: state.chats.filter((chat) => chat.id !== chatId),
    currentId: state.currentId === chatId ? null : state.currentId,
  };
}

function change(state: Chats, chatId: string, changed: (chat: Chat) => Chat): Chats {
  return {
    ...state, chats: state.chats.map((chat) => chat.id === chatId ? changed(chat) : chat),
  };
}

// An answer that has ended is not changed any more.
function changeAnswer(
  state: Chats, chatId: string, messageId: string,
  changed: (answer: AnswerMessage) => AnswerMessage,
): Chats {
  return change(state, chatId, (chat) => ({
    ...chat,
    messages: chat.messages.map((message) =>
      message.id === messageId && message.role === "assistant" && isOpen(message)
        ? changed(message) : message),
  }));
}

function titleOf(text: string): string {
  const line = text.replace(/\s+/g, " ");
  const characters = [...line];
  return characters.length <= kTitleCharacters
    ? line : `${characters.slice(0, kTitleCharacters - 1).join("").trimEnd()}…`;
}
