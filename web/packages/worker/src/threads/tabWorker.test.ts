// A connection's work, with the test in the place of the orchestrator: docs/protocol.md's rules.
import { describe, expect, it, vi } from "vitest";

import { EngineError } from "@weft/engine";
import { DType, FrameType, OutputKind, encodeFrame, kProtocolVersion } from "@weft/wire";
import type { FrameHeader, FrameRun } from "@weft/wire";

import { kChunkBytes } from "../download/manifest.ts";
import { FakeEngine, fakePackage, fakeServer, kHidden } from "../test/fakes.ts";
import { kBlobBytes, kLayers, rigPackage, WorkerRig, init, until } from "../test/workerRig.ts";

// One run of one row of stage 0, layers [0, 3), with what a test changes.
function step(
  header: Partial<FrameHeader> = {},
  run: Partial<FrameRun> = {},
): Uint8Array<ArrayBuffer> {
  const whole: FrameRun = {
    session: 1,
    generation: 0,
    firstPosition: 0,
    count: 1,
    output: OutputKind.hidden,
    candidateCount: 0,
    ...run,
  };
  const ids = new Int32Array(whole.count).fill(5);
  return encodeFrame(
    {
      type: FrameType.step,
      sequence: 1,
      binding: 1,
      stage: 0,
      rows: whole.count,
      columns: 1,
      dtype: DType.i32,
      queueUs: 0,
      computeUs: 0,
      ...header,
    },
    [whole],
    new Uint8Array(ids.buffer),
  );
}

async function working(): Promise<WorkerRig> {
  const rig = new WorkerRig();
  await rig.join();
  await rig.giveStage(1, 0, 0, 3);
  return rig;
}

describe("joining", () => {
  it("answers Init with the offer, and loads no engine for it", async () => {
    const rig = new WorkerRig();
    await rig.join();
    expect(rig.all("connect")[0]).toMatchObject({
      protocolVersion: kProtocolVersion,
      kind: "web",
      engine: "ort-wasm",
      name: "A tab",
      joinToken: "token",
      memoryBytes: 1n << 24n,
      downloadBytesPerS: 5e6,
      cachedLayers: [],
      needsOnnx: true,
      makesTokens: 4,
      takesExperts: false,
      keepsState: true,
      statesAhead: true,
      dtypes: [],
      workerId: "id",
    });
    expect(rig.engines).toEqual([]);
    expect(rig.status).toMatchObject({ phase: "idle", message: "Connected, waiting for work." });
  });

  it.each([
    ["protocolVersion", 99, `The server speaks protocol version 99, this worker version ` +
      `${kProtocolVersion}: reload`],
    ["programVersion", 0, "program version 0, this worker version 3: reload the page, or update"],
    ["packageFormat", 7, "The server speaks package format version 7, this worker version 2"],
  ])("a server with another %s is refused with both numbers", async (field, value, words) => {
    const rig = new WorkerRig();
    rig.tell(init({ [field]: value }));
    const ending = await rig.ended();
    expect(ending.kind).toBe("refused");
    expect(ending.message).toContain(words);
    expect(rig.sent).toEqual([]);
  });

  it("a refusal is final unless the server is only busy", async () => {
    const denied = new WorkerRig();
    denied.tell({ case: "refused", value: { code: "permission_denied", message: "No." } });
    expect(await denied.ended()).toEqual({ kind: "refused", message: "No." });
    const busy = new WorkerRig();
    busy.tell({ case: "refused", value: { code: "unavailable", message: "No." } });
    expect(busy.hungUp).toEqual([{ reason: "No.", isLater: true }]);
    expect(busy.endings).toEqual([]);
  });

  it("the server's successors are told", async () => {
    const rig = new WorkerRig();
    const successors = [{ url: "wss://b:8443", fingerprint: "ab12" }];
    await rig.join({ successors });
    expect(rig.successors).toEqual(successors);
  });

  it("a package that is not the announced one is tried again, a denied one is not", async () => {
    const other = new WorkerRig();
    other.tell(init({ packageDigest: new Uint8Array(32) }));
    expect(await other.ended()).toMatchObject({ kind: "retry" });
    const longer = new WorkerRig();
    longer.tell(init({ layerCount: kLayers + 1 }));
    expect((await longer.ended()).message).toBe(
      "The package has 6 layers, the server announced 7.",
    );
    const denied = new WorkerRig(fakeServer(rigPackage, () => new Response("{}", { status: 401 }))
      .fetch);
    denied.tell(init());
    expect(await denied.ended()).toMatchObject({ kind: "refused" });
  });

  it.each<[string, (rig: WorkerRig) => void]>([
    ["bytes that are no message", (rig) => rig.worker.onMessage(new Uint8Array([1, 255, 255]))],
    ["an empty message", (rig) => rig.worker.onMessage(new Uint8Array(0))],
    ["a torn frame", (rig) => rig.worker.onMessage(step().subarray(0, 50))],
    ["work before Init", (rig) => rig.tell({ case: "release", value: {} })],
    ["Init twice", (rig) => [init(), init()].forEach((kind) => rig.tell(kind))],
  ])("%s end the connection", async (_, send) => {
    const rig = new WorkerRig();
    send(rig);
    expect((await rig.ended()).kind).toBe("retry");
    expect(rig.endings).toHaveLength(1);
  });

  it("a control message of a newer server asks for a reload", async () => {
    const rig = new WorkerRig();
    await rig.join();
    rig.worker.onMessage(new Uint8Array([1]));
    expect(await rig.ended()).toMatchObject({ kind: "refused" });
  });
});

