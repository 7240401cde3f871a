// Writes the answers that are open: asks, hands on what comes, and asks again with the same key
// when the connection was cut or the page was reloaded. The server then gives the same answer from
// its beginning, of which only what is new is added.
import { signal } from "@preact/signals";
import type { ReadonlySignal } from "@preact/signals";
import {
  Replay, accepted, defaultSettings, isOpen, openAnswerOf, openAnswers, pathTo, startWaiting,
} from "@weft/ui";
import type {
  AnswerEnd, AnswerMessage, AnswerPart, Chat, ChatAction, Chats, Message, OpenAnswer, ToolCall,
  Waiting,
} from "@weft/ui";
import { streamChat } from "../api/chatStream.ts";
import type { ChatEnd, ChatTurn } from "../api/chatStream.ts";
import { ApiFailure } from "../api/failure.ts";
import { alone } from "../browser/alone.ts";
import { PieceBuffer } from "./pieceBuffer.ts";
import { AnswerStopwatch } from "./stopwatch.ts";
import { modelName } from "./models.ts";

// Between attempts after a cut; about a minute of them.
const kRetriesMs = [300, 1000, 2000, 4000, 8000, 10_000, 10_000, 10_000, 10_000];

interface RunnerParts {
  chats: ReadonlySignal<Chats>;
  dispatch: (action: ChatAction) => void;
  refresh: (chatId: string) => void; // takes up what other tabs stored
  storeNow: () => void;
}

interface CutWaiting extends Waiting {
  isCut: boolean;
}

export class AnswerRunner {
  // Of the answers that this tab writes.
  readonly waitings = signal<ReadonlyMap<string, CutWaiting>>(new Map());
  readonly ownIds = new Set<string>();
  readonly #parts: RunnerParts;
  readonly #stops = new Map<string, AbortController>();

  constructor(parts: RunnerParts) {
    this.#parts = parts;
  }

  startOpen(chats: Chats): void {
    for (const open of openAnswers(chats)) {
      if (!this.#stops.has(open.answer.id)) void this.#start(open);
    }
  }

  stop(chat: Chat): void {
    const answer = openAnswerOf(chat);
    if (!answer) return;
    this.#stops.get(answer.id)?.abort();
    // Another tab may write it: that one hears of the end.
    if (!this.ownIds.has(answer.id)) this.#end(chat.id, answer.id, { phase: "stopped" });
  }

  // Another tab stopped, deleted or finished what this one writes: what it says counts.
  stopAsElsewhere(chatId: string, theirs: Chat | null): void {
    const mine = this.#parts.chats.peek().chats.find(({ id }) => id === chatId);
    const answer = openAnswerOf(mine ?? null);
    if (!answer || !this.ownIds.has(answer.id)) return;
    const message = theirs?.messages.find(({ id }) => id === answer.id);
    const isStopped = message?.role === "assistant" && !isOpen(message);
    if (theirs && !isStopped) return;
    this.ownIds.delete(answer.id);
    this.#stops.get(answer.id)?.abort();
  }

  async #start({ chat, answer }: OpenAnswer): Promise<void> {
    const stop = new AbortController();
    this.#stops.set(answer.id, stop);
    const isNew = answer.text === "" && !answer.thoughts && answer.phase === "waiting";
    await alone(`weft-answer-${answer.id}`, stop.signal, async () => {
      if (!isNew) this.#parts.refresh(chat.id);
      const now = openAnswers(this.#parts.chats.peek())
        .find((open) => open.answer.id === answer.id);
      if (!now) return;
      this.ownIds.add(answer.id);
      const writer = new AnswerWriter(now, this, stop.signal);
      this.#end(chat.id, answer.id, await writer.run());
      this.#parts.storeNow(); // before another tab gets its turn
      this.ownIds.delete(answer.id);
    });
    this.wait(answer.id, null);
    this.#stops.delete(answer.id);
  }

  #end(chatId: string, messageId: string, end: AnswerEnd): void {
    this.#parts.dispatch({ kind: "end", chatId, messageId, end });
  }

  add(chatId: string, messageId: string, part: AnswerPart): void {
    this.#parts.dispatch({ kind: "part", chatId, messageId, part });
  }

  wait(messageId: string, change: ((waiting: CutWaiting) => CutWaiting) | null): void {
    const waitings = new Map(this.waitings.peek());
    if (!change) waitings.delete(messageId);
    else {
      waitings.set(messageId,
        change(waitings.get(messageId) ?? { ...startWaiting(), isCut: false }));
    }
    this.waitings.value = waitings;
  }
}

class AnswerWriter {
  readonly #chat: Chat;
  readonly #answer: AnswerMessage;
  readonly #runner: AnswerRunner;
  readonly #stopped: AbortSignal;
  #written: { text: string; thoughts: string };
  #wasAccepted: boolean;
  #isMoving = false; // to another server

  constructor({ chat, answer }: OpenAnswer, runner: AnswerRunner, stopped: AbortSignal) {
    this.#chat = chat;
    this.#answer = answer;
    this.#runner = runner;
    this.#stopped = stopped;
    this.#written = { text: answer.text, thoughts: answer.thoughts ?? "" };
    this.#wasAccepted = answer.phase === "streaming";
  }

