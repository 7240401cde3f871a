// Whether the engine still works. One that fails again and again has lost its device (a GPU that
// was reset, say): the next connection makes a new one.
import type { Fault } from "./events.ts";
import type { Outbox } from "./outbox.ts";

const kMostFailures = 3;

export class EngineHealth {
  readonly #out: Outbox;
  #failures = 0; // in a row

  constructor(out: Outbox) {
    this.#out = out;
  }

  works(): void {
    this.#failures = 0;
  }

  // Any other code is about what was asked, not about the engine.
  failed({ code, message }: Fault): void {
    if (code !== "unavailable" || ++this.#failures < kMostFailures) return;
    this.#out.finish("engineStopped", `The engine has stopped working: ${message}`);
  }
}
