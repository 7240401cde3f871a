// The worker of a tab over its connections: what it says to the page, when it comes back, how it
// leaves. Sockets and time are the test's.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { EngineError, KernelRefusedError } from "@weft/engine";
import { decodeWorkerMessage, encodeServerMessage } from "@weft/wire/test/orchestrator.ts";
import type { WorkerMessage } from "@weft/wire/test/orchestrator.ts";

import { MemoryStore } from "../download/blobStore.ts";
import { WorkerHost } from "./host.ts";
import type {
  EngineOffer,
  EngineWish,
  HostParts,
  Socket,
  SocketEvents,
  Start,
} from "./hostParts.ts";
import type { WorkerStatus } from "./messages.ts";
import { FakeEngine, fakePackage, fakeServer } from "../test/fakes.ts";
import { init } from "../test/workerRig.ts";

const kStart: Start = {
  kind: "start",
  serverOrigin: "https://server:8443",
  joinToken: "token",
  name: "A tab",
  workerId: "id",
  memoryBytes: 20_000,
  isPhone: false,
  engine: "auto",
};

class FakeSocket implements Socket {
  readonly url: string;
  readonly events: SocketEvents;
  readonly sent: WorkerMessage["kind"][] = [];
  isClosed = false;

  constructor(url: string, events: SocketEvents) {
    this.url = url;
    this.events = events;
  }
  send(message: Uint8Array<ArrayBuffer>): void {
    this.sent.push(decodeWorkerMessage(message).kind);
  }
  close(): void {
    this.isClosed = true;
  }
}

let sockets: FakeSocket[];
let statuses: WorkerStatus[];
let choices: EngineWish[];
let store: MemoryStore;
let obstacle: string;
let withoutGpu: string;
let host: WorkerHost;
let makeEngine: () => Promise<FakeEngine>;
let probe: EngineOffer["probe"] | null;
let needsOnnx: boolean;
let known: string[]; // origins of servers that it may connect to

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  sockets = [];
  statuses = [];
  choices = [];
  store = new MemoryStore(() => true);
  obstacle = "";
  withoutGpu = "";
  makeEngine = () => Promise.resolve(new FakeEngine());
  needsOnnx = true;
  probe = null;
  known = [];
  host = new WorkerHost(parts());
});
afterEach(() => vi.useRealTimers());

function parts(fetch: HostParts["fetch"] = () => Promise.reject(new TypeError("offline"))):
HostParts {
  return {
    kind: "web",
    withoutGpu,
    openSocket: (url, events) => {
      const socket = new FakeSocket(url, events);
      sockets.push(socket);
      return socket;
    },
    knowServers: (servers) => (known = servers.map(({ origin }) => origin)),
    fetch,
    blobFetcher: null,
    openStore: () => Promise.resolve(store),
    chooseEngine: (wish) => {
      choices.push(wish);
      return Promise.resolve({
        name: wish === "wasm" ? "ort-wasm" : "ort-webgpu",
        needsOnnx: wish === "onnx" || needsOnnx,
        makesTokens: wish === "onnx" || needsOnnx ? 0 : 1,
        stepsInFlight: 1,
        stepsFollow: false,
        takesExperts: false,
        keepsState: wish !== "onnx" && !needsOnnx,
        statesAhead: false,
        dtypes: [],
        usesGpu: wish !== "wasm",
        device: "A browser",
        guessWeightFactor: () => 1,
        make: () => makeEngine(),
        ...(probe && wish !== "wasm" ? { probe } : {}),
      });
    },
    publish: ({ status }) => statuses.push(status),
    now: () => Date.now(),
    random: () => 0.5,
    obstacle: () => obstacle,
  };
}

// Lets promises go on, without time.
async function turn(): Promise<void> {
  for (let i = 0; i < 20; ++i) await new Promise((resolve) => setImmediate(resolve));
}

async function started(start = kStart): Promise<FakeSocket> {
  host.onMessage(start);
  await turn();
  const socket = sockets.at(-1)!;
  socket.events.onOpen();
  return socket;
}

