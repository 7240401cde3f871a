// The rules of docs/protocol.md for a worker, from Init to the end of its connection, and over the
// connections to one swarm that follow each other: one event in, actions out. No threads, sockets,
// clock, files or engine: others carry the actions out and bring back what came of them. The same
// in C++: src/worker/membership.h.
//
// Here events are told to the part that they are for; each part owns its data, and asks for actions
// through the outbox: joining.ts (how it comes in and back), loads.ts (what is on its way into
// memory), stepQueue.ts (what waits to be computed), expertWork.ts (experts for hubs), hubWaits.ts
// (rows for experts elsewhere).
//
// Work waits in the order of the messages, and one piece of it is under way at a time. So an answer
// never waits behind work that came after it, and no message waits for work at all: pings, Stop and
// fetches are dealt with by the event that brings them.
//
// A connection that breaks ends what was not finished: loads, and work that waits. The work under
// way is finished and not answered; what forgets or unloads is still done. Bindings and sessions
// stay for as long as keeping.ts says, and the Connect of the next connection names them.
import {
  decodeFork, decodeFrame, decodeWholeFrame, decodeServerMessage, isForkFrame, isWholeFrame,
  isShardMessage, kControlByte, shardPeerOf,
} from "@weft/wire";
import type { ForkFrame, Ping, PrepareStage, ServerMessage, WholeFrame } from "@weft/wire";

import { EngineHealth } from "./engineHealth.ts";
import type { Action, Event } from "./events.ts";
import { ExpertWork } from "./expertWork.ts";
import { HubWaits } from "./hubWaits.ts";
import { Joining } from "./joining.ts";
import { Loads } from "./loads.ts";
import { Outbox } from "./outbox.ts";
import { Outcomes } from "./outcomes.ts";
import { kLoading, kMostPadding } from "./rules.ts";
import { shownOf } from "./shown.ts";
import { StageTable } from "./stageTable.ts";
import { StepQueue } from "./stepQueue.ts";
import { WholeWish } from "./wholeWish.ts";

export interface MembershipOptions {
  readonly needsOnnx: boolean; // the engine runs graphs: one session a step
  readonly stepsInFlight: number; // that it takes before the first one's result is there
  readonly stepsFollow: boolean; // also such steps of one session
  readonly note: string; // what the page says beside the state
  readonly wantsWhole: boolean; // the user's wish so far
  readonly apiKey: string; // said with the wish
  readonly takesExperts: boolean; // the engine can hold experts for hubs
  readonly rowsToServer: boolean; // it can be a hub that leaves to the server whom to ask
}

export class Membership {
  readonly #note: string;
  readonly #wish: WholeWish;
  readonly #out = new Outbox();
  readonly #stages = new StageTable(); // changed by loads
  readonly #experts: ExpertWork;
  readonly #waits: HubWaits;
  readonly #rowsToServer: boolean;
  readonly #queue: StepQueue;
  readonly #loads: Loads;
  readonly #joining: Joining;
  readonly #outcomes: Outcomes;

