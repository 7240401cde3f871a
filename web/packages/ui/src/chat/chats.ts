// Conversations and what can happen to them: a pure reducer, so that every path of the page is one
// that a test can take.

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

export interface UserMessage {
  role: "user";
  id: string;
  text: string;
}

export interface AnswerMessage {
  role: "assistant";
  id: string;
  text: string;
  thoughts?: string; // what the model thought before, where it tells
  phase: AnswerPhase;
  stats?: AnswerStats;
  atLimit?: boolean; // ended by the length limit
  failure?: Failure;
}

export type Message = UserMessage | AnswerMessage;

export interface Chat {
  id: string;
  title: string; // the beginning of the first question
  updatedAtMs: number;
  messages: Message[];
}

// `chats` is newest first and holds no empty one; currentId null is a new, empty chat.
export interface Chats {
  chats: Chat[];
  currentId: string | null;
}

export interface AnswerEnd {
  phase: "done" | "stopped" | "failed";
  stats?: AnswerStats;
  atLimit?: boolean;
  failure?: Failure;
}

export type ChatAction =
  | { kind: "new" }
  | { kind: "open"; chatId: string }
  | { kind: "delete"; chatId: string }
  | { kind: "deleteAll" }
  // Adds a question and an answer that waits. `newId` makes ids.
  | { kind: "ask"; text: string; nowMs: number; newId: () => string }
  // Asks again what the last question, or the question `messageId` with another text, asked.
  | { kind: "askAgain"; messageId?: string; text?: string; nowMs: number; newId: () => string }
  | { kind: "part"; chatId: string; messageId: string; text: string }
  | { kind: "thought"; chatId: string; messageId: string; text: string }
  | { kind: "end"; chatId: string; messageId: string; end: AnswerEnd };

const kTitleCharacters = 60;
const kMostChats = 50;

export function noChats(): Chats {
  return { chats: [], currentId: null };
}

export function currentChat(state: Chats): Chat | null {
  return state.chats.find((chat) => chat.id === state.currentId) ?? null;
}

// The answer that is still being written, in any chat; at most one at a time.
export function openAnswer(state: Chats): { chat: Chat; answer: AnswerMessage } | null {
  for (const chat of state.chats) {
    const last = chat.messages.at(-1);
    if (last?.role === "assistant" && isOpen(last)) return { chat, answer: last };
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
      return {
        chats: state.chats.filter((chat) => chat.id !== action.chatId),
        currentId: state.currentId === action.chatId ? null : state.currentId,
      };
    case "deleteAll":
      return noChats();
    case "ask":
      return ask(state, action);
    case "askAgain":
      return askAgain(state, action);
    case "part":
      return changeAnswer(state, action.chatId, action.messageId, (answer) =>
        isOpen(answer) ? { ...answer, phase: "streaming", text: answer.text + action.text }
          : answer);
    case "thought":
      return changeAnswer(state, action.chatId, action.messageId, (answer) =>
        isOpen(answer)
          ? { ...answer, phase: "streaming", thoughts: (answer.thoughts ?? "") + action.text }
          : answer);
    case "end":
      return changeAnswer(state, action.chatId, action.messageId, (answer) =>
        isOpen(answer) ? { ...answer, ...action.end } : answer);
  }
}

function ask(state: Chats, action: Extract<ChatAction, { kind: "ask" }>): Chats {
  const text = action.text.trim();
  if (text === "" || openAnswer(state)) return state;
  const chat = currentChat(state);
  const added: Message[] = [
    { role: "user", id: action.newId(), text },
    { role: "assistant", id: action.newId(), text: "", phase: "waiting" },
  ];
  return putFirst(state, {
    id: chat?.id ?? action.newId(),
    title: chat?.title ?? titleOf(text),
    updatedAtMs: action.nowMs,
    messages: [...(chat?.messages ?? []), ...added],
  });
}

function askAgain(state: Chats, action: Extract<ChatAction, { kind: "askAgain" }>): Chats {
  const chat = currentChat(state);
  if (!chat || openAnswer(state)) return state;
  const questions = chat.messages.filter((message) => message.role === "user");
  const question = action.messageId === undefined
    ? questions.at(-1) : questions.find((message) => message.id === action.messageId);
  const text = (action.text ?? question?.text ?? "").trim();
  if (!question || text === "") return state;
  const kept = chat.messages.slice(0, chat.messages.indexOf(question));
  return putFirst(state, {
    ...chat,
    title: kept.length === 0 ? titleOf(text) : chat.title,
    updatedAtMs: action.nowMs,
    messages: [
      ...kept,
      { role: "user", id: question.id, text },
      { role: "assistant", id: action.newId(), text: "", phase: "waiting" },
    ],
  });
}

function putFirst(state: Chats, chat: Chat): Chats {
  const others = state.chats.filter((other) => other.id !== chat.id);
  return { chats: [chat, ...others].slice(0, kMostChats), currentId: chat.id };
}

function changeAnswer(
  state: Chats, chatId: string, messageId: string,
  change: (answer: AnswerMessage) => AnswerMessage,
): Chats {
  return {
    ...state,
    chats: state.chats.map((chat) => chat.id !== chatId ? chat : {
      ...chat,
      messages: chat.messages.map((message) =>
        message.id === messageId && message.role === "assistant" ? change(message) : message),
    }),
  };
}

function titleOf(text: string): string {
  const line = text.replace(/\s+/g, " ");
  const characters = [...line];
  return characters.length <= kTitleCharacters
    ? line : `${characters.slice(0, kTitleCharacters - 1).join("").trimEnd()}…`;
}

// Saved chats, checked field by field: what is not ours is left out. An answer that was being
// written when its page went away is stopped.
export function readChats(saved: readonly unknown[], currentId: string | null): Chats {
  const chats = saved.filter(isChat).map((chat) => ({
    ...chat,
    messages: chat.messages.map((message): Message =>
      message.role === "assistant" && isOpen(message) ? { ...message, phase: "stopped" } : message),
  }));
  chats.sort((a, b) => b.updatedAtMs - a.updatedAtMs);
  const current = chats.find((chat) => chat.id === currentId);
  return { chats: chats.slice(0, kMostChats), currentId: current?.id ?? null };
}

function isChat(value: unknown): value is Chat {
  if (typeof value !== "object" || value === null) return false;
  const chat = value as Partial<Record<keyof Chat, unknown>>;
  return typeof chat.id === "string" && typeof chat.title === "string" &&
    typeof chat.updatedAtMs === "number" && Array.isArray(chat.messages) &&
    chat.messages.length > 0 && chat.messages.every(isMessage);
}

const kPhases: readonly unknown[] = ["waiting", "streaming", "done", "stopped", "failed"];

function isMessage(value: unknown): value is Message {
  if (typeof value !== "object" || value === null) return false;
  const message = value as Partial<Record<string, unknown>>;
  if (typeof message["id"] !== "string" || typeof message["text"] !== "string") return false;
  if (message["role"] === "user") return true;
  const failure = message["failure"] as Partial<Failure> | undefined;
  const stats = message["stats"] as Partial<AnswerStats> | undefined;
  const { thoughts } = message;
  return message["role"] === "assistant" && kPhases.includes(message["phase"]) &&
    (thoughts === undefined || typeof thoughts === "string") &&
    (failure === undefined || typeof failure?.sentence === "string") &&
    (stats === undefined || typeof stats?.tokens === "number");
}
