// What a chat is made of. chat/chats.ts says what can happen to chats, chat/branches.ts how their
// messages hang together.
import type { ChatSettings } from "./chatSettings.ts";

export type AnswerPhase = "waiting" | "streaming" | "done" | "stopped" | "failed";

export interface AnswerStats {
  firstTokenMs: number; // from sending to the first text
  tokens: number;
  tokensPerSecond: number; // of the tokens after the first; 0 with fewer than two
}

export interface Failure {
  sentence: string; // what happened
  advice: string; // what to do; may be empty
}

// A function that the model wants called, with arguments as JSON text.
export interface ToolCall {
  id: string;
  name: string;
  argumentsText: string;
}

interface MessageBase {
  id: string;
  parentId: string | null; // null: a first question
  text: string;
}

export interface UserMessage extends MessageBase {
  role: "user";
}

// What a call gave, written by the user.
export interface ToolMessage extends MessageBase {
  role: "tool";
  callId: string;
}

export interface AnswerMessage extends MessageBase {
  role: "assistant";
  phase: AnswerPhase;
  thoughts?: string; // what the model thought before, where it tells
  thoughtMs?: number; // how long that took
  calls?: ToolCall[];
  stats?: AnswerStats;
  atLimit?: boolean; // ended by the length limit
  failure?: Failure;
  // What the request was made with. The same request with the same key gives the same answer.
  requestKey?: string;
  asked?: ChatSettings;
}

export type Message = UserMessage | ToolMessage | AnswerMessage;

export interface Chat {
  id: string;
  title: string; // the beginning of the first question, or what the user called it
  updatedAtMs: number;
  messages: Message[]; // all of them, each behind its parent
  leafId: string; // the last message of the path that is shown
  settings?: ChatSettings; // its own; else those of new chats
}

// `chats` is newest first and holds no empty one; currentId null is a new, empty chat.
export interface Chats {
  chats: Chat[];
  currentId: string | null;
}
