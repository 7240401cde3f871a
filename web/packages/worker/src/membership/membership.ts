// The rules of docs/protocol.md for a worker, from Init to the end of its connection, and over the
// connections to one swarm that follow each other: one event in, actions out. No threads, sockets,
// clock, files or engine: others carry the actions out and bring back what came of them. The same
// in C++: src/worker/membership.h.
//
// Work waits here, in the order of the messages, and one piece of it is under way at a time. So an
// answer never waits behind work that came after it, and no message waits for work at all: pings,
// Stop and fetches are dealt with by the event that brings them.
//
// A connection that breaks ends what was not finished: loads, and work that waits. The work under
// way is finished and not answered; what forgets or unloads is still done. Bindings and sessions
// stay for as long as keeping.ts says, and the Connect of the next connection names them.
import type { LayerRange } from "@weft/engine";
import {
  FrameType, decodeFork, decodeFrame, decodeGeneration, decodeServerMessage,
  encodeGeneration, isForkFrame, isGenerationFrame, isShardMessage, kControlByte,
} from "@weft/wire";
import type {
  ForkFrame, Frame, GenerateFrame, GenerationFrame, HoldExperts, Init, MeasureSpeed, Ping,
  PrepareStage, Retire, ServerMessage,
} from "@weft/wire";

import type {
  Action, Ending, Event, Fault, HeldBinding, JoinedAs, Outcome, Shown, Work, WorkerKind,
} from "./events.ts";
import { ExpertDesk } from "./expertDesk.ts";
import { FetchQueue, wantedOf } from "./fetchQueue.ts";
import type { Fetch } from "./fetchQueue.ts";
import { Generations } from "./generations.ts";
import { packageProblemOf, problemOf } from "./initCheck.ts";
import { Keeping, silenceLimitMs } from "./keeping.ts";
import { checkedRange, measurementOf } from "./ranges.ts";
import { kLoading, kLong, kMostEngineFailures, kMostPadding } from "./rules.ts";
import { SessionLimits } from "./sessionLimits.ts";
import { StageTable, installedBytes, unpreparable } from "./stageTable.ts";
import { shownOf } from "./shown.ts";
import type { Binding } from "./stageTable.ts";
import { WholeWish } from "./wholeWish.ts";
import { heldValue, timingsValue, turnOf } from "./turns.ts";
import type { Said, StepNumbers, Turn } from "./turns.ts";

export interface MembershipOptions {
  readonly needsOnnx: boolean; // the engine runs graphs: one session a step
  readonly note: string; // what the page says beside the state
  readonly wantsWhole: boolean; // the user's wish so far
  readonly apiKey: string; // said with the wish
  readonly takesExperts: boolean; // the engine can hold experts for hubs
}

export class Membership {
  readonly #needsOnnx: boolean;
  readonly #note: string;
  readonly #sessions = new SessionLimits();
  readonly #stages = new StageTable();
  readonly #fetches = new FetchQueue();
  readonly #turns: Turn[] = [];
  readonly #generations = new Generations();
  readonly #experts: ExpertDesk;
  #actions: Action[] = []; // of the event that is handled
  #current: Work | null = null; // under way
  #isUnanswered = false; // the connection that asked for it is gone
  #isPausing = false; // it is MakeTokens, and ends behind its next batch
  #isConnected = true;
  #isLeaving = false;
  readonly #keeping = new Keeping();
  #package: JoinedAs | null = null; // what is held is of
  #cached = new Set<number>(); // layers on this device
  #init: Init | null = null; // until it is answered by Connect
  #isJoining = false;
  #joinsInVain = false;
  #isTakingStock = false;
  #isMember = false; // Connect was sent on this connection
  #initSeen = false;
  #kept: readonly LayerRange[] = []; // what the last Retire named
  readonly #wish: WholeWish;
  #isDownloading = false;
  #urgentInstalls = 0; // turns that install a layer which somebody waits for
  #hasChanged = false; // what the page sees of the state
  #fault = ""; // the last failure, until a stage is prepared
  #engineFailures = 0; // in a row
  #isOver = false;

