// What a quiet swarm answers: one worker that holds the whole model, without relays. Its texts are
// what every answer under failures has to equal, and its cache spares the cells their downloads.
import { join } from "node:path";

import { askQuietly, messagesOf, promptOf } from "../lib/chat_client.mjs";
import { startServer, startWorker, swarmOf, until } from "../lib/weft_processes.mjs";

// Prompts that take turns; they differ from their first word on, so that no answer begins with what
// another one left behind.
const kPrompts = 3;

// Positions of a session that the prompt and its answer need.
export function contextFor({ promptTokens, answerTokens }) {
  return Math.max(256, promptTokens + answerTokens + 24);
}

// Answers of one model by prompt length, made when they are first asked for.
export class Reference {
  #known = new Map();

  // `scratch`: a folder for the worker's cache, one below it for each model.
  constructor(weft, threads, scratch) {
    Object.assign(this, { weft, threads, scratch });
  }

  blobs(model) {
    return join(this.scratch, model);
  }

  // [{content, text, promptTokens}] for prompts of so many tokens, with so many tokens answered.
  async prompts(model, folder, { promptTokens, answerTokens }) {
    const key = `${model} ${promptTokens} ${answerTokens}`;
    if (!this.#known.has(key)) {
      this.#known.set(key, await this.#ask(model, folder, promptTokens, answerTokens));
    }
    return this.#known.get(key);
  }

  async #ask(model, folder, promptTokens, answerTokens) {
    const context = contextFor({ promptTokens, answerTokens });
    const limits = ["--context", String(context), "--sessions", "1"];
    const server = await startServer(this.weft, folder, limits);
    const worker = startWorker(this.weft, server.origin,
      ["--threads", String(this.threads), "--cache", this.blobs(model)]);
    try {
      const up = async () => (await swarmOf(server.origin)).state === "up";
      await until(up, () => `a quiet swarm: ${worker.lines.join("\n")}`);
      const name = (await swarmOf(server.origin)).model.name;
      const out = [];
      for (let number = 0; number < kPrompts; ++number) {
        const content = await promptOf(server.origin, name, number, promptTokens);
        const { text, usage } = await askQuietly(server.origin, { model: name,
          messages: messagesOf(content), max_tokens: answerTokens });
        out.push({ content, text, promptTokens: usage.prompt_tokens });
      }
      return out;
    } finally {
      await worker.end();
      await server.end();
    }
  }
}
