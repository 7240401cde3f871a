// A chat is a tree: a question that was edited and an answer that was made again stand beside what
// they replace. One path from the first question to a last message is shown.
//
//   question ── answer 1 ── next question ── its answer
//          └─── answer 2                                   shown: question, answer 2
import type { Chat, Message } from "./chat.ts";

// The path that ends at `leafId`, first message first.
export function pathTo(messages: readonly Message[], leafId: string): Message[] {
  const byId = new Map(messages.map((message) => [message.id, message]));
  const path: Message[] = [];
  let at = byId.get(leafId);
  while (at && path.length < messages.length) {
    path.push(at);
    at = at.parentId === null ? undefined : byId.get(at.parentId);
  }
  return path.reverse();
}

export function shownMessages(chat: Chat): Message[] {
  return pathTo(chat.messages, chat.leafId);
}

// The last message of the newest path through `messageId`.
export function leafBelow(messages: readonly Message[], messageId: string): string {
  let leaf = messageId;
  // Children come after their parents, so that one pass goes down.
  for (const message of messages) {
    if (message.parentId === leaf) leaf = newestChild(messages, leaf);
  }
  return leaf;
}

function newestChild(messages: readonly Message[], parentId: string): string {
  return messages.findLast((message) => message.parentId === parentId)?.id ?? parentId;
}

export interface Versions {
  index: number; // of the message among them
  ids: readonly string[]; // oldest first
}

// The message and those that stand beside it.
export function versionsOf(chat: Chat, message: Message): Versions {
  const ids = chat.messages
    .filter(({ parentId }) => parentId === message.parentId).map(({ id }) => id);
  return { index: ids.indexOf(message.id), ids };
}