  constructor(options: MembershipOptions) {
    this.#experts = new ExpertDesk({
      takesExperts: options.takesExperts,
      send: (message) => this.#send(message),
      sendFrame: (message) => this.#sendFrame(message),
    });
    this.#needsOnnx = options.needsOnnx;
    this.#note = options.note;
    this.#wish = new WholeWish(options.wantsWhole, options.apiKey);
  }

  // Begins with a connection, whose Init comes next. After Finish nothing is asked for any more.
  handle(event: Event): Action[] {
    if (!this.#isOver) this.#on(event);
    if (!this.#isOver) this.#goOn();
    if (!this.#isOver) this.#showState();
    const actions = this.#actions;
    this.#actions = [];
    return actions;
  }

  #on(event: Event): void {
    switch (event.kind) {
      case "messageReceived":
        if (this.#isConnected) this.#onMessage(event.message, event.arrival);
        return;
      case "joined":
        return this.#onJoined(event.as);
      case "fetchProgressed":
        return this.#onFetchProgressed(event.doneBytes, event.totalBytes);
      case "layerFetched": {
        const [byteCount, elapsedUs] = [event.byteCount, event.elapsedUs].map(BigInt);
        const value = { layer: event.layer, byteCount: byteCount!, elapsedUs: elapsedUs! };
        this.#cached.add(event.layer);
        this.#send({ case: "layerDownloaded", value });
        this.#fetches.layerCame(event.layer);
        const purpose = this.#fetches.current?.purpose; // the next ones are fetched meanwhile
        if (purpose?.kind === "stage") this.#install(purpose.epoch, event.layer + 1);
        return;
      }
      case "fetchEnded":
        return this.#onFetchEnded(event.fault);
      case "tokensMade":
        return this.#onTokensMade(event);
      case "tokensFailed":
        return this.#onTokensFailed(event.sequence, event.fault);
      case "workDone":
        return this.#onWorkDone(event.outcome);
      case "wholeWished":
        this.#wish.isWanted = event.isWanted;
        this.#wish.apiKey = event.apiKey;
        return this.#sayWholeWished(); // before Connect it is left to #onJoined
      case "leaveAsked":
        return this.#onLeaveAsked(event.reason, event.isDraining);
      case "connectionLost":
        return this.#onConnectionLost(event.now);
      case "connectedAgain":
        this.#onConnectionLost(event.now); // whoever did not hear of it
        this.#isConnected = true;
        return;
      case "keptLongEnough":
        if (!this.#isConnected && this.#package) this.#keepOrForget(event.now);
    }
  }

  // Begins what can be begun.
  #goOn(): void {
    this.#answerInit();
    const fetch = this.#fetches.next();
    if (fetch === "interrupt") this.#actions.push({ kind: "interruptFetch" });
    else if (fetch) this.#actions.push({ kind: "fetch", ...wantedOf(fetch) });
    while (!this.#current && !this.#isOver) {
      const isBatch = this.#generations.isNext(this.#turns.length > 0);
      const isOther = isBatch || this.#turns.length > 0;
      let work = this.#experts.next(isOther);
      if (!work && !isOther) return;
      work ??= isBatch ? this.#nextBatch() : this.#turns.shift()!.take();
      if (work) this.#begin(work);
    }
    if (this.#current?.kind === "makeTokens") this.#goOnMaking();
  }

  #begin(work: Work): void {
    if (kLong.includes(work.kind)) this.#generations.passed();
    this.#current = work;
    this.#isPausing = false;
    this.#actions.push({ kind: "compute", work });
    this.#hasChanged = true;
  }

  #nextBatch(): Work | null {
    const { wanted, unwanted } = this.#generations.take();
    for (const frame of unwanted) this.#sendTokens(frame, [], 0, true);
    if (wanted.length === 0) return null;
    return { kind: "makeTokens", frames: wanted, layers: { first: 0, end: this.#layerCount } };
  }

  // Generates whose turn has come join the batches; other work passes between two of them.
  #goOnMaking(): void {
    if (!this.#generations.isBatching || this.#isUnanswered) return;
    while (this.#turns[0]?.joins === true) this.#turns.shift()!.take();
    if ((this.#turns.length === 0 && this.#experts.isEmpty) || this.#isPausing) return;
    this.#isPausing = true;
    this.#actions.push({ kind: "pauseTokens" });
  }

  // ---- messages ----

  #onMessage(message: Uint8Array, arrival: number): void {
    try {
      if (isGenerationFrame(message)) return this.#onGeneration(decodeGeneration(message));
      if (isForkFrame(message)) return this.#onFork(decodeFork(message));
      if (isShardMessage(message) && this.#isMember) return this.#experts.take(message);
      if (message[0] !== kControlByte) return this.#onFrame(decodeFrame(message), arrival);
      this.#onControl(decodeServerMessage(message), arrival);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.#finish("retry", `The server sent what cannot be used: ${why}`);
    }
  }

  #onControl({ kind }: ServerMessage, now: number): void {
    switch (kind.case) {
      case "ping":
        return this.#onPing(kind.value);
      case "init":
        return this.#onInit(kind.value, now);
      case "refused": {
        const mayRetry = kind.value.code === "unavailable";
        return this.#finish(mayRetry ? "retry" : "refused", kind.value.message);
      }
      default:
        break;
    }
    if (!this.#isMember) {
      return this.#finish("retry", "The server sent work before Init was answered.");
    }
    if (this.#isLeaving && kLoading.includes(kind.case)) return;
    switch (kind.case) {
      case "downloadLayers":
        return this.#onDownloadLayers(kind.value.layers);
      case "measureSpeed":
        return this.#onMeasureSpeed(kind.value);
      case "prepareStage":
        return this.#onPrepareStage(kind.value);
      case "holdExperts":
        return this.#onHoldExperts(kind.value);
      case "expertHolders":
        return this.#refuseHub();
      case "retire":
        return this.#onRetire(kind.value);
      case "invalidateSessions":
        for (const session of kind.value.sessions) this.#sessions.forget(session);
        this.#stopOver();
        return this.#push({ kind: "releaseSessions", sessions: kind.value.sessions });
      case "sampling":
        return this.#push({ kind: "takeSampling", sampling: kind.value });
      case "release":
        this.#stages.clear();
        this.#experts.clear();
        this.#sessions.clear();
        this.#stopOver();
        this.#kept = [];
        this.#forgetFetches();
        return this.#push({ kind: "releaseAll" });
      default:
        return this.#finish(
          "refused",
          "The server sent a control message that this worker does not know: reload the page, " +
            "or update weft on this device.",
        );
    }
  }

  #refuseHub(): void {
    this.#finish("retry", "The server wanted a hub of a worker that cannot be a hub.");
  }

  #onPing({ nonce, answerBytes }: Ping): void {
    const padding = new Uint8Array(Math.min(answerBytes, kMostPadding));
    this.#send({ case: "pong", value: { nonce, padding } });
    this.#experts.sayHeartbeats(this.#current?.kind === "runExperts");
  }

  #onHoldExperts(message: HoldExperts): void {
    const fetch = this.#experts.hold(message, this.#layerCount);
    this.#forgetFetches(); // of earlier statements
    this.#fetches.push(fetch);
    this.#hasChanged = true;
  }

  #onInit(init: Init, now: number): void {
    if (this.#initSeen) return this.#finish("retry", "The server sent Init twice.");
    this.#initSeen = true;
    const problem = problemOf(init);
    if (problem) return this.#finish(problem.kind, problem.message);
    this.#sessions.begin(init.contextLength, init.sessionCount);
    this.#init = init;
    this.#actions.push({ kind: "limitSilence", ms: silenceLimitMs(init) });
    if (!this.#package) return;
    if (this.#keeping.fits(init, now)) this.#keeping.resume();
    else this.#forget();
  }

  #answerInit(): void {
    if (!this.#init || this.#isJoining || this.#isTakingStock) return;
    if (this.#package) {
      this.#isTakingStock = true;
      const bindings = this.#stages.bindings()
        .map(([epoch, { stage, layers }]) => ({ epoch, stage, layers }));
      return this.#push({ kind: "takeStock", bindings, sessions: this.#sessions.all() });
    }
    if (!this.#isIdle()) return; // what is to go is not gone yet
    this.#isJoining = true;
    this.#joinsInVain = false;
    const { modelName } = this.#init;
    this.#show({ modelName, phase: "measuring", message: "Measuring the connection." });
    this.#actions.push({ kind: "join", init: this.#init });
  }

  #isIdle(): boolean {
    return !this.#current && this.#turns.length === 0 && !this.#fetches.isUnderWay;
  }

  #onJoined(as: JoinedAs | Ending): void {
    this.#isJoining = false;
    if (this.#joinsInVain || !this.#init) return; // for a connection that is gone
    if ("kind" in as) return this.#finish(as.kind, as.message);
    const problem = packageProblemOf(this.#init, as.layerBytes.length);
    if (problem) return this.#finish(problem.kind, problem.message);
    this.#package = as;
    this.#cached = new Set(as.connect.value.cachedLayers);
    this.#keeping.begin(this.#init);
    this.#sayConnect([]);
  }

  #onStock(bindings: readonly HeldBinding[]): void {
    this.#isTakingStock = false;
    const held = new Set(bindings.flatMap(({ sessions }) => sessions));
    // The server hears nothing of the others, and may use their numbers again.
    const sessions = this.#sessions.all().filter((session) => !held.has(session));
    for (const session of sessions) this.#sessions.forget(session);
    if (sessions.length > 0) this.#turns.unshift(turnOf({ kind: "releaseSessions", sessions }));
    this.#sayConnect(bindings);
  }

  #sayConnect(held: readonly HeldBinding[]): void {
    this.#isMember = true;
    const isBatching = this.#init?.batchesTokens === true;
    this.#init = null;
    const { value } = this.#package!.connect;
    const makesTokens = Math.min(value.makesTokens ?? 0, isBatching ? Infinity : 1);
    this.#generations.begin(makesTokens);
    const cachedLayers = [...this.#cached].sort((a, b) => a - b);
    const own = { makesTokens, cachedLayers, held: held.map(heldValue) };
    this.#send({ case: "connect", value: { ...value, ...own } });
    if (this.#wish.isWanted) this.#sayWholeWished();
    this.#hasChanged = true;
  }

  #sayWholeWished(): void {
    if (!this.#isMember) return;
    this.#sendFrame(this.#wish.frame());
  }

  get #layerCount(): number {
    return this.#package?.layerBytes.length ?? 0;
  }

  // Throws where one of them is not of this model.
  #checked(ranges: readonly (LayerRange | undefined)[]): LayerRange[] {
    return ranges.map((range) => checkedRange(range, this.#layerCount));
  }

  #onDownloadLayers(layers: readonly number[]): void {
    const ranges = this.#checked(layers.map((layer) => ({ first: layer, end: layer + 1 })));
    this.#fetches.push({ purpose: { kind: "standby" }, ranges });
  }

  #onMeasureSpeed(message: MeasureSpeed): void {
    this.#fetches.push(measurementOf(message, this.#layerCount));
  }

  #onPrepareStage({ epoch, stage, layers, standby, shards }: PrepareStage): void {
    const range = checkedRange(layers, this.#layerCount);
    if (shards) return this.#refuseHub();
    if (!this.#stages.prepare(epoch, stage, range, standby)) {
      return this.#finish("retry", unpreparable(epoch));
    }
    this.#fetches.push({ purpose: { kind: "stage", epoch, isStandby: standby }, ranges: [range] });
  }

  #onRetire({ keep, epochs }: Retire): void {
    const ranges = this.#checked(keep);
    this.#stages.keepOnly(epochs, ranges);
    this.#stopOver();
    this.#kept = ranges;
    this.#forgetFetches();
    this.#push({ kind: "keepLayers", keep: ranges });
  }

  #forgetFetches(): void {
    this.#fetches.keep((purpose) => {
      if (purpose.kind === "experts") return this.#experts.isWanted(purpose.epoch);
      return purpose.kind !== "stage" || this.#stages.unfinished(purpose.epoch) !== undefined;
    });
  }

  #keepingWhatIsNeeded(): Turn {
    // Steps and Generates that wait came before whatever has dropped their binding since, and are
    // still computed.
    const keep = (): LayerRange[] => [
      ...this.#stages.ranges(),
      ...this.#kept,
      ...this.#turns.flatMap(({ runs }) => runs ?? []),
      ...(this.#generations.isEmpty ? [] : [{ first: 0, end: this.#layerCount }]),
    ];
    return { take: () => ({ kind: "keepLayers", keep: keep() }), forgets: true };
  }

  // ---- steps ----

  // Which layers it runs is settled when it comes: Retire may drop the stage while it waits.
  #onFrame(frame: Frame, arrival: number): void {
    const { type, sequence, epoch, stage } = frame.header;
    const layers = type === FrameType.step ? this.#stages.toRun(epoch, stage) : undefined;
    const problem = layers
      ? this.#problemOf(frame)
      : `Stage ${stage} of epoch ${epoch} is not prepared on this worker.`;
    if (layers && problem === "") return this.#push({ kind: "runStep", frame, layers, arrival });
    this.#inTurn(() => this.#refuseStep(sequence, epoch, stage, problem));
  }

  // "" or why the step is refused.
  #problemOf({ runs }: Frame): string {
    if (this.#needsOnnx && runs.length > 1) {
      return `The frame has ${runs.length} runs; this engine computes one session at a time.`;
    }
    for (const { session, firstPosition, count } of runs) {
      const problem = this.#sessions.take(session, firstPosition + count);
      if (problem !== "") return problem;
    }
    return "";
  }

  // A fork that cannot be made is not answered: the next step of its session says so.
  #onFork({ epoch, stage, session: to, ...rest }: ForkFrame): void {
    if (!this.#isMember) {
      return this.#finish("retry", "The server sent a fork before Init was answered.");
    }
    const layers = this.#stages.toRun(epoch, stage);
    if (!layers || this.#sessions.take(to, rest.positionCount) !== "") return;
    this.#push({ kind: "forkSession", layers, fork: { ...rest, to } });
  }

  #onGeneration(frame: GenerationFrame): void {
    if (this.#package && !this.#package.connect.value.makesTokens) {
      const message = "The server sent a generation frame to a worker that chooses no tokens.";
      return this.#finish("retry", message);
    }
    switch (frame.kind) {
      case "generate":
        return this.#onGenerate(frame);
      case "stop":
        return this.#stop([frame.sequence]);
      case "wholeModel":
        if (this.#wish.onTold(frame.state, frame.message)) {
          this.#actions.push({ kind: "wholeEnded" });
        }
        return this.#show(this.#wish.shown(frame.message));
      default:
        return this.#finish("retry", "The server sent a frame that only workers send.");
    }
  }

  #onGenerate(frame: GenerateFrame): void {
    const { sequence, epoch } = frame;
    const layers = this.#stages.toRun(epoch, 0);
    if (layers?.first !== 0 || layers.end !== this.#layerCount) {
      const message = `The whole model of epoch ${epoch} is not prepared on this worker.`;
      return this.#inTurn(() => this.#refuseStep(sequence, epoch, 0, message));
    }
    const problem = this.#sessions.take(frame.session, frame.position + frame.count);
    if (problem !== "") return this.#inTurn(() => this.#refuseStep(sequence, epoch, 0, problem));
    this.#generations.add(frame);
    const take = (): null => {
      if (this.#generations.isStopped(sequence)) {
        this.#generations.end(sequence);
        this.#sendTokens(frame, [], 0, true);
        return null;
      }
      this.#generations.join(sequence);
      const isMaking = this.#current?.kind === "makeTokens";
      if (isMaking) this.#actions.push({ kind: "joinTokens", frame });
      return null;
    };
    this.#turns.push({ take, forgets: false, joins: true });
  }

  // Of those under way the engine is told, too.
  #stop(sequences: readonly number[]): void {
    for (const sequence of sequences) {
      this.#generations.stop(sequence);
      if (this.#current?.kind !== "makeTokens" || this.#isUnanswered) continue;
      if (this.#generations.frameOf(sequence)) this.#actions.push({ kind: "stopTokens", sequence });
    }
  }

  // Generates go on between other work, and would be found without their session or their layers.
  #stopOver(): void {
    const isOver = ({ session, epoch }: GenerateFrame): boolean =>
      !this.#sessions.has(session) || !this.#stages.toRun(epoch, 0);
    this.#stop(this.#generations.stopWhere(isOver));
  }

  #refuseStep(sequence: number, epoch: number, stage: number, message: string): void {
    this.#sendStepFailed({ sequence, epoch, stage }, { code: "invalid_argument", message });
  }

  #sendStepFailed({ sequence, epoch, stage = 0 }: StepNumbers, { code, message }: Said): void {
    this.#send({ case: "stepFailed", value: { sequence, epoch, stage, code, message } });
  }

  // Tokens of one that nobody wants are its last ones.
  #onTokensMade(made: Extract<Event, { kind: "tokensMade" }>): void {
    const { sequence, tokens, computeMs } = made;
    const frame = this.#generations.frameOf(sequence);
    if (!frame) return; // it has ended, or its connection has
    const isLast = made.isLast || this.#generations.isStopped(sequence);
    this.#sendTokens(frame, tokens, computeMs, isLast);
    this.#engineFailures = 0;
    if (isLast) this.#generations.end(sequence);
    else this.#generations.told(sequence, tokens);
  }

  #onTokensFailed(sequence: number, fault: Fault): void {
    const frame = this.#generations.frameOf(sequence);
    if (!frame) return;
    this.#generations.end(sequence);
    this.#sendStepFailed(frame, fault);
    this.#countFailure(fault);
  }

  #sendTokens(
    { sequence, epoch }: GenerateFrame,
    tokens: readonly number[],
    computeMs: number,
    isLast: boolean,
  ): void {
    const made = { isLast, computeUs: computeMs * 1000, tokens };
    this.#sendFrame(encodeGeneration({ kind: "tokens", sequence, epoch, ...made }));
  }

  // ---- fetches ----

  #onFetchProgressed(doneBytes: number, totalBytes: number): void {
    this.#isDownloading = true;
    const [done, total] = [doneBytes, totalBytes].map(BigInt);
    this.#send({ case: "downloadProgress", value: { doneBytes: done!, totalBytes: total! } });
    const download = { doneBytes, totalBytes };
    this.#show({ phase: "downloading", message: "Downloading its layers.", download });
  }

  #onFetchEnded(fault: Fault | null): void {
    this.#isDownloading = false;
    const fetch = this.#fetches.ended(fault === null);
    this.#show({ download: null });
    if (fetch && fault) this.#onFetchFailed(fetch, fault);
    else if (fetch) this.#onFetched(fetch);
    this.#hasChanged = true;
  }

  #onFetchFailed({ purpose }: Fetch, fault: Fault): void {
    if (purpose.kind === "stage") this.#onStageFailed(purpose.epoch, fault);
    else this.#sendFailed("epoch" in purpose ? purpose.epoch : 0, fault);
  }

  #onFetched({ purpose }: Fetch): void {
    if (purpose.kind === "measurement") {
      const { timed, runs, probes } = purpose;
      this.#push({ kind: "measureSpeed", ranges: timed, runs, probes });
    } else if (purpose.kind === "experts") {
      this.#turns.push(this.#experts.installing(purpose.epoch));
    } else if (purpose.kind === "stage") {
      this.#install(purpose.epoch, Infinity);
    }
  }

  // The stage's layers before `thereEnd` are on this device.
  #install(epoch: number, thereEnd: number): void {
    const stage = this.#stages.unfinished(epoch);
    if (!stage) return; // retired or released meanwhile
    stage.thereEnd = Math.min(Math.max(stage.thereEnd, thereEnd), stage.layers.end);
    if (!stage.hasTurn) this.#installNext(epoch, stage);
  }

  // One layer at a time, each behind the steps that came before its turn, and a standby's behind
  // those that somebody waits for.
  #installNext(epoch: number, { isStandby }: Binding): void {
    const take = (): Work | null => {
      if (isStandby && this.#urgentInstalls > 0) {
        this.#turns.push({ take, forgets: false });
        return null;
      }
      if (!isStandby) --this.#urgentInstalls;
      const stage = this.#stages.unfinished(epoch);
      if (!stage) return null;
      const { next } = stage;
      const [doneBytes, totalBytes] = installedBytes(this.#package!.layerBytes, stage);
      const layers = { first: next, end: next + 1 };
      const isLast = layers.end === stage.layers.end;
      return { kind: "installLayers", epoch, layers, isLast, doneBytes, totalBytes };
    };
    const stage = this.#stages.unfinished(epoch)!;
    stage.hasTurn = stage.next < stage.thereEnd;
    if (!stage.hasTurn) return; // it comes
    if (!isStandby) ++this.#urgentInstalls;
    this.#turns.push({ take, forgets: false });
  }

  // ---- work that is done ----

  #onWorkDone(outcome: Outcome): void {
    const work = this.#current;
    this.#current = null;
    if (!work) return;
    this.#hasChanged = true;
    if (this.#isUnanswered) {
      this.#isUnanswered = false;
      return;
    }
    if (outcome.kind === "failed") this.#onWorkFailed(work, outcome.fault);
    else this.#onWorkSucceeded(work, outcome);
  }

  #onWorkSucceeded(work: Work, outcome: Exclude<Outcome, { kind: "failed" }>): void {
    this.#turns.push(...this.#experts.done(work, outcome));
    if (outcome.kind === "expertRows" && outcome.fault) return this.#countFailure(outcome.fault);
    if (outcome.kind !== "done") this.#engineFailures = 0;
    if (outcome.kind === "computed") return this.#sendFrame(outcome.message);
    if (outcome.kind === "stock") return this.#onStock(outcome.bindings);
    if (outcome.kind === "measured") {
      this.#turns.unshift(this.#keepingWhatIsNeeded());
      return this.#send({ case: "measured", value: timingsValue(outcome) });
    }
    if (outcome.kind !== "installed" || work.kind !== "installLayers") return;
    const { epoch, layers } = work;
    const stage = this.#stages.unfinished(epoch);
    if (!stage) return;
    stage.next = layers.end;
    if (stage.next < stage.layers.end) return this.#installNext(epoch, stage);
    this.#stages.setLoaded(epoch);
    this.#fault = "";
    const { weightFactor, usedBytes } = outcome;
    const value = { epoch, weightFactor, usedBytes: BigInt(usedBytes) };
    this.#send({ case: "prepared", value });
  }

  #onWorkFailed(work: Work, fault: Fault): void {
    switch (work.kind) {
      case "runStep":
        this.#sendStepFailed(work.frame.header, fault);
        return this.#countFailure(fault);
      case "makeTokens":
        for (const frame of this.#generations.endJoined()) this.#sendStepFailed(frame, fault);
        return this.#countFailure(fault);
      case "installLayers":
        if (fault.isKernelRefused) return this.#finish("engineFailed", fault.message);
        if (this.#stages.unfinished(work.epoch)) this.#onStageFailed(work.epoch, fault);
        return this.#countFailure(fault);
      case "installExperts":
        if (fault.isKernelRefused) return this.#finish("engineFailed", fault.message);
        if (this.#experts.isWanted(work.epoch)) this.#sendFailed(work.epoch, fault);
        return this.#countFailure(fault);
      case "measureSpeed":
        if (fault.isKernelRefused) return this.#finish("engineFailed", fault.message);
        this.#turns.unshift(this.#keepingWhatIsNeeded());
        this.#sendFailed(0, fault);
        return this.#countFailure(fault);
      case "takeSampling":
        return this.#finish("retry", fault.message);
      default:
        return this.#finish("retry", `The worker failed: ${fault.message}`);
    }
  }

  // What was installed of it goes.
  #onStageFailed(epoch: number, fault: Fault): void {
    const stage = this.#stages.unfinished(epoch);
    this.#stages.remove(epoch);
    if (stage?.hasTurn || (stage && stage.next > stage.layers.first)) {
      this.#turns.unshift(this.#keepingWhatIsNeeded());
    }
    this.#sendFailed(epoch, fault);
  }

  // Any other code is about what was asked, not about the engine.
  #countFailure({ code, message }: Fault): void {
    if (code !== "unavailable" || ++this.#engineFailures < kMostEngineFailures) return;
    this.#finish("engineStopped", `The engine has stopped working: ${message}`);
  }

  // ---- between connections ----

  #onConnectionLost(now: number): void {
    if (!this.#isConnected) return;
    this.#isConnected = false;
    if (this.#isLeaving) {
      this.#isOver = true;
      return;
    }
    this.#dropLoads();
    this.#dropUnanswerable();
    if (this.#package) this.#keepOrForget(now);
  }

  // Timers may fire early: then for what is left of the time.
  #keepOrForget(now: number): void {
    const ms = this.#keeping.lost(now);
    if (ms > 0) this.#actions.push({ kind: "keepFor", ms });
    else this.#forget();
  }

  // What is neither loaded nor under way ends.
  #dropLoads(): void {
    const loads = ["installLayers", "measureSpeed"].includes(this.#current?.kind ?? "");
    const isUnfinished = this.#stages.bindings().some(([, { isLoaded }]) => !isLoaded);
    const holdsMore = loads || isUnfinished || this.#kept.length > 0;
    this.#experts.lost();
    this.#stages.removeUnloaded();
    this.#kept = [];
    this.#fetches.clear();
    if (holdsMore) this.#turns.push(this.#keepingWhatIsNeeded());
  }

  #dropUnanswerable(): void {
    this.#initSeen = this.#isMember = this.#isTakingStock = this.#isDownloading = false;
    this.#init = null;
    this.#joinsInVain = this.#isJoining;
    this.#urgentInstalls = 0;
    this.#turns.splice(0, this.#turns.length, ...this.#turns.filter(({ forgets }) => forgets));
    this.#isUnanswered = this.#current !== null;
    if (this.#current?.kind === "makeTokens") this.#actions.push({ kind: "pauseTokens" });
    this.#generations.clear();
  }

  // Nothing that is held means anything any more.
  #forget(): void {
    this.#package = null;
    this.#keeping.end();
    this.#stages.reset();
    this.#kept = [];
    this.#sessions.clear();
    this.#forgetFetches();
    this.#push({ kind: "releaseAll" });
    this.#show({ layers: null, download: null });
  }

  #onLeaveAsked(reason: string, isDraining: boolean): void {
    this.#send({ case: "leaving", value: { reason, draining: isDraining } });
    this.#isLeaving = true;
    this.#isOver = !isDraining || !this.#isConnected;
    if (!this.#isOver) this.#dropLoads();
  }

  // ---- what goes out ----

  #push(work: Work): void {
    this.#turns.push(turnOf(work));
  }

  // An answer in the order of the messages, after the work before it.
  #inTurn(answer: () => void): void {
    const take = (): null => {
      answer();
      return null;
    };
    this.#turns.push({ take, forgets: false });
  }

  #send(message: WorkerKind): void {
    if (this.#isConnected) this.#actions.push({ kind: "sendControl", message });
  }

  #sendFrame(message: Uint8Array<ArrayBuffer>): void {
    if (this.#isConnected) this.#actions.push({ kind: "sendFrame", message });
  }

  #sendFailed(epoch: number, { code, message }: Fault): void {
    this.#fault = message;
    this.#send({ case: "failed", value: { epoch, code, message } });
  }

  #show(shown: Shown): void {
    this.#actions.push({ kind: "show", shown });
  }

  // What is going on, or what is left when nothing is.
  #showState(): void {
    if (!this.#hasChanged || !this.#isMember) return;
    this.#hasChanged = false;
    const held = this.#stages.shown();
    const layers: [number, number] | null = held ? [held.layers.first, held.layers.end] : null;
    const isLoading = this.#stages.isLoading || this.#current?.kind === "installLayers";
    const [isDownloading, fault, note] = [this.#isDownloading, this.#fault, this.#note];
    const expertsHeld = this.#experts.heldCount;
    const work = this.#current?.kind;
    const state = { work, isDownloading, isLoading, held, expertsHeld, fault, note };
    this.#show({ layers, expertsHeld, ...shownOf(state) });
  }

  #finish(kind: Ending["kind"], message: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#actions.push({ kind: "finish", ending: { kind, message } });
  }
}