describe("sampling", () => {
  const params = {
    temperature: 1.5, topP: 1, repetitionPenalty: 1, presencePenalty: 1, seed: 9n,
  };
  const run = { output: OutputKind.candidates, candidateCount: 2 };

  it("answers what it was told how to sample, and nothing else", async () => {
    const rig = new WorkerRig();
    await rig.join();
    await rig.giveStage(1, 0, 0, kLayers);
    rig.worker.onMessage(step({}, run));
    const failed = await rig.next("stepFailed");
    expect(failed.message).toBe("How session 1 samples in generation 0 was not told here.");
    rig.tell({ case: "sampling", value: { session: 1, generation: 1, params, tokens: [5] } });
    rig.worker.onMessage(step({ sequence: 2 }, { ...run, generation: 1 }));
    expect((await rig.nextResult()).header.sequence).toBe(2);
    expect(rig.engine.inputs.at(-1)!.runs[0]!.output).toMatchObject({
      kind: "candidates", count: 2, sampling: { temperature: 1.5, seen: new Map([[5, 1]]) },
    });
    rig.tell({ case: "sampling", value: { session: 1, generation: 1, tokens: [7] } });
    const draw = { output: OutputKind.draw, generation: 1, firstPosition: 1 };
    rig.worker.onMessage(step({ sequence: 3 }, draw));
    expect((await rig.nextResult(2)).header.sequence).toBe(3);
    const { output } = rig.engine.inputs.at(-1)!.runs[0]!;
    expect(output).toMatchObject({ kind: "draw", sampling: { seen: new Map([[5, 1], [7, 1]]) } });
  });

  it("does not go on with a server that says what cannot be", async () => {
    const rig = await working();
    rig.tell({ case: "sampling", value: { session: 1, generation: 1, tokens: [5] } });
    expect(await rig.ended()).toMatchObject({
      kind: "retry",
      message: "The server's sampling of session 1 continues generation 1, which was not begun " +
        "here.",
    });
  });
});

