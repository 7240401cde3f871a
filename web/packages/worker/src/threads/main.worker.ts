// Entry of the dedicated Worker that helps: gives the host what the browser has.
import {
  chooseProvider,
  createOrtEngine,
  findAdapter,
  guessWeightFactor,
  isFallback,
} from "@weft/engine-ort";

import { describeBrowser } from "./browser.ts";
import { WorkerHost } from "./host.ts";
import type { EngineOffer, EngineWish, Socket, SocketEvents } from "./hostParts.ts";
import type { EngineChoice, ToWorker } from "./messages.ts";
import { BlobThreads } from "../download/blobThreads.ts";
import type { ThreadPort } from "../download/blobThreads.ts";
import { OpfsStore } from "../download/opfsStore.ts";
import { opfsTuneStore } from "./opfsTuneStore.ts";
import { ownEngine } from "./ownEngine.ts";

function deviceText(adapter: GPUAdapter | null): string {
  const browser = describeBrowser(navigator.userAgent, navigator.hardwareConcurrency);
  const info = adapter?.info; // older Safaris have none
  const gpu = [info?.vendor, info?.architecture].filter(Boolean).join(" ");
  return gpu === "" ? browser : `${browser}, GPU ${gpu}`;
}

// Our own engine wherever there is a GPU, onnxruntime-web where there is none and for packages
// without programs. A software adapter computes more slowly than wasm, so only who asks gets it.
async function chooseEngine(wish: EngineWish): Promise<EngineOffer> {
  const mayUseOwn = wish === "auto" || wish === "webgpu";
  const adapter = mayUseOwn ? await findAdapter().catch(() => null) : null;
  if (adapter && (wish === "webgpu" || !isFallback(adapter))) {
    return ownEngine(navigator.gpu, deviceText(adapter), opfsTuneStore());
  }
  return await onnxEngine(wish === "onnx" ? "auto" : wish);
}

async function onnxEngine(choice: EngineChoice): Promise<EngineOffer> {
  const provider = await chooseProvider(choice);
  const adapter = provider === "webgpu" ? await findAdapter() : null;
  return {
    name: `ort-${provider}`,
    needsOnnx: true,
    makesTokens: 0,
    stepsInFlight: 1,
    stepsFollow: false,
    takesExperts: false,
    keepsState: false,
    statesAhead: false,
    dtypes: [],
    usesGpu: provider === "webgpu",
    device: deviceText(adapter),
    guessWeightFactor: (quantisation) => guessWeightFactor(provider, quantisation),
    make: (memoryBytes, alsoHeld, { quantisation }) =>
      createOrtEngine(provider, memoryBytes, alsoHeld, quantisation, opfsTuneStore()),
  };
}

function openSocket(url: string, events: SocketEvents): Socket {
  const socket = new WebSocket(url);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => events.onOpen();
  socket.onmessage = ({ data }: MessageEvent<unknown>) => {
    // Text is nothing that the server sends: membership refuses an empty message.
    events.onMessage(data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(0));
  };
  socket.onclose = ({ code, reason }) => events.onClose(undefined, { code, reason });
  return socket;
}

function obstacle(): string {
  if (self.isSecureContext) return "";
  return (
    "This page was opened over plain http from another device: browsers give it no hashing and " +
    "no cache there. Use the https address of 'weft serve --share'."
  );
}

// As many blobs come at once (packageSource.ts); one core is left to what computes.
const kMostFetchThreads = 4;

function startFetchThread(onGone: (why: string) => void): ThreadPort {
  const worker = new Worker(new URL("./fetch.worker.ts", import.meta.url), { type: "module" });
  worker.onerror = ({ message }) => onGone(message || "A thread that downloads could not start.");
  return worker;
}

const fetchThreadCount =
  Math.max(1, Math.min(kMostFetchThreads, navigator.hardwareConcurrency - 1));

const host = new WorkerHost({
  kind: "web",
  withoutGpu: "",
  openSocket,
  knowServers: () => undefined,
  fetch: (url, init) => fetch(url, init),
  blobFetcher: new BlobThreads(fetchThreadCount, startFetchThread),
  openStore: () => OpfsStore.open(),
  chooseEngine,
  publish: (message) => self.postMessage(message),
  now: () => performance.now(),
  random: () => crypto.getRandomValues(new Uint32Array(1))[0]! / 2 ** 32,
  obstacle,
});

self.onmessage = ({ data }: MessageEvent<ToWorker>) => host.onMessage(data);
