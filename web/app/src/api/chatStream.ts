// One streamed POST /v1/chat/completions.
import { ApiFailure, cutOff, readError } from "./failure.ts";
import { callApi } from "./http.ts";
import { readEvents } from "./sse.ts";
import { readProgress, toolsProblem } from "@weft/ui";
import type { ChatSettings, Progress, ToolCall } from "@weft/ui";

export interface ChatTurn {
  role: "system" | "user" | "assistant" | "tool";
  content: string;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}

export interface ChatRequest {
  model: string;
  settings: ChatSettings;
  key: string; // of the request: with the same one the server gives the same answer; "": none
  turns: ChatTurn[];
  signal: AbortSignal;
  onAccepted: () => void; // the server has begun to answer: queue, prompt, then text
  onProgress: (progress: Progress) => void; // while there is no text
  onText: (text: string) => void;
  onThoughts: (text: string) => void; // what the model thinks before it answers
  onCalls: (calls: ToolCall[]) => void; // all that it calls so far
}

export interface ChatEnd {
  finishReason: string; // "stop", "length" or "tool_calls"
  tokens: number | null; // as the server counts them
}

// Resolves at the answer's end. Throws an ApiFailure, or the signal's reason when it was stopped.
export async function streamChat(request: ChatRequest): Promise<ChatEnd> {
  const response = await callApi("/v1/chat/completions", {
    method: "POST",
    body: JSON.stringify(bodyOf(request)),
    ...(request.key === "" ? {} : { headers: { "Idempotency-Key": request.key } }),
    signal: request.signal,
  });
  request.onAccepted();
  const end: ChatEnd = { finishReason: "", tokens: null };
  const calls = new CallReader();
  try {
    const onComment = (text: string): void => {
      const progress = readProgress(text);
      if (progress) request.onProgress(progress);
    };
    for await (const { data } of readEvents(response, onComment)) {
      if (data === "[DONE]") return end;
      readChunk(JSON.parse(data), end, calls, request);
    }
  } catch (error) {
    if (request.signal.aborted || error instanceof ApiFailure) throw error;
    throw cutOff();
  }
  // A stream that ends early is an answer that is not complete, whatever it holds.
  throw cutOff();
}

function bodyOf({ model, turns, settings }: ChatRequest): Record<string, unknown> {
  const { temperature, topP, mostTokens, seed, tools } = settings;
  return {
    model, messages: turns, stream: true, stream_options: { include_usage: true },
    ...(temperature === null ? {} : { temperature }),
    ...(topP === null ? {} : { top_p: topP }),
    ...(mostTokens === null ? {} : { max_tokens: mostTokens }),
    ...(seed === null ? {} : { seed }),
    ...(tools.trim() === "" || toolsProblem(tools) !== ""
      ? {} : { tools: JSON.parse(tools) as unknown }),
  };
}

// Puts calls together: a chunk has a piece of one, by its place among them.
class CallReader {
  readonly #calls: ToolCall[] = [];

  // Whether anything came.
  add(delta: object): boolean {
    const pieces = "tool_calls" in delta && Array.isArray(delta.tool_calls) ? delta.tool_calls : [];
    for (const piece of pieces as unknown[]) this.#addPiece(piece);
    return pieces.length > 0;
  }

  get calls(): ToolCall[] {
    return this.#calls.map((call) => ({ ...call }));
  }

  #addPiece(piece: unknown): void {
    if (typeof piece !== "object" || piece === null) return;
    const { index, id, function: called } = piece as Partial<Record<string, unknown>>;
    const at = typeof index === "number" ? Math.min(index, this.#calls.length) : 0;
    const call = (this.#calls[at] ??= { id: "", name: "", argumentsText: "" });
    if (typeof id === "string") call.id = id;
    if (typeof called !== "object" || called === null) return;
    if ("name" in called && typeof called.name === "string") call.name += called.name;
    if ("arguments" in called && typeof called.arguments === "string") {
      call.argumentsText += called.arguments;
    }
  }
}

function readChunk(json: unknown, end: ChatEnd, calls: CallReader, request: ChatRequest): void {
  const failure = readError(200, json);
  if (failure) throw failure;
  if (typeof json !== "object" || json === null) return;
  if ("usage" in json && typeof json.usage === "object" && json.usage !== null) {
    const { usage } = json;
    if ("completion_tokens" in usage && typeof usage.completion_tokens === "number") {
      end.tokens = usage.completion_tokens;
    }
  }
  const choices = "choices" in json && Array.isArray(json.choices) ? json.choices : [];
  const choice: unknown = choices[0];
  if (typeof choice !== "object" || choice === null) return;
  if ("finish_reason" in choice && typeof choice.finish_reason === "string") {
    end.finishReason = choice.finish_reason;
  }
  const delta: unknown = "delta" in choice ? choice.delta : null;
  if (typeof delta !== "object" || delta === null) return;
  const textOf = (value: unknown): string => typeof value === "string" ? value : "";
  const text = textOf("content" in delta ? delta.content : "");
  const thoughts = textOf("reasoning_content" in delta ? delta.reasoning_content : "");
  if (thoughts !== "") request.onThoughts(thoughts);
  if (text !== "") request.onText(text);
  if (calls.add(delta)) request.onCalls(calls.calls);
}