describe("stages", () => {
  it("downloads, loads and computes", async () => {
    const rig = await working();
    expect(rig.all("layerDownloaded").map(({ layer }) => layer)).toEqual([0, 1, 2]);
    const { weightFactor, usedBytes } = rig.all("prepared")[0]!;
    expect(usedBytes).toBe(3000n);
    expect(weightFactor).toBeGreaterThan(1); // 1000 of 3000 bytes a layer, and twice canonical KV
    expect(rig.status).toMatchObject({ phase: "ready", layers: [0, 3], download: null });
    rig.worker.onMessage(step({}, { count: 2 }));
    const { header, payload } = await rig.nextResult();
    expect(header).toMatchObject({ sequence: 1, binding: 1, stage: 0, rows: 2, columns: kHidden });
    // 0 + 3 layers in f16
    expect(new Uint16Array(payload.slice().buffer)).toEqual(new Uint16Array(8).fill(0x4200));
    await until(() => rig.status.rowsComputed === 2, "two rows");
  });

  it("an engine that knows better than its memory tells says what weights take", async () => {
    const factors = [];
    for (const factor of [2, 3]) {
      const rig = new WorkerRig();
      rig.makeEngine = () => Object.assign(new FakeEngine(), { weightFactor: () => factor });
      await rig.join();
      await rig.giveStage(1, 0, 0, 3);
      factors.push(rig.all("prepared")[0]!.weightFactor);
    }
    expect(factors[1]! - factors[0]!).toBe(1);
    expect(factors[0]).toBeGreaterThan(2); // keys and values beside
  });

  it("the last stage answers with a token", async () => {
    const rig = new WorkerRig();
    await rig.join();
    await rig.giveStage(1, 0, 0, kLayers);
    rig.worker.onMessage(step({}, { output: OutputKind.argmax }));
    const { payload } = await rig.nextResult();
    const view = new DataView(payload.buffer, payload.byteOffset);
    expect([view.getUint32(0, true), view.getFloat32(4, true), view.getFloat32(8, true)])
      .toEqual([3, 2.5, 0.5]);
  });

  it.each<[string, Uint8Array<ArrayBuffer>, string]>([
    ["an unprepared binding", step({ binding: 2 }), "Stage 0 of binding 2 is not prepared"],
    ["another stage", step({ stage: 1 }), "Stage 1 of binding 1 is not prepared"],
    ["a session in its middle", step({}, { firstPosition: 3 }), "must begin at position 0"],
    ["tokens from the last stage's head", step({}, { output: OutputKind.argmax }), "only the last"],
    ["a token that does not exist", tokenStep(99), "Token id 99 is outside the vocabulary of 16"],
  ])("refuses a step of %s", async (_, message, words) => {
    const rig = await working();
    rig.worker.onMessage(message);
    expect((await rig.next("stepFailed")).message).toContain(words);
    expect(rig.results()).toEqual([]);
    expect(rig.endings).toEqual([]);
    rig.worker.onMessage(step());
    await rig.nextResult(); // and nothing of it was kept
  });

  it("a position that was already computed is refused, a new generation may go back", async () => {
    const rig = await working();
    rig.worker.onMessage(step({ sequence: 1 }));
    rig.worker.onMessage(step({ sequence: 2 }));
    expect(await rig.next("stepFailed")).toMatchObject({ sequence: 2, code: "invalid_argument" });
    rig.worker.onMessage(step({ sequence: 3 }, { generation: 1 }));
    expect((await rig.nextResult(2)).header.sequence).toBe(3);
    rig.worker.onMessage(step({ sequence: 4 }, { firstPosition: 1 }));
    expect((await rig.next("stepFailed", 2)).message).toContain("generation 1");
  });

  it("two steps at once are answered in order, and their times add up", async () => {
    const rig = await working();
    const engine = rig.engines[0]!;
    const pause = (ms: number): Promise<void> => new Promise((later) => setTimeout(later, ms));
    const begin = performance.now();
    engine.gate = pause(40);
    rig.worker.onMessage(step({ sequence: 1 }));
    engine.gate = pause(60);
    rig.worker.onMessage(step({ sequence: 2 }, { session: 2 }));
    const times = [await rig.nextResult(), await rig.nextResult(2)].map(({ header }) => header);
    const elapsedUs = 1000 * (performance.now() - begin);
    expect(times.map(({ sequence }) => sequence)).toEqual([1, 2]);
    expect(times[0]!.computeUs + times[1]!.computeUs).toBeLessThan(elapsedUs);
    expect(times[1]!.queueUs + times[1]!.computeUs).toBeLessThan(elapsedUs);
    // One that is refused at once waits for the answer of the one before it.
    engine.gate = pause(20);
    rig.worker.onMessage(step({ sequence: 3 }, { firstPosition: 1 }));
    engine.gate = Promise.resolve();
    rig.worker.onMessage(step({ sequence: 4 }, { session: 2, firstPosition: 5 }));
    expect(await rig.next("stepFailed")).toMatchObject({ sequence: 4 });
    expect(rig.results().map(({ header }) => header.sequence)).toEqual([1, 2, 3]);
  });

  it("what cannot be fetched is said, and is no stage", async () => {
    const { fetch } = fakeServer(rigPackage, (path) =>
      path.includes("/blobs/") ? new Response("{}", { status: 404 }) : null);
    const broken = new WorkerRig(fetch);
    await broken.join();
    const layers = { first: 0, end: 2 };
    broken.tell({ case: "prepareStage", value: { binding: 1, stage: 0, layers } });
    expect(await broken.next("failed")).toMatchObject({ binding: 1, code: "not_found" });
    broken.worker.onMessage(step());
    expect((await broken.next("stepFailed")).message).toContain("binding 1 is not prepared");
  });

  it("layers that do not exist end the connection", async () => {
    for (const layers of [{ first: 2, end: 2 }, { first: 0, end: kLayers + 1 }, undefined]) {
      const rig = new WorkerRig();
      await rig.join();
      const value = { binding: 1, stage: 0, ...(layers ? { layers } : {}) };
      rig.tell({ case: "prepareStage", value });
      expect((await rig.ended()).message).toMatch(/named layers \d to \d of a model with 6/);
    }
  });

  it("layers that do not fit are reported and given back", async () => {
    const rig = new WorkerRig();
    rig.makeEngine = () => Object.assign(new FakeEngine(), { failLoadAt: 2 });
    await rig.join();
    const layers = { first: 0, end: 4 };
    rig.tell({ case: "prepareStage", value: { binding: 1, stage: 0, layers } });
    expect(await rig.next("failed")).toMatchObject({ binding: 1, code: "out_of_memory" });
    await until(() => rig.engine.loaded.size === 0, "room again");
    rig.engine.failLoadAt = -1;
    await rig.giveStage(2, 0, 0, 1); // and the session goes on
  });

  it("steps go between the layers of a stage that is loaded", async () => {
    const rig = await working();
    const { engine } = rig;
    let open = (): void => undefined;
    const opened = new Promise<void>((resolve) => (open = resolve));
    const order: string[] = [];
    const [load, compute] = [engine.load.bind(engine), engine.step.bind(engine)];
    engine.load = async (layers, source) => {
      order.push(`load ${layers.first}`);
      if (layers.first === 4) await opened;
      await load(layers, source);
    };
    engine.step = (input) => {
      order.push("step");
      return compute(input);
    };
    const layers = { first: 3, end: kLayers };
    rig.tell({ case: "prepareStage", value: { binding: 2, stage: 1, layers } });
    await until(() => order.includes("load 4"), "the second layer");
    rig.worker.onMessage(step());
    open();
    expect((await rig.next("prepared", 2)).binding).toBe(2);
    expect(order).toEqual(["load 3", "load 4", "step", "load 5"]);
    await rig.nextResult();
  });

  it("an engine that loads beside steps gets a stage's layers so, and no others", async () => {
    const rig = await working();
    let open = (): void => undefined;
    const opened = new Promise<void>((resolve) => (open = resolve));
    const order: string[] = [];
    const { engine } = rig;
    const load = engine.load.bind(engine);
    engine.load = (layers, source) => {
      order.push(`load ${layers.first}`);
      return load(layers, source);
    };
    engine.loadAhead = async (layer) => {
      order.push(`ahead ${layer}`);
      if (layer === 4) await opened;
      if (layer === 5) throw new EngineError("out_of_memory", "no room beside steps");
    };
    rig.tell({ case: "downloadLayers", value: { layers: [3] } });
    await rig.next("layerDownloaded", 4);
    expect(order).toEqual([]); // it is only kept
    const layers = { first: 3, end: kLayers };
    rig.tell({ case: "prepareStage", value: { binding: 2, stage: 1, layers, standby: true } });
    await until(() => order.includes("ahead 4"), "the second layer");
    rig.worker.onMessage(step());
    await rig.nextResult(); // which waits for nothing
    open();
    expect((await rig.next("prepared", 2)).binding).toBe(2);
    expect([...order].sort())
      .toEqual(["ahead 3", "ahead 4", "ahead 5", "load 3", "load 4", "load 5"]);
    for (const layer of [3, 4, 5]) {
      expect(order.indexOf(`ahead ${layer}`)).toBeLessThan(order.indexOf(`load ${layer}`));
    }
  });

  it("a stage that is retired is neither fetched nor loaded any further", async () => {
    let open = (): void => undefined;
    const opened = new Promise<void>((resolve) => (open = resolve));
    const { fetch, requests } = fakeServer(rigPackage);
    const later = rigPackage.digests.slice(1);
    const rig = new WorkerRig(async (url, request) => {
      if (later.some((digest) => url.endsWith(digest))) await opened;
      return await fetch(url, request);
    });
    await rig.join();
    const prepare = (binding: number, first: number, end: number): void =>
      rig.tell({ case: "prepareStage", value: { binding, stage: 0, layers: { first, end } } });
    prepare(1, 0, 6);
    await rig.next("layerDownloaded");
    prepare(2, 0, 1);
    rig.tell({ case: "retire", value: { bindings: [2], keep: [{ first: 0, end: 1 }] } });
    open();
    expect((await rig.next("prepared")).binding).toBe(2);
    expect([...rig.engine.loaded]).toEqual([0]);
    expect(requests.some((path) => later.some((digest) => path.endsWith(digest)))).toBe(false);
    rig.worker.onMessage(step());
    expect(await rig.next("stepFailed")).toMatchObject({ binding: 1 });
  });

  it("a new binding keeps what stays, and Retire unloads the rest", async () => {
    const rig = await working();
    rig.worker.onMessage(step());
    await rig.nextResult();
    const reads = rig.engine.reads.length;
    await rig.giveStage(2, 0, 0, 2);
    expect(rig.engine.reads).toHaveLength(reads);
    rig.worker.onMessage(step({ binding: 1 }, { firstPosition: 1 })); // both may compute
    await rig.nextResult(2);
    rig.tell({ case: "retire", value: { bindings: [2], keep: [{ first: 0, end: 2 }] } });
    await until(() => rig.engine.loaded.size === 2, "two layers");
    rig.worker.onMessage(step({ binding: 1 }));
    expect((await rig.next("stepFailed")).message).toContain("binding 1 is not prepared");
    rig.worker.onMessage(step({ binding: 2 }, { firstPosition: 2 }));
    await rig.nextResult(3); // the session's keys and values are still there
  });

  it("sessions that are over are forgotten, Release forgets everything", async () => {
    const rig = await working();
    rig.worker.onMessage(step());
    await rig.nextResult();
    rig.tell({ case: "invalidateSessions", value: { sessions: [1] } });
    rig.worker.onMessage(step());
    await rig.nextResult(2);
    rig.tell({ case: "release", value: {} });
    await until(() => rig.engine.loaded.size === 0, "nothing loaded");
    rig.worker.onMessage(step());
    await rig.next("stepFailed");
    await until(() => rig.status.phase === "idle", "idle");
  });

  it("measures with dummy input and leaves nothing behind", async () => {
    const rig = new WorkerRig();
    await rig.join();
    const ranges = [{ first: 1, end: 2 }, { first: 1, end: 4 }];
    const probes = [{ layers: { first: 2, end: 3 }, seed: 7n, rows: 2 }];
    rig.tell({ case: "measureSpeed", value: { ranges, runs: 3, probes } });
    const { timings, answers } = await rig.next("measured");
    expect(answers.map(({ digest, samples }) => [digest.length, samples.length]))
      .toEqual([[32, 2 * 4]]);
    expect(timings.map(({ layers, runUs }) => [layers?.first, layers?.end, runUs.length]))
      .toEqual([[1, 2, 3], [1, 4, 3]]);
    expect(timings.every(({ runUs }) => runUs.every((us) => us >= 1n))).toBe(true);
    await until(() => rig.engine.loaded.size === 0, "nothing loaded");
  });
});