  constructor(options: MembershipOptions) {
    const { needsOnnx, note, wantsWhole, apiKey, takesExperts } = options;
    const [out, stages] = [this.#out, this.#stages];
    const health = new EngineHealth(out);
    const experts = new ExpertWork(out, takesExperts);
    const { stepsInFlight, stepsFollow } = options;
    const steps = { needsOnnx, stepsInFlight, stepsFollow };
    const queue = new StepQueue({ out, stages, experts, health, ...steps });
    const loads = new Loads(out, stages, experts, queue);
    const wish = new WholeWish(wantsWhole, apiKey);
    const joining = new Joining(out, stages, queue, loads, wish);
    const waits = (this.#waits = new HubWaits(out));
    this.#rowsToServer = options.rowsToServer;
    this.#note = note;
    [this.#wish, this.#experts, this.#queue] = [wish, experts, queue];
    [this.#loads, this.#joining] = [loads, joining];
    this.#outcomes = new Outcomes({ out, health, experts, waits, queue, loads, joining });
  }

  // Whether the layers that come now are installed, and not only kept.
  get isFetchingStage(): boolean {
    return this.#loads.isFetchingStage;
  }

  get lastSwarm(): Uint8Array | null {
    return this.#joining.lastSwarm;
  }

  // Begins with a connection, whose Init comes next. After Finish nothing is asked for any more.
  handle(event: Event): Action[] {
    if (!this.#out.isOver) this.#on(event);
    if (!this.#out.isOver) this.#goOn();
    if (!this.#out.isOver) this.#showState();
    return this.#out.take();
  }

  #goOn(): void {
    this.#joining.answerInit();
    this.#loads.fetchNext();
    this.#queue.computeNext();
    if (this.#queue.hasOtherWork) this.#waits.giveWay();
  }

  #on(event: Event): void {
    switch (event.kind) {
      case "messageReceived":
        if (this.#out.isConnected) this.#onMessage(event.message, event.arrival);
        return;
      case "joined":
        return this.#joining.onJoined(event.as);
      case "fetchProgressed":
        return this.#loads.onProgress(event.doneBytes, event.totalBytes);
      case "layerFetched":
        this.#joining.addCached(event.layer);
        return this.#loads.onLayer(event);
      case "fetchEnded":
        return this.#loads.onFetchEnded(event.fault);
      case "tokensMade":
        return this.#queue.onTokensMade(event);
      case "tokensFailed":
        return this.#queue.onTokensFailed(event.sequence, event.fault);
      case "rowsWait":
        return this.#waits.ask(event, this.#queue.isHubWanted);
      case "workDone":
        return this.#outcomes.on(event.outcome);
      case "wholeWished":
        this.#wish.isWanted = event.isWanted;
        this.#wish.apiKey = event.apiKey;
        return this.#joining.sayWish();
      case "leaveAsked":
        return this.#joining.leave(event.reason, event.isDraining);
      case "connectionLost":
        this.#waits.onConnectionLost();
        return this.#joining.onConnectionLost(event.now);
      case "connectedAgain":
        this.#waits.onConnectionLost(); // whoever did not hear of it
        return this.#joining.onConnectedAgain(event.now);
      case "keptLongEnough":
        return this.#joining.onKeptLongEnough(event.now);
    }
  }

  // ---- messages ----

  #onMessage(message: Uint8Array, arrival: number): void {
    const { isMember } = this.#joining;
    try {
      if (isWholeFrame(message)) return this.#onWholeFrame(decodeWholeFrame(message));
      if (isForkFrame(message)) return this.#onFork(decodeFork(message));
      if (isShardMessage(message) && isMember) return this.#onShards(message);
      if (message[0] !== kControlByte) return this.#queue.onFrame(decodeFrame(message), arrival);
      this.#onControl(decodeServerMessage(message), arrival);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.#violation(`The server sent what cannot be used: ${why}`);
    }
  }

  // The server itself is peer 0, and answers hubs.
  #onShards(message: Uint8Array): void {
    const mayAnswer = this.#rowsToServer && shardPeerOf(message) === 0;
    if (mayAnswer && this.#waits.take(message)) return;
    this.#experts.take(message);
  }

  #violation(message: string): void {
    this.#out.finish("retry", message);
  }

  #onControl({ kind }: ServerMessage, now: number): void {
    switch (kind.case) {
      case "ping":
        return this.#onPing(kind.value);
      case "init":
        return this.#joining.onInit(kind.value, now);
      case "refused":
        return this.#joining.onRefused(kind.value, now);
      default:
        break;
    }
    const { isMember, isLeaving } = this.#joining;
    if (!isMember) return this.#violation("The server sent work before Init was answered.");
    if (isLeaving && kLoading.includes(kind.case)) return;
    switch (kind.case) {
      case "downloadLayers":
        return this.#loads.download(kind.value.layers);
      case "measureSpeed":
        return this.#loads.measure(kind.value);
      case "prepareStage":
        return this.#onPrepareStage(kind.value);
      case "holdExperts":
        return this.#loads.holdExperts(kind.value);
      case "expertHolders":
        return this.#refuseHub();
      case "retire":
        return this.#loads.retire(kind.value);
      case "invalidateSessions":
        return this.#queue.invalidate(kind.value.sessions);
      case "sampling":
        return this.#queue.push({ kind: "takeSampling", sampling: kind.value });
      case "release":
        return this.#loads.release();
      default:
        return this.#out.finish(
          "refused",
          "The server sent a control message that this worker does not know: reload the page, " +
            "or update weft on this device.",
        );
    }
  }

  #onPing({ nonce, answerBytes, successors }: Ping): void {
    if (successors && this.#joining.isMember) this.#joining.knowSuccessors(successors.servers);
    const padding = new Uint8Array(Math.min(answerBytes, kMostPadding));
    this.#out.send({ case: "pong", value: { nonce, padding } });
    this.#experts.sayHeartbeats(this.#queue.current?.kind === "runExperts");
  }

  #onPrepareStage(message: PrepareStage): void {
    if (message.isHub && !this.#rowsToServer) this.#refuseHub();
    else this.#loads.prepare(message);
  }

  #refuseHub(): void {
    this.#violation("The server wanted a hub of a worker that cannot be a hub.");
  }

  #onFork(fork: ForkFrame): void {
    if (this.#joining.isMember) this.#queue.onFork(fork);
    else this.#violation("The server sent a fork before Init was answered.");
  }

  #onWholeFrame(frame: WholeFrame): void {
    if (this.#joining.choosesTokens === false) {
      const why = "The server sent a whole-model frame to a worker that chooses no tokens.";
      return this.#violation(why);
    }
    switch (frame.kind) {
      case "generate":
        return this.#queue.onGenerate(frame, this.#joining.isMember);
      case "stop":
        return this.#queue.stop([frame.sequence]);
      case "wholeModel": {
        const hasEnded = this.#wish.onTold(frame.state, frame.message);
        if (hasEnded) this.#out.do({ kind: "wholeEnded" });
        return this.#out.show(this.#wish.shown(frame.message));
      }
      default:
        return this.#violation("The server sent a frame that only workers send.");
    }
  }

  // What is going on, or what is left when nothing is.
  #showState(): void {
    if (!this.#out.hasChanged || !this.#joining.isMember) return;
    this.#out.hasChanged = false;
    const held = this.#stages.shown();
    const layers: [number, number] | null = held ? [held.layers.first, held.layers.end] : null;
    const work = this.#queue.current?.kind;
    const isLoading = this.#stages.isLoading || work === "installLayers";
    const [{ isDownloading }, { fault }, note] = [this.#loads, this.#out, this.#note];
    const expertsHeld = this.#experts.heldCount;
    const state = { work, isDownloading, isLoading, held, expertsHeld, fault, note };
    this.#out.show({ layers, expertsHeld, ...shownOf(state) });
  }
}
