// The page's side of helping: owns the Worker, passes its status on, says goodbye when the page
// goes away. Knows neither the wire nor the engine.
import { initialStatus } from "./messages.ts";
import type { FromWorker, ToWorker, WorkerStatus } from "./messages.ts";

export type HelpOptions = Omit<Extract<ToWorker, { kind: "start" }>, "kind">;

// The worker has the server take over what it does, for at most 2 s; a step that computes right now
// may block it. After this it is ended all the same.
const kStopGraceMs = 2250;

export class HelpClient {
  readonly #createWorker: () => Worker;
  readonly #listeners = new Set<(status: WorkerStatus) => void>();
  #worker: Worker | null = null;
  #status = initialStatus();
  #options: HelpOptions | null = null; // while helping
  #endTimer: ReturnType<typeof setTimeout> | null = null;

  constructor(createWorker: () => Worker) {
    this.#createWorker = createWorker;
    // A frozen page computes nothing, and its worker neither: the server is better told.
    for (const going of ["pagehide", "freeze"]) {
      self.addEventListener(going, () => this.#post({ kind: "leaving" }), { capture: true });
    }
    // Back from the back/forward cache, or thawed: the connection is gone, the wish to help is not.
    const startAgain = (): void => {
      if (this.#options) this.start(this.#options);
    };
    self.addEventListener("pageshow", (event) => {
      if ("persisted" in event && event.persisted === true) startAgain();
    });
    self.addEventListener("resume", startAgain, { capture: true });
  }

  get status(): WorkerStatus {
    return this.#status;
  }

  get isHelping(): boolean {
    return this.#options !== null;
  }

  start(options: HelpOptions): void {
    this.#endWorker();
    this.#options = options;
    this.#ensureWorker();
    this.#post({ kind: "start", ...options });
  }

  // Lets it finish what it computes and hand it over; whatever still goes on then is ended with its
  // thread.
  stop(): void {
    this.#options = null;
    if (!this.#worker) return;
    this.#post({ kind: "stop" });
    this.#endTimer ??= setTimeout(() => {
      this.#endWorker();
      this.#publish({ ...this.#status, phase: "stopped", message: "Stopped.", usedBytes: 0 });
    }, kStopGraceMs);
  }

  // Asks for the whole model in this tab, or gives it back to the swarm.
  runHere(isWanted: boolean, apiKey: string): void {
    this.#post({ kind: "runHere", isWanted, apiKey });
  }

  // Deletes the cached weights, helping or not; the next status has cachedBytes 0.
  forgetCache(): void {
    this.#ensureWorker();
    this.#post({ kind: "forgetCache" });
  }

  // Calls back with every status from now on; the result ends that.
  onStatus(callback: (status: WorkerStatus) => void): () => void {
    this.#listeners.add(callback);
    return () => this.#listeners.delete(callback);
  }

  #post(message: ToWorker): void {
    this.#worker?.postMessage(message);
  }

  #ensureWorker(): void {
    if (this.#worker) return;
    const worker = this.#createWorker();
    this.#worker = worker;
    worker.onmessage = (event: MessageEvent<FromWorker>) => {
      if (this.#worker !== worker) return;
      const status = event.data.status;
      if (status.phase === "stopped" && this.#endTimer !== null) this.#endWorker();
      if (status.phase === "refused") this.#options = null;
      this.#publish(status);
    };
    // A script that does not load or a failure that nothing caught: the worker cannot go on.
    worker.onerror = (event) => {
      if (this.#worker !== worker) return;
      this.#endWorker();
      this.#options = null;
      const why = event.message || "its script could not be loaded";
      this.#publish({
        ...this.#status,
        phase: "refused",
        message: `The worker failed: ${why}. Reload the page.`,
      });
    };
  }

  #endWorker(): void {
    if (this.#endTimer !== null) clearTimeout(this.#endTimer);
    this.#endTimer = null;
    this.#worker?.terminate();
    this.#worker = null;
  }

  #publish(status: WorkerStatus): void {
    this.#status = status;
    for (const listener of this.#listeners) listener(status);
  }
}
