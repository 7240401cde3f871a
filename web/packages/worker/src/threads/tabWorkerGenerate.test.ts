// The whole model in one tab: tokens some at a time, what ends them, and the wish of the user.
import { describe, expect, it } from "vitest";

import { WholeModel } from "@weft/wire";
import type { GenerateFrame } from "@weft/wire";

import { WorkerRig, init, kLayers, until } from "../test/workerRig.ts";

const kPlain: GenerateFrame = {
  kind: "generate",
  sequence: 5,
  binding: 1,
  session: 1,
  generation: 0,
  position: 0,
  token: 3,
  count: 7,
  interval: 3,
  temperature: 0,
  topK: 0,
  topP: 1,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
  seed: 0n,
  stopTokens: [],
  biases: [],
  seen: [],
};

async function whole(end = kLayers): Promise<WorkerRig> {
  const rig = new WorkerRig();
  await rig.join();
  await rig.giveStage(1, 0, 0, end);
  return rig;
}

async function told(rig: WorkerRig): Promise<number[][]> {
  await until(() => rig.tokens().some(({ isLast }) => isLast), "the last tokens");
  return rig.tokens().map(({ tokens }) => [...tokens]);
}

describe("generating", () => {
  it("tells some tokens at a time, the last ones marked", async () => {
    const rig = await whole();
    rig.tellWhole(kPlain);
    expect(await told(rig)).toEqual([[4, 5, 6], [7, 8, 9], [10]]);
    expect(rig.tokens().map(({ sequence, binding, isLast }) => [sequence, binding, isLast]))
      .toEqual([[5, 1, false], [5, 1, false], [5, 1, true]]);
    expect(rig.engine.heldSession(1, { first: 0, end: kLayers }).positions).toBe(7);
    await until(() => rig.status.rowsComputed === 7, "seven rows");
    rig.tellWhole({ ...kPlain, sequence: 6, position: 7, token: 10, count: 1 });
    await until(() => rig.tokens().length === 4, "one more");
    expect(rig.tokens()[3]).toMatchObject({ sequence: 6, isLast: true, tokens: [11] });
  });

  it("ends at a stop token", async () => {
    const rig = await whole();
    rig.tellWhole({ ...kPlain, stopTokens: [8] });
    expect(await told(rig)).toEqual([[4, 5, 6], [7, 8]]);
  });

  it("hands on how tokens are chosen", async () => {
    const rig = await whole();
    const frame = { ...kPlain, temperature: 0.5, topK: 9, seed: 2n ** 63n, biases: [[2, 1]],
      seen: [[3, 4]] } as const;
    rig.tellWhole(frame);
    await told(rig);
    expect(rig.engine.requests[0]!.sampling).toMatchObject({
      temperature: 0.5, topK: 9, seed: 2n ** 63n, logitBias: new Map([[2, 1]]),
      seen: new Map([[3, 4]]),
    });
  });

  it("stops when nobody wants the rest", async () => {
    const rig = await whole();
    let open = (): void => undefined;
    rig.engine.gate = new Promise<void>((resolve) => (open = resolve));
    rig.tellWhole({ ...kPlain, count: 12 });
    rig.tellWhole({ ...kPlain, sequence: 6, session: 2 });
    await until(() => rig.engine.requests.length === 1, "a start");
    rig.tellWhole({ kind: "stop", sequence: 5, binding: 1 });
    rig.tellWhole({ kind: "stop", sequence: 6, binding: 1 });
    open();
    await until(() => rig.tokens().length === 2, "both ends");
    expect(rig.tokens().map(({ sequence, isLast, tokens }) => [sequence, isLast, [...tokens]]))
      .toEqual([[5, true, [4, 5, 6]], [6, true, [4, 5, 6]]]);
    rig.tellWhole({ ...kPlain, sequence: 7, position: 3, token: 6, count: 1 });
    await until(() => rig.tokens().length === 3, "one that goes on");
    expect(rig.tokens()[2]).toMatchObject({ sequence: 7, isLast: true, tokens: [7] });
  });

  it("runs several together, and a step between two of their batches", async () => {
    const rig = await whole();
    let open = (): void => undefined;
    rig.engine.gate = new Promise<void>((resolve) => (open = resolve));
    rig.tellWhole(kPlain);
    await until(() => rig.engine.requests.length === 1, "a start");
    rig.tellWhole({ ...kPlain, sequence: 6, session: 2, token: 8, count: 4 });
    open();
    await until(() => rig.tokens().filter(({ isLast }) => isLast).length === 2, "both ends");
    const of = (wanted: number): number[] => {
      const own = rig.tokens().filter(({ sequence }) => sequence === wanted);
      return own.flatMap(({ tokens }) => [...tokens]);
    };
    expect(of(5)).toEqual([4, 5, 6, 7, 8, 9, 10]);
    expect(of(6)).toEqual([9, 10, 11, 12]);
    const order = rig.tokens().map(({ sequence }) => sequence);
    expect(order.indexOf(6)).toBeLessThan(order.lastIndexOf(5));
    expect(rig.engine.heldSession(2, { first: 0, end: kLayers }).positions).toBe(4);
  });

  it("fails one alone that cannot be", async () => {
    const rig = await whole();
    rig.tellWhole({ ...kPlain, position: 4 });
    rig.tellWhole({ ...kPlain, sequence: 6, session: 2 });
    expect(await rig.next("stepFailed")).toMatchObject({ sequence: 5, code: "invalid_argument" });
    expect(await told(rig)).toEqual([[4, 5, 6], [7, 8, 9], [10]]);
  });

  it("says when it fails, after the tokens that it has told", async () => {
    const rig = await whole();
    rig.engine.failAfter = 3;
    rig.tellWhole(kPlain);
    expect(await rig.next("stepFailed")).toMatchObject({
      sequence: 5, binding: 1, stage: 0, code: "unavailable",
    });
    const sent = rig.tokens().map(({ isLast, tokens }) => [isLast, tokens]);
    expect(sent).toEqual([[false, [4, 5, 6]]]);
  });

  it("refuses what is not the whole model of a prepared binding", async () => {
    const part = await whole(3);
    part.tellWhole(kPlain);
    expect((await part.next("stepFailed")).message).toContain("not prepared");
    const rig = await whole();
    rig.tellWhole({ ...kPlain, binding: 2 });
    expect((await rig.next("stepFailed")).message).toContain("binding 2");
    rig.tellWhole({ ...kPlain, position: 4 });
    expect((await rig.next("stepFailed", 2)).message).toContain("position 0");
    expect(rig.tokens()).toEqual([]);
  });

  it("takes no frame that only workers send", async () => {
    const rig = await whole();
    rig.tellWhole({ kind: "runHere", isWanted: true, apiKey: "" });
    expect((await rig.ended()).message).toContain("only workers send");
  });
});

describe("the whole model here", () => {
  it("is offered, asked for, and over when the server says so", async () => {
    const rig = await whole();
    expect(rig.status.whole).toBe("no");
    rig.tellWhole({ kind: "wholeModel", state: WholeModel.fits, message: "" });
    expect(rig.status.whole).toBe("possible");
    rig.worker.sayRunHere(true, "");
    expect(rig.whole).toEqual([{ kind: "runHere", isWanted: true, apiKey: "" }]);
    rig.wantsWhole = true;
    rig.tellWhole({ kind: "wholeModel", state: WholeModel.here, message: "" });
    expect(rig.status.whole).toBe("here");
    rig.tellWhole({ kind: "wholeModel", state: WholeModel.tooLarge, message: "" });
    expect(rig.status.whole).toBe("no");
    expect(rig.wantsWhole).toBe(false);
  });

  it("is asked for again after a reconnection", async () => {
    const rig = new WorkerRig(undefined, true);
    rig.tell(init());
    await rig.next("connect");
    expect(rig.whole).toEqual([{ kind: "runHere", isWanted: true, apiKey: "" }]);
  });
});
