// The cells that halo_series_bench.mjs measures, most wanted first: on 16 cores, a thread a device.
//
// A series is { name, package, helpers, kinds, losses, ... }: each of its helpers and kinds is a
// run of halo_bench.mjs over all of its losses, with the other fields as options. `package` is a
// key of --packages. Runs of distributed-llama have the package's `shape` with random weights.
const k8B = { package: "8B", hub: "700MiB", helper: "700MiB", tokens: 16,
  shape: { shape: "8B", layers: 8, vocabulary: 4096 } };
const kSmall = { package: "0.6B", hub: "190MiB", helper: "170MiB", tokens: 12,
  shape: { shape: "0.6B", vocabulary: 4096 } };
const kA3B = { package: "30B-A3B", losses: [0], hub: "2GiB", tokens: 12, repeat: 2, helpers: [3] };
const kMixtral = { kinds: ["experts"], losses: [0], hub: "160MiB", helper: "1GiB", tokens: 16,
  copies: "1", delays: [1] };
const kAtLoss = { losses: [0, 5], delays: [1] };
const kByDelay = { losses: [0], delays: [0.1, 1, 5] };
// Table 3 of the paper on experts has round trips of 0.5, 2, 10 and 50 ms.
const kRoundTrips = [0.25, 1, 5, 25];

export const kSeries = [
  // Table I and figure 8, and the gain of more devices.
  { name: "8B", ...k8B, ...kAtLoss, helpers: [0, 1, 3, 7], kinds: ["udp"] },
  { name: "8B over TCP", ...k8B, ...kAtLoss, helpers: [7, 3, 1], kinds: ["tcp"], tokens: 6,
    repeat: 1 },
  { name: "8B of the peer", ...k8B, ...kAtLoss, helpers: [7, 3, 1], kinds: ["dllama"], tokens: 6,
    repeat: 1 },
  { name: "8B at 10 Gbit/s", ...k8B, losses: [0], delays: [0.1], mbit: 10000,
    helpers: [1, 3, 7], kinds: ["udp"] },
  // Each expert with all holders, so that so many can be asked for it.
  ...["1", "2", "3", "auto"].map((copies) => ({ name: `30B-A3B with ${copies} at once`, ...kA3B,
    kinds: ["experts"], helper: "20GiB", copies, delays: kRoundTrips })),
  { name: "30B-A3B on GPUs", ...kA3B, kinds: ["experts-gpu"], helper: "20GiB", copies: "1",
    delays: kRoundTrips },
  // Few and large experts, whole and in parts.
  { name: "8x7B", package: "8x7B", ...kMixtral, helpers: [3, 7] },
  { name: "8x7B in parts", package: "8x7B-parts", ...kMixtral, helpers: [3, 7] },
  { name: "0.6B", ...kSmall, ...kAtLoss, helpers: [0, 1, 3, 7], kinds: ["udp"] },
  { name: "0.6B over TCP", ...kSmall, ...kAtLoss, helpers: [7, 3, 1], kinds: ["tcp"], tokens: 4,
    repeat: 1 },
  { name: "0.6B of the peer", ...kSmall, ...kAtLoss, helpers: [7, 3, 1], kinds: ["dllama"],
    tokens: 6, repeat: 1 },
  // Which way of dividing is the fastest by delay, and whether `auto` takes it.
  { name: "8B by delay", ...k8B, ...kByDelay, helpers: [3, 1], kinds: ["layers", "udp", "auto"] },
  { name: "0.6B by delay", ...kSmall, ...kByDelay, helpers: [3, 1],
    kinds: ["layers", "udp", "auto"] },
];

// What cells are called in the file: by the package, and by how many are asked for an expert.
const labelOf = ({ package: key, copies }) =>
  (copies === undefined ? key : `${key}, ${copies} at once`);

// The arguments of halo_bench.mjs for one of a series' helpers and kinds.
export function argumentsOf(series, helpers, kind, { packages, weft, dllama, json }) {
  const { package: key, losses, delays, shape } = series;
  const rest = Object.fromEntries(Object.entries(series).filter(([field]) =>
    ["hub", "helper", "tokens", "repeat", "copies", "mbit"].includes(field)));
  const own = kind === "dllama" ? { ...shape, dllama } : { package: packages[key] };
  const all = { ...rest, ...own, weft, kinds: kind, helpers, loss: losses.join(),
    "delay-ms": delays.join(), label: labelOf(series), json };
  return Object.entries(all).flatMap(([option, value]) => [`--${option}`, String(value)]);
}

// Whether the file's cells, parsed, have what such a run measures.
export function isMeasured(series, helpers, kind, cells) {
  const { losses, delays, mbit = 1000 } = series;
  const lines = delays.flatMap((delay) => losses.map((loss) => ({ loss, delay })));
  return (helpers === 0 ? lines.slice(0, 1) : lines).every(({ loss, delay }) =>
    cells.some((cell) => cell.label === labelOf(series) && cell.helpers === helpers &&
      cell.kind === kind && cell.loss === loss && cell.delay_ms === delay && cell.mbit === mbit));
}