describe("a share of the time", () => {
  it("rests in proportion before it answers", async () => {
    const rig = new WorkerRig(undefined, false, 0.25);
    await rig.join();
    await rig.giveStage(1, 0, 0, 3);
    const timers = vi.spyOn(globalThis, "setTimeout");
    rig.worker.onMessage(step());
    await rig.nextResult();
    const rests = timers.mock.calls.map(([, ms]) => ms);
    timers.mockRestore();
    expect(rests).toContain(rig.board.current.lastStepMs * 3);
  });

  it("counts as slower where it is measured", async () => {
    const rig = new WorkerRig(undefined, false, 0.25);
    await rig.join();
    const ranges = [{ first: 1, end: 2 }];
    rig.tell({ case: "measureSpeed", value: { ranges, runs: 3, probes: [] } });
    const { timings } = await rig.next("measured");
    expect(timings[0]?.runUs.map((us) => us % 4n)).toEqual([0n, 0n, 0n]);
  });
});

describe("downloads", () => {
  it("go on while the stage in use computes", async () => {
    let open = (): void => undefined;
    const opened = new Promise<void>((resolve) => (open = resolve));
    const { fetch } = fakeServer(rigPackage);
    const rig = new WorkerRig(async (url, request) => {
      if (url.endsWith(rigPackage.digests[5]!)) await opened;
      return await fetch(url, request);
    });
    await rig.join();
    await rig.giveStage(1, 0, 0, 3);
    rig.tell({ case: "downloadLayers", value: { layers: [5] } });
    rig.worker.onMessage(step());
    await rig.nextResult();
    expect(rig.all("layerDownloaded")).toHaveLength(3);
    open();
    expect(await rig.next("layerDownloaded", 4)).toMatchObject({
      layer: 5, byteCount: BigInt(kBlobBytes),
    });
  });

  it("that fail are reported, and the next one is tried", async () => {
    const { fetch } = fakeServer(rigPackage, (path) =>
      path.endsWith(rigPackage.digests[1]!) ? new Response("{}", { status: 404 }) : null);
    const rig = new WorkerRig(fetch);
    await rig.join();
    rig.tell({ case: "downloadLayers", value: { layers: [1] } });
    rig.tell({ case: "downloadLayers", value: { layers: [2] } });
    expect(await rig.next("failed")).toMatchObject({ binding: 0, code: "not_found" });
    expect((await rig.next("layerDownloaded")).layer).toBe(2);
    await until(() => rig.status.phase === "idle", "idle");
    expect(rig.status.message).toContain("404");
  });

  it("of standby layers make way for a stage, and go on where they were", async () => {
    const large = await fakePackage(kLayers, kChunkBytes + 1000);
    const server = fakeServer(large);
    const { digests } = large;
    let begin = (): void => undefined;
    const begun = new Promise<void>((resolve) => (begin = resolve));
    // The first download of layer 5 stops behind its first chunk, until it is interrupted.
    let isFirst = true;
    const rig = new WorkerRig(async (url, request) => {
      if (!url.endsWith(digests[5]!) || !isFirst) return await server.fetch(url, request);
      isFirst = false;
      const chunk = large.blobs.get(digests[5]!)!.slice(0, kChunkBytes);
      return new Response(new ReadableStream<Uint8Array>({
        start: (controller) => {
          controller.enqueue(chunk);
          request.signal?.addEventListener("abort", () => controller.error(new Error("ended")));
        },
        pull: () => begin(),
      }));
    });
    rig.tell(init({ packageDigest: large.digest }));
    await rig.next("connect");
    rig.tell({ case: "downloadLayers", value: { layers: [5, 4] } });
    await begun;
    await until(() => rig.cache.heldBytes(digests[5]!) === kChunkBytes, "a chunk");
    await rig.giveStage(1, 0, 0, 2);
    expect(rig.all("layerDownloaded").map(({ layer }) => layer).slice(0, 2)).toEqual([0, 1]);
    await rig.next("layerDownloaded", 4);
    expect(rig.all("layerDownloaded").map(({ layer }) => layer)).toEqual([0, 1, 5, 4]);
    expect(server.requests).toContain(`/package/blobs/${digests[5]} bytes=${kChunkBytes}-`);
    expect(rig.all("failed")).toEqual([]);
  });
});