const kPing = encodeServerMessage({ case: "ping", value: { nonce: 1n } });

// Time goes by on a connection whose server pings.
async function pinged(socket: FakeSocket, ms: number): Promise<void> {
  for (let rest = ms; rest > 0; rest -= 2000) {
    socket.events.onMessage(kPing);
    await vi.advanceTimersByTimeAsync(Math.min(rest, 2000));
  }
}

// Waits until `check` does not throw any more: promises go on, and the clock of the tests too.
async function eventually(check: () => void): Promise<void> {
  const endMs = performance.now() + 10_000;
  for (;;) {
    try {
      return check();
    } catch (error) {
      if (performance.now() > endMs) throw error;
      await turn();
      sockets.at(-1)?.events.onMessage(kPing); // hashing takes real time: the link is not silent
      await vi.advanceTimersByTimeAsync(50);
    }
  }
}

const last = (): WorkerStatus => statuses.at(-1)!;

// The board publishes at most ten times a second.
async function published(): Promise<WorkerStatus> {
  await vi.advanceTimersByTimeAsync(100);
  return last();
}

describe("starting", () => {
  it("connects nowhere before it is told to, then to the page's own server", async () => {
    await turn();
    expect([sockets, statuses]).toEqual([[], []]);
    const socket = await started();
    expect(socket.url).toBe("wss://server:8443/worker");
    expect(await published()).toMatchObject({
      phase: "connecting", message: "Connecting to server:8443.",
    });
  });

  it("a page that may not help says why and connects nowhere", async () => {
    obstacle = "Use https.";
    host.onMessage(kStart);
    await turn();
    expect(last()).toMatchObject({ phase: "refused", message: "Use https." });
    expect(sockets).toEqual([]);
  });

  it("a stop while the engine is chosen opens no socket", async () => {
    host.onMessage(kStart);
    host.onMessage({ kind: "stop" });
    await turn();
    expect(sockets).toEqual([]);
    expect(last().phase).toBe("stopped");
  });
});

