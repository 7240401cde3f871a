// Asynchronous tasks one after another. After stop() nothing that waits is begun.

export class TaskQueue {
  readonly #onError: (error: unknown) => void;
  readonly #waiting: (() => Promise<void>)[] = [];
  #running: Promise<void> | null = null;
  #stopped = false;

  // `onError` is told what a task throws; the queue goes on.
  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  push(task: () => Promise<void>): void {
    if (this.#stopped) return;
    this.#waiting.push(task);
    this.#running ??= this.#run();
  }

  // Settles when the task in progress has ended.
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#waiting.length = 0;
    await this.#running;
  }

  async #run(): Promise<void> {
    await Promise.resolve(); // #running is set before a task can push another
    for (let task = this.#waiting.shift(); task; task = this.#waiting.shift()) {
      try {
        await task();
      } catch (error) {
        this.#onError(error);
      }
    }
    this.#running = null;
  }
}
