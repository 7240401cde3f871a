// What went wrong with a request, for people: what happened, and what to do.
import type { Failure } from "@weft/ui";

export class ApiFailure extends Error implements Failure {
  readonly status: number; // 0: no answer came
  readonly sentence: string;
  readonly advice: string;

  constructor(status: number, sentence: string, advice: string) {
    super(sentence);
    this.status = status;
    this.sentence = sentence;
    this.advice = advice;
  }
}

const kAgain = "Press “Answer again” in a moment.";

export function unreachable(): ApiFailure {
  return new ApiFailure(0, "The server does not answer.",
    "Check that weft is running and that this device is connected, then try again.");
}

export function cutOff(): ApiFailure {
  return new ApiFailure(0, "The connection was lost before the answer was complete.",
    "Press “Answer again” when the swarm is back.");
}

// OpenAI's error object, in the body of an answer or in an event of a stream.
export function readError(status: number, json: unknown): ApiFailure | null {
  if (typeof json !== "object" || json === null || !("error" in json)) return null;
  const { error } = json;
  if (typeof error !== "object" || error === null) return null;
  const message = "message" in error && typeof error.message === "string" ? error.message : "";
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  const type = "type" in error && typeof error.type === "string" ? error.type : "";
  return new ApiFailure(status, asSentence(message), adviceFor(status, type, code));
}

export async function failureOf(response: Response): Promise<ApiFailure> {
  let text = "";
  try {
    text = await response.text();
    const failure = readError(response.status, JSON.parse(text));
    if (failure) return failure;
  } catch {
    // No JSON: a sentence, perhaps.
  }
  const isSentence = response.headers.get("content-type")?.startsWith("text/plain") === true;
  const sentence = isSentence && text.trim() !== "" ? asSentence(text.trim().slice(0, 500))
    : `The server answered with status ${response.status}.`;
  return new ApiFailure(response.status, sentence, adviceFor(response.status, "", ""));
}

function adviceFor(status: number, type: string, code: string): string {
  if (code === "model_not_found") {
    return "The server was started with another model: reload this page.";
  }
  if (code === "context_length_exceeded") return ""; // the server's sentence says it
  if (status === 503 || type === "overloaded_error") {
    return "Wait until the swarm is up (see its picture), then press “Answer again”.";
  }
  if (status === 504 || type === "timeout_error") return kAgain;
  if (status >= 500 || type === "server_error") {
    return `${kAgain} If it happens again, the log of weft says more.`;
  }
  return "";
}

function asSentence(message: string): string {
  const text = message.trim();
  if (text === "") return "The server gave no reason.";
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
