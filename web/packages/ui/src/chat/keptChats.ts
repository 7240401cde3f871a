// Chats as this browser keeps them and as files hold them, checked field by field: what is not ours
// is left out.
import { pathTo, shownMessages } from "./branches.ts";
import { readSettings } from "./chatSettings.ts";
import { isOpen, sorted } from "./chats.ts";
import type { Chat, Chats, Message, ToolCall } from "./chat.ts";

type Json = Partial<Record<string, unknown>>;

// A server keeps what it needs to make the same answer again for a day.
const kResumableMs = 23 * 3_600_000;

// Chats of an earlier visit. An answer that was being written when its page went away goes on where
// it can, and is stopped where it cannot.
export function readChats(saved: readonly unknown[], currentId: string | null, nowMs: number):
  Chats {
  const chats = saved.flatMap((chat) => readChat(chat, nowMs) ?? []);
  const current = chats.find((chat) => chat.id === currentId);
  return { chats: sorted(chats), currentId: current?.id ?? null };
}

// Gives null for what is no chat.
export function readChat(value: unknown, nowMs: number): Chat | null {
  if (!isObject(value)) return null;
  const { id, title, updatedAtMs, leafId } = value;
  if (typeof id !== "string" || typeof title !== "string" || typeof updatedAtMs !== "number") {
    return null;
  }
  const isResumable = nowMs - updatedAtMs < kResumableMs;
  const messages = readMessages(value["messages"]).map((message): Message =>
    message.role === "assistant" && isOpen(message) && !(isResumable && message.requestKey)
      ? { ...message, phase: "stopped" } : message);
  const last = messages.at(-1);
  if (!last) return null;
  const isLeaf = typeof leafId === "string" && pathTo(messages, leafId).length > 0;
  return {
    id, title, updatedAtMs, messages, leafId: isLeaf ? leafId : last.id,
    ...(value["settings"] === undefined ? {} : { settings: readSettings(value["settings"]) }),
  };
}

// The messages that are right, as long as the ones before them are there. Chats of before branches
// are one path.
function readMessages(value: unknown): Message[] {
  const messages: Message[] = [];
  const ids = new Set<string>();
  let previousId: string | null = null;
  for (const one of Array.isArray(value) ? value : []) {
    if (!isObject(one)) return [];
    const linked: Json = "parentId" in one ? one : { ...one, parentId: previousId };
    if (!isMessage(linked)) return [];
    const isPlaced = linked.parentId === null || ids.has(linked.parentId);
    if (!isPlaced || ids.has(linked.id)) return [];
    messages.push(linked);
    ids.add(linked.id);
    previousId = linked.id;
  }
  return messages;
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const kPhases: readonly unknown[] = ["waiting", "streaming", "done", "stopped", "failed"];

function isMessage(message: Json): message is Json & Message {
  const { id, text, parentId, role, failure, stats, thoughts, calls, callId, asked } = message;
  if (typeof id !== "string" || typeof text !== "string") return false;
  if (parentId !== null && typeof parentId !== "string") return false;
  if (role === "user") return true;
  if (role === "tool") return typeof callId === "string";
  return role === "assistant" && kPhases.includes(message["phase"]) &&
    isAbsentOr(thoughts, typeof thoughts === "string") &&
    isAbsentOr(calls, Array.isArray(calls) && calls.every(isCall)) &&
    isAbsentOr(failure, isObject(failure) && typeof failure["sentence"] === "string") &&
    isAbsentOr(stats, isObject(stats) && typeof stats["tokens"] === "number") &&
    isAbsentOr(asked, isObject(asked)) &&
    isAbsentOr(message["requestKey"], typeof message["requestKey"] === "string");
}

function isAbsentOr(value: unknown, isRight: boolean): boolean {
  return value === undefined || isRight;
}

function isCall(call: unknown): call is ToolCall {
  return isObject(call) && typeof call["id"] === "string" && typeof call["name"] === "string" &&
    typeof call["argumentsText"] === "string";
}

// A file of chats: {"weft_chats": 1, "chats": [...]}.
export function chatsFile(chats: readonly Chat[]): string {
  return JSON.stringify({ weft_chats: 1, chats }, null, 1);
}

// The chats of a file; a sentence where it holds none.
export function readChatsFile(text: string, nowMs: number): Chat[] | string {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return "This file is not JSON. Expected a file that “Export all” wrote.";
  }
  if (!isObject(json) || json["weft_chats"] !== 1 || !Array.isArray(json["chats"])) {
    return "This file holds no chats of weft. Expected a file that “Export all” wrote.";
  }
  const { chats } = readChats(json["chats"], null, nowMs);
  return chats.length > 0 ? chats : "None of the chats of this file could be read.";
}

// The path that is shown, for people.
export function chatMarkdown(chat: Chat): string {
  const kNames = { user: "You", assistant: "Answer", tool: "Result" };
  const parts = shownMessages(chat).map(({ role, text }) => `**${kNames[role]}**\n\n${text}\n`);
  return `# ${chat.title}\n\n${parts.join("\n")}`;
}

// The chats whose title or messages have all words of `query`, in any case.
export function searchChats(chats: readonly Chat[], query: string): Chat[] {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word !== "");
  return chats.filter((chat) => {
    const text = [chat.title, ...chat.messages.map((message) => message.text)]
      .join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}
