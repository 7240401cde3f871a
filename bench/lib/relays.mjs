// Links of workers to a server, carried by a thread of their own.
import { Worker } from "node:worker_threads";

export class Relays {
  #next = 0;
  #waiting = new Map();

  // `origin` is the server's, such as http://127.0.0.1:8080.
  constructor(origin) {
    const { hostname, port } = new URL(origin);
    this.thread = new Worker(new URL("./relay_thread.mjs", import.meta.url), {
      workerData: { target: { host: hostname, port: Number(port) } },
    });
    this.thread.on("message", ({ id, value }) => {
      this.#waiting.get(id)(value);
      this.#waiting.delete(id);
    });
    this.thread.on("error", (error) => {
      throw error;
    });
  }

  #ask(name, rest = {}) {
    const id = this.#next++;
    this.thread.postMessage({ id, name, ...rest });
    return new Promise((resolve) => this.#waiting.set(id, resolve));
  }

  // The origin that the next worker connects to; links count from 0.
  async add() {
    return `http://127.0.0.1:${await this.#ask("add")}`;
  }
  cut(index) {
    return this.#ask("cut", { index });
  }
  silence(index) {
    return this.#ask("silence", { index });
  }
  heal(index) {
    return this.#ask("heal", { index });
  }
  // {delayMs (each way), downBytesPerS, upBytesPerS}, seen from the worker; 0: no limit.
  shape(index, shape) {
    return this.#ask("shape", { index, shape });
  }
  newRequest() {
    return this.#ask("newRequest");
  }
  // {computed, recomputed (rows x layers), prepares: by link, open: by link, byteCount: of all}
  report() {
    return this.#ask("report");
  }
  // Ends all links at once.
  async close() {
    await this.thread.terminate();
  }
}
