// How a worker comes in and back: from Init to Connect, what of it is kept between two connections
// and for how long, and how it goes. The same part in C++: src/worker/joining.h.
import type { Init, Refused } from "@weft/wire";

import type { Ending, HeldBinding, JoinedAs, Successor } from "./events.ts";
import { packageProblemOf, problemOf } from "./initCheck.ts";
import { Keeping, silenceLimitMs } from "./keeping.ts";
import type { Loads } from "./loads.ts";
import type { Outbox } from "./outbox.ts";
import type { StageTable } from "./stageTable.ts";
import type { StepQueue } from "./stepQueue.ts";
import { heldValue, turnOf } from "./turns.ts";
import type { WholeWish } from "./wholeWish.ts";

export class Joining {
  readonly #out: Outbox;
  readonly #stages: StageTable;
  readonly #queue: StepQueue;
  readonly #loads: Loads;
  readonly #wish: WholeWish;
  readonly #keeping = new Keeping();
  #package: JoinedAs | null = null; // what is held is of
  #cached = new Set<number>(); // layers on this device
  #init: Init | null = null; // until it is answered by Connect
  #initAt = 0; // ms, when the last one came
  #successors = ""; // that were told last
  #initSeen = false;
  #isJoining = false;
  #joinsInVain = false;
  #isTakingStock = false;
  isMember = false; // Connect was sent on this connection
  isLeaving = false;

  constructor(
    out: Outbox,
    stages: StageTable,
    queue: StepQueue,
    loads: Loads,
    wish: WholeWish,
  ) {
    this.#out = out;
    this.#stages = stages;
    this.#queue = queue;
    this.#loads = loads;
    this.#wish = wish;
  }

  // A layer is on this device.
  addCached(layer: number): void {
    this.#cached.add(layer);
  }

  // Null before the package is known.
  get choosesTokens(): boolean | null {
    return this.#package && (this.#package.connect.value.makesTokens ?? 0) > 0;
  }

  get lastSwarm(): Uint8Array | null {
    return this.#keeping.lastSwarm;
  }

  // ---- from Init to Connect ----

