// What waits to be computed, in the order of the messages: steps and their refusals, forks,
// Generates, installing and unloading. The same part in C++: src/worker/step_queue.h. What may be
// under way at once: underWay.ts.
import type { LayerRange } from "@weft/engine";
import { FrameType } from "@weft/wire";
import type { ForkFrame, Frame, GenerateFrame } from "@weft/wire";

import type { EngineHealth } from "./engineHealth.ts";
import type { Event, Fault, Work } from "./events.ts";
import type { ExpertWork } from "./expertWork.ts";
import { GenerateQueue } from "./generateQueue.ts";
import type { Outbox } from "./outbox.ts";
import { kLong } from "./rules.ts";
import { SessionLimits } from "./sessionLimits.ts";
import type { StageTable } from "./stageTable.ts";
import { turnOf } from "./turns.ts";
import type { Turn } from "./turns.ts";
import { WorkUnderWay } from "./underWay.ts";
import type { StepsAtOnce } from "./underWay.ts";

export interface QueueParts extends StepsAtOnce {
  readonly out: Outbox;
  readonly stages: StageTable;
  readonly experts: ExpertWork;
  readonly health: EngineHealth;
  readonly needsOnnx: boolean; // the engine runs graphs: one session a step
}

export class StepQueue {
  readonly #out: Outbox;
  readonly #stages: StageTable;
  readonly #experts: ExpertWork;
  readonly #health: EngineHealth;
  readonly sessions: SessionLimits;
  readonly #turns: Turn[] = [];
  readonly #generates = new GenerateQueue();
  readonly #underWay: WorkUnderWay;
  #layerCount = 0;
  #isPausing = false; // MakeTokens is under way, and ends behind its next batch

  constructor(parts: QueueParts) {
    this.#out = parts.out;
    this.#stages = parts.stages;
    this.#experts = parts.experts;
    this.#health = parts.health;
    this.#underWay = new WorkUnderWay(parts);
    this.sessions = new SessionLimits(parts.needsOnnx);
  }

  // From Connect on: the model, and how many sessions a batch of tokens takes.
  begin(layerCount: number, places: number): void {
    this.#layerCount = layerCount;
    this.#generates.begin(places);
  }

  // What is under way; the oldest, where these are steps.
  get current(): Work | null {
    return this.#underWay.oldest;
  }

  get isIdle(): boolean {
    return this.#underWay.isEmpty && this.#turns.length === 0;
  }

  push(work: Work): void {
    this.#turns.push(turnOf(work));
  }

  pushTurn(...turns: Turn[]): void {
    this.#turns.push(...turns);
  }

  // Before everything that waits.
  unshiftTurn(turn: Turn): void {
    this.#turns.unshift(turn);
  }

  // What steps and Generates need loaded until they are computed, in this form.
  layersNeeded(isHub: boolean): LayerRange[] {
    const waiting = this.#turns.flatMap(({ step }) => (step?.isHub === isHub ? step.layers : []));
    if (!isHub && !this.#generates.isEmpty) waiting.push({ first: 0, end: this.#layerCount });
    return waiting;
  }

  // Whether a hub's step is under way for the connection that is there.
  get isHubWanted(): boolean {
    return this.#underWay.isHubWanted;
  }

  // Whether something waits that is not of steps.
  get hasOtherWork(): boolean {
    return this.#turns.some(({ isOfSteps }) => isOfSteps !== true);
  }

  // Which layers it runs is settled when it comes: Retire may drop the stage while it waits.
  onFrame(frame: Frame, arrival: number): void {
    const { type, sequence, binding, stage } = frame.header;
    const found = type === FrameType.step ? this.#stages.toRun(binding, stage) : undefined;
    const problem = found
      ? this.sessions.takeRuns(frame.runs)
      : `Stage ${stage} of binding ${binding} is not prepared on this worker.`;
    if (found && problem === "") {
      const { layers, isHub } = found;
      return this.push({ kind: "runStep", frame, layers, isHub, arrival });
    }
    this.#refuse(sequence, binding, stage, problem);
  }

  // A fork that cannot be made is not answered: the next step of its session says so.
  onFork({ binding, stage, session: to, ...rest }: ForkFrame): void {
    const found = this.#stages.toRun(binding, stage);
    if (!found || this.sessions.take(to, rest.positionCount) !== "") return;
    const { layers, isHub } = found;
    this.push({ kind: "forkSession", layers, isHub, fork: { ...rest, to } });
  }

  onGenerate(frame: GenerateFrame, isMember: boolean): void {
    const { sequence, binding } = frame;
    const found = isMember ? this.#stages.toRun(binding, 0) : undefined;
    const isWhole = found?.isHub === false && found.layers.first === 0 &&
      found.layers.end === this.#layerCount;
    if (!isWhole) {
      const message = `The whole model of binding ${binding} is not prepared on this worker.`;
      return this.#refuse(sequence, binding, 0, message);
    }
    const problem = this.sessions.take(frame.session, frame.position + frame.count);
    if (problem !== "") return this.#refuse(sequence, binding, 0, problem);
    this.#generates.add(frame);
    const take = (): null => {
      this.#join(frame);
      return null;
    };
    this.#turns.push({ take, forgets: false, joins: true });
  }

  // In the order of the messages, after the work before it.
  #refuse(sequence: number, binding: number, stage: number, message: string): void {
    const take = (): null => {
      const said = { code: "invalid_argument", message };
      this.#out.sendStepFailed({ sequence, binding, stage }, said);
      return null;
    };
    this.#turns.push({ take, forgets: false, isOfSteps: true });
  }