describe("coming back", () => {
  it("after a lost connection: at once, then with pauses that double", async () => {
    const heard: string[] = [];
    let socket = await started();
    socket.events.onClose();
    expect(sockets).toHaveLength(2);
    expect(await published()).toMatchObject({
      phase: "reconnecting",
      message: "The connection to the server was lost. Connecting to server:8443.",
    });
    socket = sockets.at(-1)!;
    for (const pauseMs of [1000, 2000, 4000]) {
      socket.events.onClose();
      const { phase, message } = await published();
      heard.push(message);
      expect(phase).toBe("reconnecting");
      const count = sockets.length;
      await vi.advanceTimersByTimeAsync(pauseMs - 101);
      await turn();
      expect(sockets).toHaveLength(count);
      await vi.advanceTimersByTimeAsync(1);
      await turn();
      expect(sockets).toHaveLength(count + 1);
      socket = sockets.at(-1)!;
    }
    expect(heard).toEqual([
      "The server does not answer, or refuses this worker. Trying again in 1 s.",
      "The server does not answer, or refuses this worker. Trying again in 2 s.",
      "The server does not answer, or refuses this worker. Trying again in 4 s.",
    ]);
  });

  it("begins without a pause again after a connection that lasted", async () => {
    let socket = await started();
    const rounds = [
      [100, "lost. Connecting to"], [100, "Trying again in 1 s."],
      [21_000, "lost. Connecting to"], [100, "Trying again in 1 s."],
    ] as const;
    for (const [lastedMs, words] of rounds) {
      await pinged(socket, lastedMs);
      socket.events.onClose();
      expect((await published()).message).toContain(words);
      await vi.advanceTimersByTimeAsync(2000);
      await turn();
      socket = sockets.at(-1)!;
      socket.events.onOpen();
    }
  });

  it("after three pings that did not come, as after a lost connection", async () => {
    const socket = await started();
    await pinged(socket, 20_000);
    expect(sockets).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(4100); // two seconds have gone by since the last one
    expect(last()).toMatchObject({
      phase: "reconnecting",
      message: "The server has not been heard for 6 s. Connecting to server:8443.",
    });
    expect(socket.isClosed).toBe(true);
    socket.events.onMessage(kPing); // what was on its way
    await vi.advanceTimersByTimeAsync(1000);
    await turn();
    expect(sockets).toHaveLength(2);
  });

  it("after a pause where the server asks for one", async () => {
    const socket = await started();
    socket.events.onMessage(encodeServerMessage({
      case: "refused", value: { code: "unavailable", message: "There is no room." },
    }));
    expect(socket.isClosed).toBe(true);
    expect(await published()).toMatchObject({
      phase: "reconnecting", message: "There is no room. Trying again in 1 s.",
    });
    await vi.advanceTimersByTimeAsync(800);
    expect(sockets).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(200);
    await turn();
    expect(sockets).toHaveLength(2);
  });

  it("soon to a server that cannot lead yet", async () => {
    let socket = await started();
    for (let round = 1; round <= 6; ++round) {
      socket.events.onClose(undefined, { code: 4307, reason: "" });
      await vi.advanceTimersByTimeAsync(260);
      await turn();
      expect(sockets).toHaveLength(1 + round);
      socket = sockets.at(-1)!;
      socket.events.onOpen();
    }
    socket.events.onClose(undefined, { code: 4307, reason: "" });
    expect((await published()).message).toContain("cannot take this device yet. Trying again");
  });

  it("to the next server at once, and to one that the server names", async () => {
    const start = {
      ...kStart, moreServers: [{ origin: "https://b:1", fingerprint: "" }],
    };
    const socket = await started(start);
    expect(known).toEqual(["https://server:8443", "https://b:1"]);
    socket.events.onClose();
    expect(sockets.at(-1)!.url).toBe("wss://b:1/worker");
    sockets.at(-1)!.events.onClose(undefined, { code: 4307, reason: "wss://c:1" });
    expect(sockets.at(-1)!.url).toBe("wss://c:1/worker");
    expect(known).toContain("https://c:1");
    sockets.at(-1)!.events.onClose(undefined, { code: 4307, reason: "wss://server:8443" });
    await vi.advanceTimersByTimeAsync(260);
    await turn();
    expect(sockets.at(-1)!.url).toBe("wss://server:8443/worker");
  });

  it("where one of several servers refuses it, and not where all do", async () => {
    const refusal = { message: "Another token.", isFinal: true };
    host.onMessage({ ...kStart, moreServers: [{ origin: "https://b:1", fingerprint: "" }] });
    await turn();
    sockets.at(-1)!.events.onClose(refusal);
    expect(sockets.at(-1)!.url).toBe("wss://b:1/worker");
    sockets.at(-1)!.events.onClose(refusal);
    expect(last()).toMatchObject({ phase: "refused", message: "Another token." });
  });

  it("not after a refusal", async () => {
    const socket = await started();
    const message = "The worker speaks protocol version 1, this server 2: reload the page.";
    socket.events.onMessage(
      encodeServerMessage({ case: "refused", value: { code: "unsupported", message } }));
    await turn();
    expect(last()).toMatchObject({ phase: "refused", message });
    socket.events.onClose();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(sockets).toHaveLength(1);
    expect(socket.isClosed).toBe(true);
  });

  it("not where another attempt would end in the same way", async () => {
    const socket = await started();
    socket.events.onClose({ message: "It was open: this is a lost line.", isFinal: true });
    expect((await published()).phase).toBe("reconnecting");
    await turn();
    sockets[1]!.events.onClose({ message: "Another server's certificate.", isFinal: true });
    await published();
    expect(last()).toMatchObject({ phase: "refused", message: "Another server's certificate." });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(sockets).toHaveLength(2);
  });

  it("not after a stop", async () => {
    const socket = await started();
    socket.events.onClose();
    sockets[1]!.events.onClose();
    host.onMessage({ kind: "stop" });
    await vi.advanceTimersByTimeAsync(60_000);
    await turn();
    expect(sockets).toHaveLength(2);
  });
});