  onInit(init: Init, now: number): void {
    if (this.#initSeen) return this.#out.finish("retry", "The server sent Init twice.");
    this.#initSeen = true;
    this.#initAt = now;
    const problem = problemOf(init);
    if (problem) return this.#out.finish(problem.kind, problem.message);
    this.#init = init;
    this.#out.do({ kind: "limitSilence", ms: silenceLimitMs(init) });
    const isOutdated = this.#keeping.isOutdated(init);
    if (isOutdated && this.#package) return; // nothing that is held changes
    this.#queue.sessions.begin(init.contextLength, init.sessionCount);
    this.#stages.beginConnection();
    if (isOutdated) return;
    this.#keeping.see(init);
    this.knowSuccessors(init.successors);
    if (!this.#package) return;
    if (this.#keeping.fits(init, now)) this.#keeping.resume();
    else this.#forget();
  }

  // These servers may lead next, in the place of those before.
  knowSuccessors(some: readonly Successor[]): void {
    const successors = some.map(({ url, fingerprint }) => ({ url, fingerprint }));
    const told = JSON.stringify(successors);
    if (told === (this.#successors || "[]")) return;
    this.#successors = told;
    this.#out.do({ kind: "knowSuccessors", successors });
  }

  // A server that is full, or has evicted this device, says nothing against what it holds.
  onRefused({ code, message }: Refused, now: number): void {
    if (code === "unavailable") this.#hangUp(message, true, now);
    else this.#out.finish("refused", message);
  }

  // The server has nothing to say to this worker now.
  #hangUp(reason: string, isLater: boolean, now: number): void {
    this.onConnectionLost(now);
    this.#out.do({ kind: "hangUp", reason, isLater });
  }

  // Asks for what Connect has to say: what is held, or what there is to hold.
  answerInit(): void {
    if (!this.#init || this.#isJoining || this.#isTakingStock) return;
    if (this.#package) {
      if (this.#keeping.isOutdated(this.#init)) return this.#sayConnect([]);
      this.#isTakingStock = true;
      const bindings = this.#stages.bindings()
        .map(([id, { stage, layers, isHub }]) => ({ id, stage, layers, isHub }));
      const sessions = this.#queue.sessions.all();
      return this.#queue.push({ kind: "takeStock", bindings, sessions });
    }
    if (!this.#queue.isIdle || this.#loads.isFetching) return; // what is to go is not gone yet
    this.#isJoining = true;
    this.#joinsInVain = false;
    const { modelName } = this.#init;
    this.#out.show({ modelName, phase: "measuring", message: "Measuring the connection." });
    this.#out.do({ kind: "join", init: this.#init });
  }

  onJoined(as: JoinedAs | Ending): void {
    this.#isJoining = false;
    if (this.#joinsInVain || !this.#init) return; // for a connection that is gone
    if ("kind" in as) return this.#out.finish(as.kind, as.message);
    const problem = packageProblemOf(this.#init, as.layerBytes.length);
    if (problem) return this.#out.finish(problem.kind, problem.message);
    this.#package = as;
    this.#loads.begin(as.layerBytes);
    this.#cached = new Set(as.connect.value.cachedLayers);
    this.#keeping.begin(this.#init);
    this.#sayConnect([]);
  }

  onStock(bindings: readonly HeldBinding[]): void {
    this.#isTakingStock = false;
    const held = new Set(bindings.flatMap(({ sessions }) => sessions));
    // The server hears nothing of the others, and may use their numbers again.
    const sessions = this.#queue.sessions.all().filter((session) => !held.has(session));
    for (const session of sessions) this.#queue.sessions.forget(session);
    if (sessions.length > 0) {
      this.#queue.unshiftTurn(turnOf({ kind: "releaseSessions", sessions }));
    }
    this.#sayConnect(bindings);
  }

  #sayConnect(held: readonly HeldBinding[]): void {
    const init = this.#init!;
    this.#init = null;
    const { value } = this.#package!.connect;
    const seenIncarnation = this.#keeping.seenOf(init);
    const makesTokens = Math.min(value.makesTokens ?? 0, init.batchesTokens ? Infinity : 1);
    const cachedLayers = [...this.#cached].sort((a, b) => a - b);
    const { packageFormat } = init; // that of its package
    const own =
      { makesTokens, packageFormat, cachedLayers, held: held.map(heldValue), seenIncarnation };
    this.#out.send({ case: "connect", value: { ...value, ...own } });
    if (this.#keeping.isOutdated(init)) {
      const [theirs, seen] = [init.incarnation, seenIncarnation].map(String);
      const why = `The server is incarnation ${theirs} of its swarm; this worker has seen ${seen}.`;
      return this.#hangUp(why, false, this.#initAt);
    }
    this.isMember = true;
    this.#queue.begin(this.#loads.layerCount, makesTokens);
    if (this.#wish.isWanted) this.sayWish();
    this.#out.hasChanged = true;
  }

  // Before Connect it is left to that.
  sayWish(): void {
    if (this.isMember) this.#out.sendFrame(this.#wish.frame());
  }

  // ---- between connections ----

  onConnectionLost(now: number): void {
    if (!this.#out.isConnected) return;
    this.#out.isConnected = false;
    if (this.isLeaving) {
      this.#out.isOver = true;
      return;
    }
    this.#loads.onConnectionLost();
    this.#queue.onConnectionLost();
    this.#initSeen = this.isMember = this.#isTakingStock = false;
    this.#init = null;
    this.#joinsInVain = this.#isJoining;
    if (this.#package) this.#keepOrForget(now);
  }

  onConnectedAgain(now: number): void {
    this.onConnectionLost(now); // whoever did not hear of it
    this.#out.isConnected = true;
  }

  onKeptLongEnough(now: number): void {
    if (!this.#out.isConnected && this.#package) this.#keepOrForget(now);
  }

  // Timers may fire early: then for what is left of the time.
  #keepOrForget(now: number): void {
    const ms = this.#keeping.lost(now);
    if (ms > 0) this.#out.do({ kind: "keepFor", ms });
    else this.#forget();
  }

  // Nothing that is held means anything any more.
  #forget(): void {
    this.#package = null;
    this.#keeping.end();
    this.#loads.forget();
    this.#out.show({ layers: null, download: null });
  }

  // The user goes.
  leave(reason: string, isDraining: boolean): void {
    this.#out.send({ case: "leaving", value: { reason, draining: isDraining } });
    this.isLeaving = true;
    this.#out.isOver = !isDraining || !this.#out.isConnected;
    if (!this.#out.isOver) this.#loads.drop();
  }
}