  invalidate(sessions: readonly number[]): void {
    for (const session of sessions) this.sessions.forget(session);
    this.stopOver();
    this.push({ kind: "releaseSessions", sessions });
  }

  // All of them are over.
  releaseSessions(): void {
    this.sessions.clear();
    this.stopOver();
  }

  // ---- Generates ----

  #join(frame: GenerateFrame): void {
    const { sequence } = frame;
    if (this.#generates.isStopped(sequence)) {
      this.#generates.end(sequence);
      return this.#out.sendTokens(frame, [], 0, true);
    }
    this.#generates.join(sequence);
    if (this.current?.kind === "makeTokens") this.#out.do({ kind: "joinTokens", frame });
  }

  // Nobody wants the rest of these. Of those under way the engine is told, too.
  stop(sequences: readonly number[]): void {
    const isMaking = this.current?.kind === "makeTokens" && this.#underWay.isOldestWanted;
    for (const sequence of sequences) {
      this.#generates.stop(sequence);
      if (!isMaking || !this.#generates.frameOf(sequence)) continue;
      this.#out.do({ kind: "stopTokens", sequence });
    }
  }

  // Generates go on between other work, and would be found without their session or their layers.
  stopOver(): void {
    const isOver = ({ session, binding }: GenerateFrame): boolean =>
      !this.sessions.has(session) || !this.#stages.toRun(binding, 0);
    this.stop(this.#generates.stopWhere(isOver));
  }

  // Tokens of one that nobody wants are its last ones.
  onTokensMade(made: Extract<Event, { kind: "tokensMade" }>): void {
    const { sequence, tokens, computeMs } = made;
    const frame = this.#generates.frameOf(sequence);
    if (!frame) return; // it has ended, or its connection has
    const isLast = made.isLast || this.#generates.isStopped(sequence);
    this.#out.sendTokens(frame, tokens, computeMs, isLast);
    this.#health.works();
    if (isLast) this.#generates.end(sequence);
    else this.#generates.told(sequence, tokens);
  }

  onTokensFailed(sequence: number, fault: Fault): void {
    const frame = this.#generates.frameOf(sequence);
    if (!frame) return;
    this.#generates.end(sequence);
    this.#out.sendStepFailed(frame, fault);
    this.#health.failed(fault);
  }

  // The engine has failed: all of the batches.
  onBatchFailed(fault: Fault): void {
    for (const frame of this.#generates.endJoined()) this.#out.sendStepFailed(frame, fault);
  }

  // ---- what is computed ----

  // Begins what can be begun. Hubs' dispatches and all other work take turns.
  computeNext(): void {
    while (this.#underWay.isEmpty && !this.#out.isOver) {
      const isBatch = this.#generates.isNext(this.#turns.length > 0);
      const isOther = isBatch || this.#turns.length > 0;
      let work = this.#experts.next(isOther);
      if (!work && !isOther) return;
      work ??= isBatch ? this.#nextBatch() : this.#turns.shift()!.take();
      if (work) this.#begin(work);
    }
    while (this.#mayBeginBehind()) this.#begin(this.#turns.shift()!.take()!);
    if (this.current?.kind === "makeTokens") this.#goOnMaking();
  }

  // Whether the next turn is a step that may begin before the steps under way have ended.
  #mayBeginBehind(): boolean {
    const step = this.#turns[0]?.step;
    if (!step || this.#out.isOver || !this.#experts.isEmpty) return false;
    return !this.#generates.isNext(true) && this.#underWay.mayBeginBehind(step);
  }

  #begin(work: Work): void {
    if (kLong.includes(work.kind)) this.#generates.passed();
    this.#underWay.begin(work);
    this.#isPausing = false;
    this.#out.do({ kind: "compute", work });
    this.#out.hasChanged = true;
  }

  #nextBatch(): Work | null {
    const { wanted, unwanted } = this.#generates.take();
    for (const frame of unwanted) this.#out.sendTokens(frame, [], 0, true);
    if (wanted.length === 0) return null;
    return { kind: "makeTokens", frames: wanted, layers: { first: 0, end: this.#layerCount } };
  }

  // Generates whose turn has come join the batches; other work passes between two of them.
  #goOnMaking(): void {
    if (!this.#generates.isBatching || !this.#underWay.isOldestWanted) return;
    while (this.#turns[0]?.joins === true) this.#turns.shift()!.take();
    if ((this.#turns.length === 0 && this.#experts.isEmpty) || this.#isPausing) return;
    this.#isPausing = true;
    this.#out.do({ kind: "pauseTokens" });
  }

  // The oldest work under way has ended; null: nobody waits for what came of it.
  ended(): Work | null {
    const ended = this.#underWay.end();
    if (!ended) return null;
    this.#out.hasChanged = true;
    return ended.isUnanswered ? null : ended.work;
  }

  // Nothing that waits can be answered; what forgets and unloads is still done.
  onConnectionLost(): void {
    this.#turns.splice(0, this.#turns.length, ...this.#turns.filter(({ forgets }) => forgets));
    this.#underWay.onConnectionLost();
    if (this.current?.kind === "makeTokens") this.#out.do({ kind: "pauseTokens" });
    this.#generates.clear();
  }
}