  async run(): Promise<AnswerEnd> {
    const stopwatch = new AnswerStopwatch(performance.now());
    let isAgain = this.#wasAccepted;
    for (let attempt = 0; ; attempt += 1) {
      const before = this.#written.text.length;
      try {
        const { finishReason, tokens } = await this.#ask(stopwatch);
        const stats = stopwatch.stats(tokens, isAgain);
        return { phase: "done", ...(stats ? { stats } : {}), atLimit: finishReason === "length" };
      } catch (error) {
        if (this.#written.text.length > before) attempt = 0;
        const retryMs = kRetriesMs[attempt];
        const mayGoOn = this.#wasAccepted && isPassing(error, isAgain);
        if (this.#stopped.aborted || !mayGoOn || retryMs === undefined) {
          return endAfter(error, this.#stopped.aborted, stopwatch, isAgain);
        }
        isAgain = true;
        this.#wait((waiting) => ({ ...waiting, isCut: true }));
        await pause(retryMs, this.#stopped);
      }
    }
  }

  // One request, from its beginning.
  async #ask(stopwatch: AnswerStopwatch): Promise<ChatEnd> {
    const replay = new Replay(this.#written, (part) => this.#add(part));
    const buffer = new PieceBuffer((text, thoughts) => replay.add(text, thoughts));
    const asked = this.#answer.asked ?? defaultSettings();
    this.#wait((waiting) => ({ ...waiting, ...startWaiting() }));
    try {
      const end = await streamChat({
        model: asked.model || await modelName(this.#stopped),
        settings: asked,
        key: this.#answer.requestKey ?? "",
        turns: turnsOf(pathTo(this.#chat.messages, this.#answer.id).slice(0, -1),
          asked.systemPrompt),
        signal: this.#stopped,
        onAccepted: () => {
          this.#wasAccepted = true;
          this.#wait((waiting) => ({ ...accepted(waiting), isCut: false }));
        },
        onProgress: (progress) => {
          this.#isMoving = progress.kind === "moving";
          this.#wait((waiting) => ({ ...waiting, progress }));
        },
        onText: (text) => {
          this.#noteMoved();
          this.#noteText(stopwatch);
          buffer.add(text, "");
        },
        onThoughts: (text) => {
          this.#noteMoved();
          stopwatch.onThoughts(performance.now());
          buffer.add("", text);
        },
        onCalls: (calls: ToolCall[]) => {
          this.#noteMoved();
          this.#noteText(stopwatch);
          this.#add({ kind: "calls", calls });
        },
      });
      buffer.flush();
      replay.finish();
      return end;
    } finally {
      buffer.flush();
    }
  }

  // Something came: it is there.
  #noteMoved(): void {
    if (!this.#isMoving) return;
    this.#isMoving = false;
    this.#wait((waiting) => ({ ...waiting, progress: null }));
  }

  #noteText(stopwatch: AnswerStopwatch): void {
    const thoughtMs = stopwatch.onText(performance.now());
    if (thoughtMs !== null) this.#add({ kind: "thoughtTime", durationMs: thoughtMs });
  }

  #add(part: AnswerPart): void {
    if (part.kind === "text") this.#written.text += part.text;
    if (part.kind === "thought") this.#written.thoughts += part.text;
    if (part.kind === "again") this.#written = { text: part.text, thoughts: part.thoughts };
    this.#runner.add(this.#chat.id, this.#answer.id, part);
  }

  #wait(change: (waiting: CutWaiting) => CutWaiting): void {
    this.#runner.wait(this.#answer.id, change);
  }
}

// What the model is to read: system prompt and the conversation up to the last question. Answers
// that failed without a word say nothing.
function turnsOf(messages: readonly Message[], systemPrompt: string): ChatTurn[] {
  const turns: ChatTurn[] = [];
  if (systemPrompt.trim() !== "") turns.push({ role: "system", content: systemPrompt.trim() });
  for (const message of messages) {
    const { role, text } = message;
    if (role === "user") turns.push({ role, content: text });
    if (role === "tool") turns.push({ role, content: text, tool_call_id: message.callId });
    if (role === "assistant" && (text !== "" || message.calls)) {
      turns.push({ role, content: text, ...callsOf(message) });
    }
  }
  return turns;
}

function callsOf({ calls }: AnswerMessage): Pick<ChatTurn, "tool_calls"> {
  if (!calls) return {};
  return {
    tool_calls: calls.map(({ id, name, argumentsText }) =>
      ({ id, type: "function", function: { name, arguments: argumentsText } })),
  };
}

// Whether asking again may help: the connection was cut, or the server that came back is not ready.
function isPassing(error: unknown, isAgain: boolean): boolean {
  if (!(error instanceof ApiFailure)) return false;
  return error.status === 0 || (isAgain && [429, 502, 503, 504].includes(error.status));
}

function endAfter(
  error: unknown, wasStopped: boolean, stopwatch: AnswerStopwatch, isAgain: boolean,
): AnswerEnd {
  const stats = stopwatch.stats(null, isAgain);
  const withStats = stats ? { stats } : {};
  if (wasStopped) return { phase: "stopped", ...withStats };
  const failure = error instanceof ApiFailure
    ? { sentence: error.sentence, advice: error.advice }
    : { sentence: "Something unexpected happened in this page.", advice: "Reload it." };
  return { phase: "failed", ...withStats, failure };
}

function pause(durationMs: number, stopped: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, durationMs);
    stopped.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
