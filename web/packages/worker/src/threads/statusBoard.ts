// What the page is told: collected here, published at most ten times a second. The last state of a
// burst is never lost: it goes out with a timer, or with the next change when the browser holds
// timers of background tabs back.
import { initialStatus } from "./messages.ts";
import type { WorkerStatus } from "./messages.ts";

const kIntervalMs = 100;
// Speed is measured over so many steps.
const kRecentSteps = 32;

export class StatusBoard {
  readonly #publish: (status: WorkerStatus) => void;
  readonly #now: () => number;
  #status = initialStatus();
  #publishedAt = -Infinity;
  #timer: ReturnType<typeof setTimeout> | null = null;
  #recent: { rows: number; ms: number }[] = [];

  constructor(publish: (status: WorkerStatus) => void, now: () => number) {
    this.#publish = publish;
    this.#now = now;
  }

  get current(): WorkerStatus {
    return this.#status;
  }

  set(change: Partial<WorkerStatus>): void {
    const downloaded = grownBytes(this.#status.download, change.download ?? null);
    const trafficBytes = this.#status.trafficBytes + downloaded;
    this.#status = { ...this.#status, ...change, trafficBytes };
    const wait = this.#publishedAt + kIntervalMs - this.#now();
    if (wait <= 0) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), wait);
  }

  // Publishes now, for what must not wait (stopped, refused).
  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#publishedAt = this.#now();
    this.#publish(this.#status);
  }

  // Of messages, either way. It is told with the next change.
  addTraffic(byteCount: number): void {
    const trafficBytes = this.#status.trafficBytes + byteCount;
    this.#status = { ...this.#status, trafficBytes };
  }

  // Of experts, for hubs: one step of so many calls.
  addCalls(calls: number, rows: number, ms: number): void {
    this.#status = { ...this.#status, expertCalls: this.#status.expertCalls + calls };
    this.addStep(rows, ms);
  }

  addStep(rows: number, ms: number): void {
    this.#recent.push({ rows, ms });
    if (this.#recent.length > kRecentSteps) this.#recent.shift();
    const total = this.#recent.reduce(
      (sum, step) => ({ rows: sum.rows + step.rows, ms: sum.ms + step.ms }),
      { rows: 0, ms: 0 },
    );
    this.set({
      rowsComputed: this.#status.rowsComputed + rows,
      stepsComputed: this.#status.stepsComputed + 1,
      lastStepMs: ms,
      rowsPerSecond: total.rows / Math.max(total.ms / 1000, 1e-6),
    });
  }
}

// What came between two looks at a download; another one begins at zero.
function grownBytes(
  before: WorkerStatus["download"], after: WorkerStatus["download"],
): number {
  if (!after) return 0;
  const isSame = before !== null && before.doneBytes <= after.doneBytes;
  return after.doneBytes - (isSame ? before.doneBytes : 0);
}
