// Runs the parts of the benchmark against each other, size by size: every round asks each subject
// once. A subject that fails or takes too long is named with its reason and left out of the rest of
// its size.
import { median } from "./times.mjs";

export class Comparison {
  #parts;
  #options;
  #figures = [];
  #hosts = new Map();
  #begin = performance.now();

  constructor(parts, options) {
    this.#parts = parts;
    this.#options = options;
  }

  async run() {
    for (const size of this.#options.sizes) {
      await this.#size(size);
      for (const part of [...this.#hosts.keys()]) await this.#drop(part);
    }
    return this.#figures;
  }

  #say(figure) {
    this.#figures.push(figure);
    console.log(JSON.stringify(figure));
  }

  #secondsLeft() {
    return this.#options.seconds - (performance.now() - this.#begin) / 1000;
  }

  async #size(size) {
    const { parts, prefills, contexts, tokens, extras } = this.#options;
    for (const part of parts) await this.#load(part, size);
    for (const count of prefills) {
      await this.#rounds(size, "prefill", { count }, (ms) => (1000 * count) / ms);
    }
    for (const context of contexts) {
      await this.#rounds(size, "decode", { context, tokens }, (ms) => 1000 / ms);
    }
    for (const extra of extras) await this.#extra(size, extra);
  }

  async #load(part, size) {
    if (this.#secondsLeft() < 10) {
      this.#say({ size, part, failed: "no time was left" });
      return;
    }
    try {
      this.#hosts.set(part, await this.#parts.start(part, size));
    } catch (error) {
      this.#say({ size, part, failed: `did not start: ${error.message}` });
      return;
    }
    if (part.endsWith("-ours") && !this.#figures.some((f) => f.part === part && f.readGBps)) {
      const read = await this.#call(part, size, "bandwidth", {});
      if (read) this.#say({ part, ...read });
    }
    const { tuning, form } = this.#options;
    const loaded = await this.#call(part, size, "load", { size, tuning, form });
    if (loaded) this.#say({ size, part, ...loaded });
  }

  async #call(part, size, method, options) {
    const host = this.#hosts.get(part);
    if (!host) return null;
    const left = this.#secondsLeft();
    try {
      if (left < 2) throw new Error("no time was left");
      return await host.call(method, options, Math.min(left, this.#options.stepSeconds));
    } catch (error) {
      this.#say({ size, part, failed: `${method}: ${error.message.slice(0, 300)}` });
      await this.#drop(part);
      return null;
    }
  }

  async #drop(part) {
    const host = this.#hosts.get(part);
    this.#hosts.delete(part);
    await host?.close();
  }

  // One call of each to warm up, then rounds in which each has its turn.
  async #rounds(size, what, options, rate) {
    const results = new Map();
    for (let round = -1; round < this.#options.rounds; ++round) {
      for (const part of [...this.#hosts.keys()]) {
        const result = await this.#call(part, size, what, options);
        if (result && round >= 0) results.set(part, [...(results.get(part) ?? []), result]);
      }
    }
    for (const [part, runs] of results) {
      const { ms, ...about } = runs.at(-1);
      const middle = median(runs.map((run) => run.ms));
      const { count, context } = options;
      const tokensPerS = Number(rate(middle).toPrecision(4));
      const rounds = runs.length;
      this.#say({ size, part, what, count, context, ms: middle, tokensPerS, rounds, ...about });
    }
  }

  // What only our engine does.
  async #extra(size, extra) {
    const { contexts, prefills, tokens, rounds } = this.#options;
    const options = {
      ablation: { context: contexts[0], tokens, rounds },
      profile: { context: contexts[0], prefill: prefills[0] ?? 128 },
      stage: { steps: 50, rounds },
    };
    for (const part of [...this.#hosts.keys()].filter((name) => name.endsWith("-ours"))) {
      const result = await this.#call(part, size, extra, options[extra]);
      if (result) this.#say({ size, part, what: extra, ...result });
    }
  }
}
