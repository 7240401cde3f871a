// The cost model's time per token with what a swarm has measured while it ran, its parts, and how
// far estimates are from what a client saw. Pure arithmetic on pictures of /api/swarm.
import { mean, sum } from "../lib/statistics.mjs";

// docs/planner.md: delta, and what a frame carries beside its rows (src/wire/data_frame.h).
const kDeltaUs = 40;
const kFrameBytes = 40 + 16;
const kArgmaxBytes = 12;
const kTokenBytes = 4;

// {overhead, compute, latency, bandwidth} in us per token, summed over the stages. `us_per_token`
// is a stage's own time, with the overhead of its session in it.
export function partsOf(picture, manifest) {
  const rowBytes = manifest.hidden_columns * (manifest.boundary_dtype === "f32" ? 4 : 2);
  const workers = new Map(picture.workers.map((worker) => [worker.id, worker]));
  const parts = { overhead: 0, compute: 0, latency: 0, bandwidth: 0 };
  for (const { worker: id, first_layer: first, end_layer: end } of picture.stages) {
    const worker = workers.get(id);
    const down = kFrameBytes + (first === 0 ? kTokenBytes : rowBytes);
    const up = kFrameBytes + (end === manifest.layers.length ? kArgmaxBytes : rowBytes);
    parts.overhead += kDeltaUs;
    parts.compute += worker.us_per_token;
    parts.latency += worker.latency_ms * 1000 + worker.handover_us;
    parts.bandwidth += (down / worker.download_bytes_per_s) * 1e6 +
      (up / worker.upload_bytes_per_s) * 1e6;
  }
  return parts;
}

// Of all parts but one.
export function estimateUs(parts, without = null) {
  return sum(Object.entries(parts).map(([name, us]) => (name === without ? 0 : us)));
}

// {mae_ms, mape, count} of [{predictedUs, measuredUs}].
export function errorsOf(pairs) {
  const off = pairs.map(({ predictedUs, measuredUs }) => Math.abs(predictedUs - measuredUs));
  return {
    mae_ms: mean(off) / 1000,
    mape: mean(off.map((error, i) => error / pairs[i].measuredUs)) * 100,
    count: pairs.length,
  };
}

// The client's time per token of one answer.
export function tokenUs({ times, usage }) {
  return ((times.at(-1) - times[0]) * 1000) / (usage.completion_tokens - 1);
}