describe("what browsers do otherwise", () => {
  it("a socket that throws is one that closes, and is tried again", async () => {
    host = new WorkerHost({
      ...parts(),
      openSocket: () => {
        throw new DOMException("The operation is insecure.", "SecurityError");
      },
    });
    host.onMessage(kStart);
    await turn();
    expect((await published()).message).toMatch(
      /opens no connection to wss:\/\/server:8443\/worker: .*insecure/);
    expect(last().phase).toBe("reconnecting");
    host.onMessage({ kind: "stop" });
  });

  it("a WebGPU that throws gives way to the processor", async () => {
    const whole = parts();
    host = new WorkerHost({
      ...whole,
      chooseEngine: async (wish) => {
        const offer = await whole.chooseEngine(wish);
        if (wish === "auto") throw new TypeError("e.info is undefined");
        return offer;
      },
    });
    await started();
    expect(choices).toEqual(["auto", "wasm"]);
    expect(await published()).toMatchObject({ phase: "connecting", engine: "ort-wasm" });
  });

  it.each([
    ["answers", true, "The server answers, but this browser opens no WebSocket to it."],
    ["does not answer either", false, "The server does not answer, or refuses this worker."],
  ])("after two sockets that never opened the server is asked: it %s", async (_, ok, words) => {
    const asked: string[] = [];
    host = new WorkerHost(parts((url) => {
      asked.push(url);
      return ok
        ? Promise.resolve({ ok, status: 200, statusText: "", body: null,
          json: () => Promise.resolve(null) })
        : Promise.reject(new TypeError("offline"));
    }));
    host.onMessage(kStart);
    await turn();
    for (let count = 1; count <= 2; ++count) {
      expect(asked).toEqual([]);
      sockets.at(-1)!.events.onClose();
      await turn();
      if (count === 2) break;
      await vi.advanceTimersByTimeAsync(5000);
      await turn();
    }
    expect(asked).toEqual(["https://server:8443/healthz"]);
    expect((await published()).message).toContain(words);
    host.onMessage({ kind: "stop" });
  });

  it("says where nothing is kept for the next time", async () => {
    host = new WorkerHost({ ...parts(), openStore: () => Promise.resolve(null) });
    await started();
    expect(await published()).toMatchObject({ keepsWeights: false, cachedBytes: 0 });
  });

  it("takes no more than half of a phone's offer to find out what its GPU gives", async () => {
    const asked: number[] = [];
    probe = (bytes) => {
      asked.push(bytes);
      return Promise.resolve(bytes);
    };
    host.onMessage({ ...kStart, isPhone: true });
    await turn();
    expect(asked).toEqual([10_000]);
    expect(await published()).toMatchObject({ memoryBytes: 20_000 });
  });
});

