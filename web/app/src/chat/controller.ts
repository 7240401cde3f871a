// The chat's state and what its buttons do. One answer is written at a time; it goes on while
// another chat is looked at.
import { computed, effect, signal } from "@preact/signals";
import {
  accepted, currentChat, openAnswer, readSettings, reduceChats, startWaiting, waitingText,
} from "@weft/ui";
import type { AnswerEnd, ChatAction, ChatSettings, Waiting } from "@weft/ui";
import { streamChat } from "../api/chatStream.ts";
import type { ChatTurn } from "../api/chatStream.ts";
import { ApiFailure } from "../api/failure.ts";
import { getJson } from "../api/http.ts";
import { swarmPicture } from "../api/swarmFeed.ts";
import { loadJson, randomId, save } from "../browser/storage.ts";
import { ChatStorage, loadChats } from "./storage.ts";
import { AnswerStopwatch } from "./stopwatch.ts";

const kSettingsKey = "weft.chatSettings";
// Pieces that come faster than this are drawn together.
const kDrawMs = 40;
const kStoreMs = 500;

const loaded = loadChats();
const storage = new ChatStorage(loaded);

export const chats = signal(loaded);
export const settings = signal<ChatSettings>(readSettings(loadJson(kSettingsKey)));
export const draft = signal("");
const waiting = signal<Waiting | null>(null);

export const shownChat = computed(() => currentChat(chats.value));
export const isAnswering = computed(() => openAnswer(chats.value) !== null);
export const waitingWords = computed(() =>
  waiting.value ? waitingText(waiting.value, swarmPicture.value) : "");

let current: AbortController | null = null;

export function dispatch(action: ChatAction): void {
  chats.value = reduceChats(chats.value, action);
}

let storeTimer: ReturnType<typeof setTimeout> | undefined;
effect(() => {
  void chats.value;
  storeTimer ??= setTimeout(storeNow, kStoreMs);
});

function storeNow(): void {
  clearTimeout(storeTimer);
  storeTimer = undefined;
  storage.store(chats.peek());
}
addEventListener("pagehide", storeNow);

export function changeSettings(next: ChatSettings): void {
  settings.value = next;
  save(kSettingsKey, JSON.stringify(next));
}

export function send(): void {
  const text = draft.value;
  if (text.trim() === "" || isAnswering.value) return;
  draft.value = "";
  dispatch({ kind: "ask", text, nowMs: Date.now(), newId: randomId });
  void answer();
}

export function askAgain(messageId?: string, text?: string): void {
  if (isAnswering.value) return;
  dispatch({
    kind: "askAgain",
    ...(messageId === undefined ? {} : { messageId }),
    ...(text === undefined ? {} : { text }),
    nowMs: Date.now(),
    newId: randomId,
  });
  void answer();
}

export function stop(): void {
  current?.abort();
}

export function newChat(): void {
  dispatch({ kind: "new" });
}

// A chat that is being answered is stopped first: nobody could see its end.
export function deleteChat(chatId: string): void {
  if (openAnswer(chats.value)?.chat.id === chatId) stop();
  dispatch({ kind: "delete", chatId });
}

export function deleteAllChats(): void {
  stop();
  dispatch({ kind: "deleteAll" });
}

// What the model is to read: system prompt and the conversation up to the last question. Answers
// that failed without a word say nothing.
function turnsOf(messages: readonly { role: "user" | "assistant"; text: string }[]): ChatTurn[] {
  const { systemPrompt } = settings.value;
  const turns: ChatTurn[] = [];
  if (systemPrompt.trim() !== "") turns.push({ role: "system", content: systemPrompt.trim() });
  for (const { role, text } of messages) if (text !== "") turns.push({ role, content: text });
  return turns;
}

// Fills the open answer.
async function answer(): Promise<void> {
  const open = openAnswer(chats.value);
  if (!open) return;
  const at = { chatId: open.chat.id, messageId: open.answer.id };
  const stopwatch = new AnswerStopwatch(performance.now());
  const pieces = new PieceBuffer((text) => dispatch({ kind: "part", ...at, text }));
  const thoughts = new PieceBuffer((text) => dispatch({ kind: "thought", ...at, text }));
  current = new AbortController();
  const { signal: stopped } = current;
  waiting.value = startWaiting();
  let end: AnswerEnd;
  try {
    const { finishReason, tokens } = await streamChat({
      model: await modelName(stopped),
      turns: turnsOf(open.chat.messages),
      temperature: settings.value.temperature,
      mostTokens: settings.value.mostTokens,
      signal: stopped,
      onAccepted: () => {
        if (waiting.value) waiting.value = accepted(waiting.value);
      },
      onProgress: (progress) => {
        if (waiting.value) waiting.value = { ...waiting.value, progress };
      },
      onText: (text) => {
        stopwatch.onText(performance.now());
        pieces.add(text);
      },
      onThoughts: (text) => {
        stopwatch.onText(performance.now());
        thoughts.add(text);
      },
    });
    const stats = stopwatch.stats(tokens);
    end = { phase: "done", ...(stats ? { stats } : {}), atLimit: finishReason === "length" };
  } catch (error) {
    end = endAfter(error, stopped.aborted, stopwatch);
  }
  thoughts.flush();
  pieces.flush();
  waiting.value = null;
  dispatch({ kind: "end", ...at, end });
}

function endAfter(error: unknown, wasStopped: boolean, stopwatch: AnswerStopwatch): AnswerEnd {
  const stats = stopwatch.stats(null);
  const withStats = stats ? { stats } : {};
  if (wasStopped) return { phase: "stopped", ...withStats };
  const failure = error instanceof ApiFailure
    ? { sentence: error.sentence, advice: error.advice }
    : { sentence: "Something unexpected happened in this page.", advice: "Reload it." };
  return { phase: "failed", ...withStats, failure };
}

async function modelName(stopped: AbortSignal): Promise<string> {
  const known = swarmPicture.value?.model.name;
  if (known) return known;
  const json = await getJson("/v1/models", { signal: stopped });
  const hasList = typeof json === "object" && json !== null && "data" in json;
  const first: unknown = hasList && Array.isArray(json.data) ? json.data[0] : null;
  return typeof first === "object" && first !== null && "id" in first &&
    typeof first.id === "string" ? first.id : "";
}

// Hands pieces on together, a few times a second; timers also run in hidden tabs, frames do not.
class PieceBuffer {
  readonly #emit: (text: string) => void;
  #text = "";
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(emit: (text: string) => void) {
    this.#emit = emit;
  }

  add(text: string): void {
    this.#text += text;
    this.#timer ??= setTimeout(() => this.flush(), kDrawMs);
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const text = this.#text;
    this.#text = "";
    if (text !== "") this.#emit(text);
  }
}
