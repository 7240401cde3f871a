// Stands in for the help worker in tests of the join page and while working on it: it computes
// nothing. What the page tells it, and the statuses that a test wants it to send, go over the
// BroadcastChannel "fake-worker"; without a test it plays a short story by itself.
/* global self, BroadcastChannel, setTimeout */
const channel = new BroadcastChannel("fake-worker");
let isDirected = false;
let offer = null;

function status(change) {
  self.postMessage({
    kind: "status",
    status: {
      phase: "connecting", message: "Connecting to the server.", engine: "", modelName: "",
      layers: null, download: null, memoryBytes: offer?.memoryBytes ?? 0, usedBytes: 0,
      cachedBytes: 0, keepsWeights: true, engineDetail: "", rowsComputed: 0, stepsComputed: 0,
      lastStepMs: 0, rowsPerSecond: 0, trafficBytes: 0,
      ...change,
    },
  });
}

channel.onmessage = ({ data }) => {
  if (data.kind !== "play") return;
  isDirected = true;
  status(data.status);
};

const held = {
  engine: "ort-wasm", modelName: "weft-tiny", layers: [4, 7], usedBytes: 5_200_000,
  cachedBytes: 4_900_000,
};

const story = [
  [300, { phase: "measuring", message: "Measuring the speed of this device." }],
  ...[1, 2, 3, 4, 5].map((part) => [400, {
    phase: "downloading", message: "Downloading layers 4–6.", engine: "ort-wasm",
    download: { doneBytes: part * 980_000, totalBytes: 4_900_000 },
  }]),
  [700, { phase: "loading", message: "Warming up.", engine: "ort-wasm" }],
  [900, { ...held, phase: "ready", message: "Waiting for the next step." }],
  ...[1, 2, 3, 4, 5, 6, 7, 8].map((step) => [500, {
    ...held, phase: "computing", message: "Computing for a chat.", rowsComputed: 30 * step,
    stepsComputed: 20 * step, lastStepMs: 3.1 + (step % 3) / 4, rowsPerSecond: 41.5,
  }]),
];

function play(scene) {
  const next = story[scene];
  if (!next || isDirected || !offer) return;
  setTimeout(() => {
    if (isDirected || !offer) return;
    status(next[1]);
    play(scene + 1);
  }, next[0]);
}

self.onmessage = ({ data }) => {
  channel.postMessage({ kind: "told", message: data });
  if (data.kind === "start") {
    offer = data;
    status({});
    play(0);
  } else if (data.kind === "stop") {
    offer = null;
    status({ phase: "stopped", message: "Stopped." });
  } else if (data.kind === "forgetCache") {
    status({ phase: "stopped", message: "The cached weights are deleted.", cachedBytes: 0 });
  }
};
