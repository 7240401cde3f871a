// One streamed POST /v1/chat/completions.
import { ApiFailure, cutOff, readError } from "./failure.ts";
import { callApi } from "./http.ts";
import { readEvents } from "./sse.ts";
import { readProgress } from "@weft/ui";
import type { Progress } from "@weft/ui";

export interface ChatTurn {
  role: "system" | "user" | "assistant";
  content: string;
}

export interface ChatRequest {
  model: string;
  turns: ChatTurn[];
  temperature: number | null;
  mostTokens: number | null;
  signal: AbortSignal;
  onAccepted: () => void; // the server has begun to answer: queue, prompt, then text
  onProgress: (progress: Progress) => void; // while there is no text
  onText: (text: string) => void;
  onThoughts: (text: string) => void; // what the model thinks before it answers
}

export interface ChatEnd {
  finishReason: string; // "stop" or "length"
  tokens: number | null; // as the server counts them
}

// Resolves at the answer's end. Throws an ApiFailure, or the signal's reason when it was stopped.
export async function streamChat(request: ChatRequest): Promise<ChatEnd> {
  const response = await callApi("/v1/chat/completions", {
    method: "POST",
    body: JSON.stringify({
      model: request.model,
      messages: request.turns,
      stream: true,
      stream_options: { include_usage: true },
      ...(request.temperature === null ? {} : { temperature: request.temperature }),
      ...(request.mostTokens === null ? {} : { max_tokens: request.mostTokens }),
    }),
    signal: request.signal,
  });
  request.onAccepted();
  const end: ChatEnd = { finishReason: "", tokens: null };
  try {
    const onComment = (text: string): void => {
      const progress = readProgress(text);
      if (progress) request.onProgress(progress);
    };
    for await (const { data } of readEvents(response, onComment)) {
      if (data === "[DONE]") return end;
      readChunk(JSON.parse(data), end, request);
    }
  } catch (error) {
    if (request.signal.aborted || error instanceof ApiFailure) throw error;
    throw cutOff();
  }
  // A stream that ends early is an answer that is not complete, whatever it holds.
  throw cutOff();
}

function readChunk(json: unknown, end: ChatEnd, request: ChatRequest): void {
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
}
