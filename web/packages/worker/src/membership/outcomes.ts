// What becomes of the work under way when it has ended: each part is told what was its.
import type { EngineHealth } from "./engineHealth.ts";
import type { Fault, Outcome, Work } from "./events.ts";
import type { ExpertWork } from "./expertWork.ts";
import type { HubWaits } from "./hubWaits.ts";
import type { Joining } from "./joining.ts";
import type { Loads } from "./loads.ts";
import type { Outbox } from "./outbox.ts";
import type { StepQueue } from "./stepQueue.ts";
import { timingsValue } from "./turns.ts";

export interface OutcomeParts {
  readonly out: Outbox;
  readonly health: EngineHealth;
  readonly experts: ExpertWork;
  readonly waits: HubWaits;
  readonly queue: StepQueue;
  readonly loads: Loads;
  readonly joining: Joining;
}

export class Outcomes {
  readonly #out: Outbox;
  readonly #health: EngineHealth;
  readonly #experts: ExpertWork;
  readonly #waits: HubWaits;
  readonly #queue: StepQueue;
  readonly #loads: Loads;
  readonly #joining: Joining;

  constructor({ out, health, experts, waits, queue, loads, joining }: OutcomeParts) {
    this.#out = out;
    this.#health = health;
    this.#experts = experts;
    this.#waits = waits;
    this.#queue = queue;
    this.#loads = loads;
    this.#joining = joining;
  }

  on(outcome: Outcome): void {
    const work = this.#queue.ended();
    if (!work) return;
    if (outcome.kind === "failed") this.#onFailed(work, outcome.fault);
    else this.#onSucceeded(work, outcome);
  }

  #onSucceeded(work: Work, outcome: Exclude<Outcome, { kind: "failed" }>): void {
    this.#queue.pushTurn(...this.#experts.done(work, outcome));
    if (outcome.kind === "expertRows" && outcome.fault) return this.#health.failed(outcome.fault);
    if (outcome.kind !== "done") this.#health.works();
    if (outcome.kind === "computed") this.#out.sendFrame(outcome.message);
    if (outcome.kind === "stock") this.#joining.onStock(outcome.bindings);
    if (outcome.kind === "measured") {
      this.#loads.unload();
      this.#out.send({ case: "measured", value: timingsValue(outcome) });
    }
    if (outcome.kind === "installed" && work.kind === "installLayers") {
      this.#loads.onInstalled(work, outcome);
    }
  }

  #onFailed(work: Work, fault: Fault): void {
    if (this.#isRefused(work, fault)) return this.#out.finish("engineFailed", fault.message);
    switch (work.kind) {
      case "runStep":
        this.#out.sendStepFailed(work.frame.header, fault);
        if (work.isHub && this.#waits.takeRefusal()) return;
        break;
      case "makeTokens":
        this.#queue.onBatchFailed(fault);
        break;
      case "installLayers":
        this.#loads.onStageFailed(work.binding, fault);
        break;
      case "installExperts":
        if (this.#experts.isWanted(work.binding)) this.#out.sendFailed(work.binding, fault);
        break;
      case "measureSpeed":
        this.#loads.unload();
        this.#out.sendFailed(0, fault);
        break;
      case "takeSampling":
        return this.#out.finish("retry", fault.message);
      default:
        return this.#out.finish("retry", `The worker failed: ${fault.message}`);
    }
    this.#health.failed(fault);
  }

  // Another engine may do what this one's driver refuses to load.
  #isRefused({ kind }: Work, { isKernelRefused }: Fault): boolean {
    const loads = ["installLayers", "installExperts", "measureSpeed"].includes(kind);
    return loads && isKernelRefused;
  }
}
