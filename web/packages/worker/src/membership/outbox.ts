// What a membership asks for while it handles an event: to be sent, to be carried out, to be shown.
import { encodeWholeFrame } from "@weft/wire";

import type { Action, Ending, Fault, Shown, WorkerKind } from "./events.ts";
import type { Said, StepNumbers } from "./turns.ts";

export class Outbox {
  isConnected = true; // else nothing is sent
  isOver = false; // it has asked for its end, or its user has gone
  hasChanged = false; // what the page sees of the state
  fault = ""; // the last failure, until a stage is prepared
  #actions: Action[] = []; // of the event that is handled

  take(): Action[] {
    const actions = this.#actions;
    this.#actions = [];
    return actions;
  }

  do(action: Action): void {
    this.#actions.push(action);
  }

  send(message: WorkerKind): void {
    if (this.isConnected) this.do({ kind: "sendControl", message });
  }

  sendFrame(message: Uint8Array<ArrayBuffer>): void {
    if (this.isConnected) this.do({ kind: "sendFrame", message });
  }

  sendFailed(binding: number, { code, message }: Fault): void {
    this.fault = message;
    this.send({ case: "failed", value: { binding, code, message } });
  }

  sendStepFailed({ sequence, binding, stage = 0 }: StepNumbers, { code, message }: Said): void {
    this.send({ case: "stepFailed", value: { sequence, binding, stage, code, message } });
  }

  sendTokens(
    { sequence, binding }: StepNumbers,
    tokens: readonly number[],
    computeMs: number,
    isLast: boolean,
  ): void {
    const made = { isLast, computeUs: computeMs * 1000, tokens };
    this.sendFrame(encodeWholeFrame({ kind: "tokens", sequence, binding, ...made }));
  }

  show(shown: Shown): void {
    this.do({ kind: "show", shown });
  }

  finish(kind: Ending["kind"], message: string): void {
    if (this.isOver) return;
    this.isOver = true;
    this.do({ kind: "finish", ending: { kind, message } });
  }
}
