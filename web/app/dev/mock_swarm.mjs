// Pictures of swarms that never were, in the JSON of GET /api/swarm: for working on the page
// without weft, and for the page's tests.

const kLayers = 10; // embedding, 8 transformer layers, head
const kMiB = 2 ** 20;

// `first` and `end` are the layers it runs; without them it runs nothing.
export function device(id, name, { first = -1, end = -1, ...more } = {}) {
  const cached = [];
  for (let layer = Math.max(0, first); layer < end; layer += 1) cached.push(layer);
  return {
    id,
    name,
    kind: "web",
    engine: "ort-wasm",
    device: "8 threads",
    state: first >= 0 ? "active" : "idle",
    memory_bytes: 512 * kMiB,
    used_bytes: first >= 0 ? (end - first) * 1.6 * kMiB : 0,
    first_layer: first,
    end_layer: end,
    cached_layers: cached,
    downloaded_bytes: 0,
    download_total_bytes: 0,
    latency_ms: 3.4,
    download_bytes_per_s: 24e6,
    us_per_token: first >= 0 ? 900 * (end - first) : 0,
    speed_bytes_per_us: 900,
    computing: false,
    tokens_computed: 0,
    bytes_sent: 0,
    bytes_received: 0,
    steps: { count: 0, rows: 0, queue_us: 0, compute_us: 0, passed_us: 0 },
    problem: "",
    ...more,
  };
}

export function picture(state, devices, more = {}) {
  const running = devices.filter((worker) => worker.first_layer >= 0);
  const isUp = state === "up";
  const stages = running.map((worker) => ({
    worker: worker.id,
    first_layer: worker.first_layer,
    end_layer: worker.end_layer,
    predicted_us: worker.us_per_token * 0.95 + 1000,
    measured_us: worker.us_per_token + 1100,
    loss_us: null,
  }));
  const sum = (key) => stages.reduce((total, stage) => total + stage[key], 0);
  return {
    state,
    message: `Ready: ${devices.length} devices compute the model.`,
    missing_memory_bytes: 0,
    model: {
      name: "weft-tiny", architecture: "qwen3", quantisation: "f16", layers: kLayers,
      weight_bytes: 14_680_064, context_length: 1024,
    },
    plan_version: isUp ? 3 : 0,
    predicted_us_per_token: isUp ? sum("predicted_us") : 0,
    measured_us_per_token: isUp ? sum("measured_us") : 0,
    tokens_per_second: 0,
    active_requests: 0,
    queued_requests: 0,
    completed_requests: 41,
    failed_requests: 0,
    generated_tokens: 5210,
    covered_layers: new Array(kLayers).fill(state !== "down"),
    stages: isUp ? stages : [],
    standbys: [],
    history_bytes: 3 * kMiB,
    history_limit_bytes: 1024 * kMiB,
    workers: devices,
    ...more,
  };
}

export function threeDevices() {
  return [
    device(1, "this server", {
      first: 0, end: 4, kind: "native", engine: "native-cpu", device: "2 threads, AVX-512",
      latency_ms: 0.2, tokens_computed: 18_412, us_per_token: 1450,
      bytes_sent: 4_100_000, bytes_received: 9_300_000,
      steps: { count: 18_412, rows: 20_000, queue_us: 5_523_600, compute_us: 26_697_400,
        passed_us: 40_000_000 },
    }),
    device(2, "Heron, Chrome on Linux", { first: 4, end: 7, tokens_computed: 9_120 }),
    device(3, "Otter, Safari on iPhone", {
      first: 7, end: 10, device: "iPhone", engine: "ort-webgpu", latency_ms: 11.8,
      memory_bytes: 256 * kMiB, tokens_computed: 9_120,
    }),
  ];
}

// A day in which the swarm rested, worked, lost a device for a while, and was down for a moment.
export function dayOfHistory() {
  const level = (step_s, count) => {
    const steps = Array.from({ length: count }, (_, index) => index / count);
    return {
      step_s,
      tokens_per_s: steps.map((at) =>
        at < 0.1 ? null : Math.max(0, Math.round(18 * Math.sin(9 * at) + 9 * Math.sin(40 * at)))),
      devices: steps.map((at) =>
        at < 0.1 ? null : at < 0.35 ? 1 : at > 0.6 && at < 0.7 ? 2 : 3),
      up: steps.map((at) => (at < 0.1 ? null : at > 0.62 && at < 0.66 ? 0 : 1)),
    };
  };
  return { levels: [level(10, 360), level(300, 288)] };
}

export const swarms = {
  up: () => picture("up", threeDevices()),
  alone: () => picture("up", [
    device(1, "this server", { first: 0, end: 10, kind: "native", engine: "native-cpu" }),
  ], { message: "Ready: 1 device computes the model." }),
  spare: () => picture("up", [
    ...threeDevices(),
    device(4, "Wren, Firefox on Windows", {
      state: "standby", cached_layers: [4, 5, 6, 7, 8, 9], used_bytes: 11 * kMiB,
    }),
    device(5, "Old tablet in the kitchen", {
      problem: "It would slow the swarm down, so it holds no layers.", latency_ms: 48,
    }),
  ]),
  down: () => picture("down", [
    device(2, "Heron, Chrome on Linux", { cached_layers: [0, 1, 2, 3] }),
  ], {
    message: "This swarm needs 1.2 GB more memory: open the join link on another device.",
    missing_memory_bytes: 1_200_000_000,
    covered_layers: [true, true, true, true, ...new Array(kLayers - 4).fill(false)],
  }),
  // A server of several models that has loaded none.
  idle: () => picture("idle", [], {
    message: "No model is loaded. Ask one, and it will be.",
    model: { name: "", architecture: "", quantisation: "", layers: 0, weight_bytes: 0,
      context_length: 0 },
    covered_layers: [],
  }),
  empty: () => picture("down", [], {
    message: "No device computes for this swarm yet: open the join link on a device.",
  }),
  preparing: () => picture("preparing", [
    device(1, "this server", { kind: "native", engine: "native-cpu", state: "preparing" }),
    device(2, "Heron, Chrome on Linux", {
      state: "preparing", downloaded_bytes: 3_400_000, download_total_bytes: 9_800_000,
    }),
  ], { message: "Preparing: 2 devices load their layers (34%)." }),
  repairing: () => {
    const [first, , last] = threeDevices();
    const spare = device(4, "Wren, Firefox on Windows", { state: "standby" });
    return picture("repairing", [first, last, spare], {
      message: "A device has gone: another one takes over its layers.",
      stages: [
        { worker: 1, first_layer: 0, end_layer: 4, loss_us: 850_000 },
        { worker: 0, first_layer: 4, end_layer: 7, loss_us: null, filled_by: [4] },
        { worker: 3, first_layer: 7, end_layer: 10, loss_us: 0 },
      ],
      standbys: [
        { worker: 4, first_layer: 7, end_layer: 10, loaded: true, lag_rows: 5 },
        { worker: 4, first_layer: 0, end_layer: 4, loaded: false, lag_rows: 120 },
      ],
    });
  },
};