describe("leaving", () => {
  const kStopped = { phase: "stopped", layers: null, download: null, usedBytes: 0 } as const;

  it("a closing tab says so to the server and to the page, and is gone", async () => {
    const socket = await started();
    host.onMessage({ kind: "leaving" });
    const value = { reason: "the tab was closed", draining: false };
    expect(socket.sent).toMatchObject([{ case: "leaving", value }]);
    expect(socket.isClosed).toBe(true);
    expect(last()).toMatchObject(kStopped);
  });

  it("a stop waits until the server has closed the connection", async () => {
    const socket = await started();
    host.onMessage({ kind: "stop" });
    host.onMessage({ kind: "stop" });
    const value = { reason: "stopped by its user", draining: true };
    expect(socket.sent).toMatchObject([{ case: "leaving", value }]);
    expect(await published()).toMatchObject({ message: "Finishing what it computes." });
    expect(socket.isClosed).toBe(false);
    socket.events.onClose();
    expect(last()).toMatchObject(kStopped);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(sockets).toHaveLength(1);
  });

  it.each<[string, number, () => void]>([
    ["two seconds", 2000, () => undefined],
    ["the tab being closed meanwhile", 0, () => host.onMessage({ kind: "leaving" })],
  ])("a stop waits no longer than %s", async (_, ms, hurry) => {
    const socket = await started();
    host.onMessage({ kind: "stop" });
    await vi.advanceTimersByTimeAsync(Math.max(0, ms - 1));
    expect(socket.isClosed).toBe(false);
    hurry();
    if (ms > 0) await vi.advanceTimersByTimeAsync(1);
    expect(socket.isClosed).toBe(true);
    expect(socket.sent).toHaveLength(1);
    expect(last()).toMatchObject(kStopped);
  });

  it("a start while it leaves takes a connection of its own", async () => {
    const first = await started();
    host.onMessage({ kind: "stop" });
    const second = await started();
    expect(first.isClosed).toBe(true);
    expect(second).not.toBe(first);
    await vi.advanceTimersByTimeAsync(2500);
    expect(second.isClosed).toBe(false);
  });

  it("a second start leaves the first connection", async () => {
    const first = await started();
    const second = await started();
    expect(first.sent).toMatchObject([{ value: { reason: "started anew" } }]);
    expect(second).not.toBe(first);
    first.events.onClose();
    await vi.advanceTimersByTimeAsync(5000);
    expect(sockets).toHaveLength(2);
  });

  it("forgetting the cache says that nothing is kept", async () => {
    let cleared = 0;
    store.clear = () => Promise.resolve(void (cleared += 1));
    host.onMessage({ kind: "forgetCache" });
    await turn();
    expect(cleared).toBe(1);
    expect(last().cachedBytes).toBe(0);
  });
});

