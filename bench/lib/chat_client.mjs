// A client of the OpenAI API that streams greedy answers and notes when each piece of text came,
// and prompts of wanted lengths.
import http from "node:http";
import https from "node:https";

const kWords = ("river lantern fox morning harbour bread window garden silver quiet letter " +
  "bridge winter apple stone candle market forest music wheel paper cloud basket mountain"
).split(" ");

// The same text for the same number; different numbers differ from the first word on.
export function textOf(number, wordCount) {
  const words = Array.from({ length: wordCount }, (_, i) =>
    kWords[(number * 7 + i * (1 + (number % 5)) + Math.floor(i / kWords.length)) % kWords.length]);
  return words.join(" ");
}

// Streams one answer. onText(text, atMs) is told of every piece. Resolves to {status, error,
// finish, usage}: `status` is HTTP's, `finish` null where the stream broke off.
// `more`: headers. `from`: the address that it is asked from.
export function streamChat(origin, request, onText, signal, more = {}, from = undefined) {
  const body = JSON.stringify({ temperature: 0, ignore_eos: true, stream: true,
    stream_options: { include_usage: true }, ...request });
  const result = { status: 0, error: null, finish: null, usage: null };
  return new Promise((resolve) => {
    const fail = (error) => {
      result.error ??= error.message;
      resolve(result);
    };
    const key = process.env.WEFT_API_KEY;
    const headers = { "Content-Type": "application/json", ...more,
      ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    const url = `${origin}/v1/chat/completions`;
    const { request: open } = url.startsWith("https:") ? https : http;
    const options = { method: "POST", headers, signal,
      ...(from ? { localAddress: from, agent: false } : {}) };
    const sent = open(url, options, (response) => {
      result.status = response.statusCode;
      let pending = "";
      response.setEncoding("utf8");
      response.on("data", (text) => {
        const atMs = performance.now();
        const events = (pending + text).split("\n\n");
        pending = events.pop();
        for (const event of events) readEvent(event, result, (piece) => onText(piece, atMs));
      });
      response.on("end", () => {
        if (result.status !== 200) result.error = pending;
        resolve(result);
      });
      response.on("error", fail);
    });
    sent.on("error", fail);
    sent.end(body);
  });
}

function readEvent(text, result, onText) {
  const event = text.replace(/^id: \d+\n/, "");
  if (!event.startsWith("data: ") || event === "data: [DONE]") return;
  const data = JSON.parse(event.slice("data: ".length));
  if (data.error) result.error = data.error.message;
  result.usage = data.usage ?? result.usage;
  const [choice] = data.choices ?? [];
  result.finish = choice?.finish_reason ?? result.finish;
  if (choice?.delta?.content) onText(choice.delta.content);
}

// A whole answer with its times: {text, usage, sentAt, times}. Throws unless it ends well.
export async function askQuietly(origin, request) {
  const times = [];
  let text = "";
  const sentAt = performance.now();
  const result = await streamChat(origin, request, (piece, atMs) => {
    text += piece;
    times.push(atMs);
  });
  if (result.error || !result.finish) throw new Error(`no answer: ${JSON.stringify(result)}`);
  return { text, usage: result.usage, sentAt, times };
}

export function messagesOf(content) {
  return [{ role: "user", content }];
}

async function promptTokens(origin, model, content) {
  const { usage } = await askQuietly(origin, { model, messages: messagesOf(content),
    max_tokens: 1 });
  return usage.prompt_tokens;
}

// A message whose prompt, with the template around it, has at least `wanted` tokens and hardly
// more. Asks the server for a few prompts' lengths.
export async function promptOf(origin, model, number, wanted) {
  let words = 4;
  let tokens = await promptTokens(origin, model, textOf(number, words));
  let [enough, short] = [Infinity, 0];
  for (let tries = 0; tries < 12; ++tries) {
    if (tokens >= wanted) enough = Math.min(enough, words);
    else short = Math.max(short, words);
    if (tokens === wanted || enough - short <= 1) break;
    // Words are of about the same length in tokens.
    const guess = Math.round((words * wanted) / tokens) - (tokens > wanted ? 1 : 0);
    words = Math.min(Math.max(guess, short + 1), enough - 1);
    tokens = await promptTokens(origin, model, textOf(number, words));
  }
  return textOf(number, tokens >= wanted ? words : enough);
}