describe("an engine that fails", () => {
  it("one step fails that step; three in a row end the connection for a new engine", async () => {
    const rig = await working();
    const lost = new EngineError("unavailable", "The GPU was lost.");
    rig.engine.failNextStep = lost;
    rig.worker.onMessage(step());
    expect(await rig.next("stepFailed")).toMatchObject({
      sequence: 1, code: "unavailable", message: "The GPU was lost.",
    });
    rig.worker.onMessage(step());
    await rig.nextResult();
    expect(rig.endings).toEqual([]);
    for (let failure = 2; failure <= 4; ++failure) {
      rig.engine.failNextStep = lost;
      rig.worker.onMessage(step({}, { firstPosition: 1 }));
      await rig.next("stepFailed", failure);
    }
    expect(await rig.ended()).toEqual({
      kind: "engineStopped", message: "The engine has stopped working: The GPU was lost.",
    });
  });

  it("the same where a stage cannot be loaded any more", async () => {
    const rig = await working();
    const lost = new EngineError("unavailable", "The GPU was lost.");
    rig.engine.load = () => Promise.reject(lost);
    for (let binding = 2; binding <= 4; ++binding) {
      const layers = { first: 3, end: 5 };
      rig.tell({ case: "prepareStage", value: { binding, stage: 0, layers } });
      await rig.next("failed", binding - 1);
    }
    expect((await rig.ended()).message).toContain("has stopped working: The GPU was lost.");
  });

  it("refused steps are not the engine's failure", async () => {
    const rig = await working();
    for (let i = 1; i <= 5; ++i) {
      rig.worker.onMessage(step({ binding: 7 }));
      await rig.next("stepFailed", i);
    }
    expect(rig.endings).toEqual([]);
  });
});

