// The swarms of the cost model's bench: devices by how much of a core they get and how their link
// is, in the settings of dynamic-graph-partitioning 7.3 (validation), 7.4 (splits) and 7.5
// (ablation).

// Table 7.2: tokens per second of the thesis' devices, the fastest of which gets a whole core.
const kTokensPerSecond = { aidos: 59.22, thor: 48.08, pgx: 25.23, agx: 18.94, nano: 9.96 };

function device(core, link = {}) {
  return { core, threads: 1, delayMs: 0, downBytesPerS: 0, upBytesPerS: 0, ...link };
}

export const kDevices = Object.fromEntries(Object.entries(kTokensPerSecond).map(([name, rate]) =>
  [name, { ...device(rate / kTokensPerSecond.aidos), name }]));

const cores = (...shares) => shares.map((share) => device(share));
const slowed = (shares, link) => shares.map((share) => device(share, link));
const { aidos, thor, pgx, agx, nano } = kDevices;

// Every worker is needed. A delay is each way.
const kSettings = {
  homogeneous: [
    cores(1), cores(1, 1), cores(1, 1, 1), cores(1, 1, 1, 1),
    cores(0.5), cores(0.5, 0.5), cores(0.25, 0.25, 0.25), [{ ...device(2), threads: 2 }],
  ],
  heterogeneous: [
    [aidos, thor], [aidos, pgx, nano], [agx, nano], [thor, pgx, agx], [pgx, pgx, nano],
    [aidos, thor, pgx, agx, nano],
  ],
  network: [
    slowed([1], { delayMs: 10 }),
    slowed([1, 1], { delayMs: 5 }),
    slowed([1, 0.5], { delayMs: 2, downBytesPerS: 10e6, upBytesPerS: 10e6 }),
    // Figure 7.5: 20 ms, 10 MB/s towards the worker, 2 MB/s from it.
    slowed([1, 1, 1], { delayMs: 10, downBytesPerS: 10e6, upBytesPerS: 2e6 }),
    [{ ...aidos, delayMs: 50 }, thor, pgx],
    [aidos, { ...pgx, downBytesPerS: 128e3, upBytesPerS: 128e3 }],
    slowed([0.81, 0.43, 0.32], { delayMs: 25 }),
    slowed([1, 1], { downBytesPerS: 1e6, upBytesPerS: 1e6 }),
  ],
};

// [{name, model, setting, devices}]: the validation of the model.
export function validations(models) {
  return models.flatMap((model) => Object.entries(kSettings).flatMap(([setting, swarms]) =>
    swarms.map((devices, i) => ({ name: `${model}-${setting}-${i + 1}`, model, setting, devices }))
  ));
}

// All five devices of table 7.2. `needed` workers are forced by memory: equal offers that hold
// ceil(layers / needed) layers and no more, or offers with room for the planner to shift layers;
// needed null: every device could hold the model.
export function splits(model) {
  const devices = [aidos, thor, pgx, agx, nano];
  const of = (split, needed) =>
    ({ name: `${model}-${split}-${needed ?? "free"}`, model, split, needed, devices });
  return [of("equal", 3), of("dynamic", 3), of("equal", 5), of("dynamic", 5), of("dynamic", null)];
}

// 7.5: all five devices are needed, in a fast network and in the thesis' slowed one: 5 ms, 50 MB/s
// to the server and 10 MB/s from it for all, 100 ms for Aidos, 128 KB/s for Pgx.
export function ablations(model) {
  const all = [aidos, thor, pgx, agx, nano];
  const slow = all.map((each) => ({ ...each, downBytesPerS: 10e6, upBytesPerS: 50e6,
    delayMs: each === aidos ? 52.5 : 2.5, ...(each === pgx
      ? { downBytesPerS: 128e3, upBytesPerS: 128e3 } : {}) }));
  return [["fast", all], ["slow", slow]].map(([network, devices]) =>
    ({ name: `${model}-ablation-${network}`, model, network, devices }));
}