// The same over a package, where an engine is made.
describe("with work", () => {
  let packageDigest: Uint8Array<ArrayBuffer>;

  async function giveStage(blobBytes: number, start = kStart): Promise<FakeSocket> {
    const fake = await fakePackage(6, blobBytes);
    packageDigest = fake.digest;
    host = new WorkerHost(parts(fakeServer(fake).fetch));
    return await prepare(await started(start));
  }

  async function prepare(socket: FakeSocket): Promise<FakeSocket> {
    socket.events.onOpen();
    socket.events.onMessage(encodeServerMessage(init({ packageDigest })));
    await eventually(() => expect(sent(socket)).toContain("connect"));
    const layers = { first: 0, end: 6 };
    socket.events.onMessage(encodeServerMessage({
      case: "prepareStage", value: { binding: 1, stage: 0, layers },
    }));
    return socket;
  }

  const sent = (socket: FakeSocket): (string | undefined)[] =>
    socket.sent.map((kind) => kind.case);

  it("what is loaded outlives a server that is full, and is told to its successor", async () => {
    const first = await giveStage(1000);
    await eventually(() => expect(sent(first)).toContain("prepared"));
    first.events.onClose();
    const second = sockets.at(-1)!;
    second.events.onOpen();
    const successors = [{ url: "wss://b:1", fingerprint: "" }];
    second.events.onMessage(encodeServerMessage(init({ packageDigest, successors })));
    await eventually(() => expect(sent(second)).toContain("connect"));
    second.events.onMessage(encodeServerMessage({
      case: "refused", value: { code: "unavailable", message: "There is no room." },
    }));
    const third = sockets.at(-1)!;
    expect(third.url).toBe(`wss://b:1/worker?swarm=${"01".repeat(16)}`);
    third.events.onOpen();
    third.events.onMessage(encodeServerMessage(init({ packageDigest })));
    await eventually(() => expect(sent(third)).toContain("connect"));
    expect(third.sent[0]!.value).toMatchObject({ held: [{ id: 1 }] });
  });

  it("what is loaded outlives the connection, and the next one is told of it", async () => {
    let made = 0;
    makeEngine = () => {
      made += 1;
      return Promise.resolve(new FakeEngine());
    };
    const first = await giveStage(1000);
    await eventually(() => expect(sent(first)).toContain("prepared"));
    await eventually(() => expect(last()).toMatchObject({ phase: "ready", layers: [0, 6] }));
    first.events.onClose();
    expect(await published()).toMatchObject({ phase: "reconnecting", layers: [0, 6] });
    const second = sockets[1]!;
    second.events.onOpen();
    second.events.onMessage(encodeServerMessage(init({ packageDigest })));
    await eventually(() => expect(sent(second)).toContain("connect"));
    expect(second.sent[0]!.value).toMatchObject({ held: [{ id: 1 }] });
    expect(made).toBe(1);
    await eventually(() => expect(last()).toMatchObject({ phase: "ready", layers: [0, 6] }));
    // Silence as Init wants it: three turns, counted from the last that was heard.
    await vi.advanceTimersByTimeAsync(4000);
    const messages = statuses.map(({ message }) => message);
    expect(messages).toContain("The server has not been heard for 3 s. Trying again in 0.3 s.");
    host.onMessage({ kind: "stop" });
  });

  it("a GPU that cannot be used after all gives way to the processor", async () => {
    makeEngine = () => Promise.reject(new EngineError("unavailable", "No device."));
    await giveStage(1000);
    await eventually(() => expect(last().phase).toBe("reconnecting"));
    expect(last().message).toContain("The GPU cannot be used here: the processor computes");
    await eventually(() => expect(choices).toEqual(["auto", "wasm"]));
    host.onMessage({ kind: "stop" });
  });

  it("a refused kernel gives way to the processor, and the card says why", async () => {
    const refused = new FakeEngine();
    refused.load = () => Promise.reject(new KernelRefusedError("matvec", "no such type"));
    let made = 0;
    makeEngine = () => Promise.resolve(made++ === 0 ? refused : new FakeEngine());
    await giveStage(1000);
    await eventually(() => expect(last().phase).toBe("reconnecting"));
    const why = "The GPU's driver refuses kernel 'matvec': no such type";
    expect(last().message).toContain(why);
    await eventually(() => expect(sockets.length).toBe(2));
    expect(choices).toEqual(["auto", "wasm"]);
    const socket = await prepare(sockets[1]!);
    await eventually(() => expect(sent(socket)).toContain("prepared"));
    await eventually(() => expect(last().message).toContain(why));
    host.onMessage({ kind: "stop" });
  });

  it("a GPU whose engine stops working twice gives way to the processor", async () => {
    makeEngine = () => {
      const engine = new FakeEngine();
      engine.load = () => Promise.reject(new EngineError("unavailable", "It refused a command."));
      return Promise.resolve(engine);
    };
    let socket = await giveStage(1000);
    for (let stop = 1; stop <= 2; ++stop) {
      for (let failures = 1; failures <= 3; ++failures) {
        await eventually(() =>
          expect(sent(socket).filter((kind) => kind === "failed").length).toBe(failures));
        const value = { binding: failures + 1, stage: 0, layers: { first: 0, end: 6 } };
        socket.events.onMessage(encodeServerMessage({ case: "prepareStage", value }));
      }
      await eventually(() => expect(sockets.length).toBe(stop + 1));
      if (stop === 1) socket = await prepare(sockets[stop]!);
    }
    const why = "The engine has stopped working: It refused a command.";
    expect(statuses.some(({ message }) => message.includes(why))).toBe(true);
    expect(choices).toEqual(["auto", "auto", "wasm"]);
    host.onMessage({ kind: "stop" });
  });

  it.each([
    ["cannot be made", () => Promise.reject(new EngineError("unavailable", "No device."))],
    ["refuses a kernel", () => {
      const refused = new FakeEngine();
      refused.load = () => Promise.reject(new KernelRefusedError("matvec", "no such type"));
      return Promise.resolve(refused);
    }],
  ])("a GPU that %s ends a worker that has nothing else", async (_, make) => {
    withoutGpu = "Another program may help.";
    makeEngine = make;
    await giveStage(1000);
    await eventually(() => expect(last().phase).toBe("refused"));
    expect(last().message).toMatch(/(No device|no such type)\b.* Another program may help\.$/);
    expect(choices).toEqual(["auto"]);
  });

  it("a package without programs ends a worker that runs nothing else", async () => {
    withoutGpu = "Another program may help.";
    needsOnnx = false;
    const fake = await fakePackage(6, 1000); // its layers are ONNX
    host = new WorkerHost(parts(fakeServer(fake).fetch));
    const socket = await started();
    socket.events.onMessage(encodeServerMessage(init({ packageDigest: fake.digest })));
    await eventually(() => expect(last().phase).toBe("refused"));
    expect(last().message)
      .toBe("This model has no programs, only ONNX graphs. Another program may help.");
  });

  it("promises no more memory than the GPU gives, and says so", async () => {
    probe = () => Promise.resolve(15_000);
    const socket = await giveStage(1000);
    const connect = socket.sent.find((kind) => kind.case === "connect");
    expect(connect?.value).toMatchObject({ memoryBytes: 15_000n });
    await eventually(() => expect(last().message).toContain("The GPU gives"));
    host.onMessage({ kind: "stop" });
  });

  it("a GPU without memory gives way to the processor", async () => {
    probe = () => Promise.resolve(0);
    await giveStage(1000);
    expect(choices).toEqual(["auto", "wasm"]);
    host.onMessage({ kind: "stop" });
  });

  it("memory that was offered of a card is not taken from the system", async () => {
    probe = () => Promise.resolve(0);
    const socket = await giveStage(1000, { ...kStart, processorBytes: 9_000 });
    const connect = socket.sent.find((kind) => kind.case === "connect");
    expect(connect?.value).toMatchObject({ memoryBytes: 9_000n });
    await eventually(() => expect(last().message).toContain("The processor lends"));
    host.onMessage({ kind: "stop" });
  });

  it("a GPU that is lost is opened once more, then the tab leaves and says why", async () => {
    const losses: ((reason: string) => void)[] = [];
    makeEngine = () => {
      const lost = new Promise<string>((resolve) => losses.push(resolve));
      return Promise.resolve(Object.assign(new FakeEngine(), { lost }));
    };
    const first = await giveStage(1000);
    await eventually(() => expect(losses.length).toBe(1));
    losses[0]!("the driver restarted");
    await eventually(() => expect(last().phase).toBe("reconnecting"));
    expect(last().message).toContain("The GPU was lost: the driver restarted.");
    expect(sent(first).at(-1)).toBe("leaving");
    await eventually(() => expect(sockets.length).toBe(2));
    await prepare(sockets[1]!);
    await eventually(() => expect(losses.length).toBe(2));
    losses[1]!("it is gone");
    await eventually(() => expect(last().phase).toBe("refused"));
    expect(last().message).toBe("The GPU was lost: it is gone.");
  });

  it("a package without programs goes to an engine that runs graphs", async () => {
    needsOnnx = false;
    const fake = await fakePackage(6, 1000); // not lowered
    host = new WorkerHost(parts(fakeServer(fake).fetch));
    const socket = await started();
    socket.events.onMessage(encodeServerMessage(init({ packageDigest: fake.digest })));
    await eventually(() => expect(last().phase).toBe("reconnecting"));
    expect(sent(socket)).not.toContain("connect");
    await eventually(() => expect(choices).toEqual(["auto", "onnx"]));
    host.onMessage({ kind: "stop" });
  });

  it("downloads never pass the offer where nothing outlives the tab", async () => {
    const opened = store;
    store = null as unknown as MemoryStore; // no file system in this browser
    let giveEngine = (): void => undefined; // until then nothing leaves the tab's memory
    makeEngine = () => new Promise((resolve) => {
      giveEngine = () => resolve(new FakeEngine());
    });
    const socket = await giveStage(5000); // 6 layers of 5,000 bytes; 20,000 are offered
    await eventually(() => expect(sent(socket)).toContain("failed"));
    const failed = socket.sent.find((kind) => kind.case === "failed");
    expect(failed?.value).toMatchObject({ binding: 1, code: "out_of_memory" });
    expect(Math.max(...statuses.map(({ usedBytes }) => usedBytes))).toBeLessThanOrEqual(20_000);
    giveEngine();
    host.onMessage({ kind: "stop" });
    store = opened;
  });
});