describe("coming back", () => {
  it("says what is held, and goes on without loading or timing anything", async () => {
    const rig = await working();
    await rig.giveStage(2, 1, 1, 3);
    rig.worker.onMessage(step({}, { count: 4 }));
    await rig.nextResult();
    const reads = rig.engine.reads.length;
    rig.worker.lost();
    rig.connect();
    await rig.join();
    expect(rig.all("connect")[0]).toMatchObject({
      cachedLayers: [0, 1, 2],
      downloadBytesPerS: 5e6,
      held: [
        { id: 1, stage: 0, layers: { first: 0, end: 3 }, sessions: [1], positions: [4] },
        { id: 2, stage: 1, layers: { first: 1, end: 3 }, sessions: [1], positions: [4] },
      ],
    });
    expect(rig.probeCount).toBe(1);
    expect(rig.silenceMs).toBe(3000);
    rig.worker.onMessage(step({ sequence: 9 }, { firstPosition: 4 }));
    expect((await rig.nextResult()).header.sequence).toBe(9);
    expect([rig.engines.length, rig.engine.reads.length]).toEqual([1, reads]);
    expect(rig.status.phase).toBe("ready");
  });

  it("a step that outlives its connection is finished and not answered", async () => {
    const rig = await working();
    let open = (): void => undefined;
    rig.engine.gate = new Promise<void>((resolve) => (open = resolve));
    rig.worker.onMessage(step({ sequence: 1 }));
    rig.worker.onMessage(step({ sequence: 2 }, { firstPosition: 1 }));
    await new Promise((resolve) => setImmediate(resolve));
    rig.worker.lost();
    rig.connect();
    rig.tell(init());
    rig.tell({ case: "ping", value: { nonce: 77n } });
    expect(rig.all("pong")).toHaveLength(1);
    open();
    const { held } = await rig.next("connect");
    const claims = [{ session: 1, generation: 0, positions: 1, marks: [] }];
    expect(held).toMatchObject([{ id: 1, sessions: [1], positions: [1], claims }]);
    expect(rig.engine.inputs).toHaveLength(1);
    expect(rig.results()).toEqual([]);
  });

  it("to another swarm as a worker that holds nothing", async () => {
    const rig = await working();
    rig.worker.lost();
    rig.connect();
    await rig.join({ swarmId: new Uint8Array(16).fill(2) });
    expect(rig.all("connect")[0]!.held).toEqual([]);
    expect(rig.probeCount).toBe(2);
    expect(rig.engine.isDisposed).toBe(true);
    await rig.giveStage(1, 0, 0, 3);
    expect(rig.engines).toHaveLength(2);
    rig.worker.onMessage(step());
    await rig.nextResult();
  });

  it("to a server whose package has changed, with that one", async () => {
    const other = await fakePackage(kLayers - 1, kBlobBytes);
    let served = rigPackage;
    const rig = new WorkerRig((url, request) => fakeServer(served).fetch(url, request));
    await rig.join();
    await rig.giveStage(1, 0, 0, 3);
    rig.worker.lost();
    rig.connect();
    served = other;
    await rig.join({ packageDigest: other.digest, layerCount: kLayers - 1 });
    expect(rig.all("connect")[0]!.held).toEqual([]);
    await rig.giveStage(1, 0, 0, kLayers - 1);
  });

  it("what is kept for nobody is freed when its time is over", async () => {
    const rig = new WorkerRig();
    await rig.join({ resumeMs: 5 });
    await rig.giveStage(1, 0, 0, 3);
    rig.worker.lost();
    await until(() => rig.engine.loaded.size === 0, "nothing loaded");
    expect(rig.status.layers).toBeNull();
  });
});

