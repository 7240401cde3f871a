// The client of a cell: one greedy streamed request after another, prompts in turn, every token's
// time, every text compared with the quiet swarm's while it comes.
import { messagesOf, streamChat } from "../lib/chat_client.mjs";
import { sleep } from "../lib/weft_processes.mjs";

// Between a request that failed and the next one.
const kRetryMs = 100;

export class Client {
  // {promptTokens, sentAt, tokens: [time], endedAt, failed, refused, wrongAt, error}
  requests = [];
  #stopping = false;
  #running = null;
  #abort = new AbortController();

  // onRequest is awaited before each request.
  constructor(origin, modelName, prompts, answerTokens, onRequest) {
    Object.assign(this, { origin, modelName, prompts, answerTokens, onRequest });
  }

  start() {
    this.#running = this.#run();
  }

  async #run() {
    for (let number = 0; !this.#stopping; ++number) {
      await this.onRequest();
      const request = await this.#ask(this.prompts[number % this.prompts.length]);
      if (request.failed) await sleep(kRetryMs);
    }
  }

  async #ask({ content, text: expected, promptTokens }) {
    const request = { promptTokens, sentAt: performance.now(), tokens: [], endedAt: null,
      failed: false, refused: false, wrongAt: null, error: null };
    this.requests.push(request);
    let text = "";
    const onText = (piece, atMs) => {
      request.tokens.push(atMs);
      if (request.wrongAt === null && !expected.startsWith(piece, text.length)) {
        request.wrongAt = text.length;
      }
      text += piece;
    };
    const result = await streamChat(this.origin, { model: this.modelName,
      messages: messagesOf(content), max_tokens: this.answerTokens }, onText, this.#abort.signal);
    if (this.#abort.signal.aborted) return request;
    request.endedAt = performance.now();
    request.refused = result.status === 503;
    request.failed = result.error !== null || result.finish === null;
    request.error = result.error;
    const ended = !request.failed && request.wrongAt === null;
    if (ended && text.length !== expected.length) request.wrongAt = text.length;
    return request;
  }

  get tokenCount() {
    return this.requests.reduce((count, { tokens }) => count + tokens.length, 0);
  }

  // Breaks off after the next token, or after `limitMs`: then the request hung. True when a token
  // came.
  async finish(limitMs) {
    const before = this.tokenCount;
    const endMs = performance.now() + limitMs;
    while (this.tokenCount === before && performance.now() < endMs) await sleep(20);
    this.#stopping = true;
    this.#abort.abort();
    await this.#running;
    return this.tokenCount > before;
  }
}
