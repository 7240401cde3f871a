// Entry of the dedicated Worker that helps: gives the host what the browser has.
import { chooseProvider, createOrtEngine, findAdapter, guessWeightFactor } from "@weft/engine-ort";

import { describeBrowser } from "./browser.ts";
import { WorkerHost } from "./host.ts";
import type { EngineOffer, Socket, SocketEvents } from "./hostParts.ts";
import type { EngineChoice, ToWorker } from "./messages.ts";
import { OpfsStore } from "./opfsStore.ts";

async function chooseEngine(choice: EngineChoice): Promise<EngineOffer> {
  const provider = await chooseProvider(choice);
  const adapter = provider === "webgpu" ? await findAdapter() : null;
  const browser = describeBrowser(navigator.userAgent, navigator.hardwareConcurrency);
  const gpu = [adapter?.info.vendor, adapter?.info.architecture].filter(Boolean).join(" ");
  return {
    name: `ort-${provider}`,
    needsOnnx: true,
    device: gpu === "" ? browser : `${browser}, GPU ${gpu}`,
    guessWeightFactor: (quantisation) => guessWeightFactor(provider, quantisation),
    make: (memoryBytes, alsoHeld) => createOrtEngine(provider, memoryBytes, alsoHeld),
  };
}

function openSocket(url: string, events: SocketEvents): Socket {
  const socket = new WebSocket(url);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => events.onOpen();
  socket.onmessage = ({ data }: MessageEvent<unknown>) => {
    // Text is nothing that the server sends: the session refuses an empty message.
    events.onMessage(data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(0));
  };
  socket.onclose = () => events.onClose();
  return socket;
}

function obstacle(): string {
  if (self.isSecureContext) return "";
  return (
    "This page was opened over plain http from another device: browsers give it no hashing and " +
    "no cache there. Use the https address of 'weft serve --share'."
  );
}

const host = new WorkerHost({
  openSocket,
  fetch: (url, init) => fetch(url, init),
  openStore: () => OpfsStore.open(),
  chooseEngine,
  publish: (message) => self.postMessage(message),
  now: () => performance.now(),
  random: () => crypto.getRandomValues(new Uint32Array(1))[0]! / 2 ** 32,
  obstacle,
});

self.onmessage = ({ data }: MessageEvent<ToWorker>) => host.onMessage(data);