describe("the end", () => {
  it("who leaves answers what it was sent", async () => {
    const rig = await working();
    let open = (): void => undefined;
    rig.engine.gate = new Promise<void>((resolve) => (open = resolve));
    rig.worker.onMessage(step({ sequence: 1 }));
    rig.worker.sayLeaving("stopped", true);
    rig.worker.onMessage(step({ sequence: 2 }, { firstPosition: 1 }));
    expect(rig.all("leaving")).toMatchObject([{ reason: "stopped", draining: true }]);
    open();
    expect((await rig.nextResult(2)).header.sequence).toBe(2);
  });

  it("a ping is answered while a step computes", async () => {
    const rig = await working();
    rig.engine.gate = new Promise(() => undefined);
    rig.worker.onMessage(step());
    rig.tell({ case: "ping", value: { nonce: 77n } });
    expect(rig.all("pong")).toMatchObject([{ nonce: 77n }]);
    expect(rig.results()).toEqual([]);
  });

  it("close waits for the step, starts no other and frees the engine", async () => {
    const rig = await working();
    let open = (): void => undefined;
    rig.engine.gate = new Promise<void>((resolve) => (open = resolve));
    rig.worker.onMessage(step({ sequence: 1 }));
    rig.worker.onMessage(step({ sequence: 2 }, { firstPosition: 1 }));
    await new Promise((resolve) => setImmediate(resolve));
    const closed = rig.worker.close();
    rig.tell({ case: "ping", value: { nonce: 1n } });
    open();
    await closed;
    expect(rig.engine.isDisposed).toBe(true);
    expect(rig.engine.inputs).toHaveLength(1);
    expect(rig.results()).toEqual([]); // nobody is there to take it
    expect(rig.all("pong")).toEqual([]);
  });

  it("leaving is said with its reason", () => {
    const rig = new WorkerRig();
    rig.worker.sayLeaving("the tab was closed", false);
    expect(rig.all("leaving")).toMatchObject([{ reason: "the tab was closed", draining: false }]);
  });
});

function tokenStep(id: number): Uint8Array<ArrayBuffer> {
  const message = step();
  new DataView(message.buffer).setInt32(message.length - 4, id, true);
  return message;
}
