// The cost model's formula on a small picture, errors, and the swarms that it is compared on.
import assert from "node:assert/strict";
import { test } from "node:test";

import { stagesNeeded } from "../lib/offers.mjs";
import { ablations, splits, validations } from "./configurations.mjs";
import { quotaOf } from "./cpu_quota.mjs";
import { errorsOf, estimateUs, partsOf, tokenUs } from "./estimates.mjs";
import { offersOf } from "./measure.mjs";

const manifest = {
  name: "m", hidden_columns: 100, vocabulary: 50, boundary_dtype: "f16",
  layers: Array.from({ length: 10 }, () => ({ weight_bytes: 1e6, kv_bytes_per_position: 100 })),
};
const picture = {
  workers: [
    { id: 7, us_per_token: 900, latency_ms: 0.5, handover_us: -100, download_bytes_per_s: 1e6,
      upload_bytes_per_s: 1e6 },
    { id: 9, us_per_token: 400, latency_ms: 2, handover_us: 100, download_bytes_per_s: 2e6,
      upload_bytes_per_s: 0.5e6 },
  ],
  stages: [
    { worker: 9, first_layer: 0, end_layer: 4 }, { worker: 7, first_layer: 4, end_layer: 10 },
  ],
};

test("a token costs overhead, compute, latency and transfer of every stage", () => {
  const parts = partsOf(picture, manifest);
  // Stage 1: a token in, a row of 200 bytes out, at 2 bytes a us and half a byte; stage 2: a row
  // in, argmax out.
  assert.deepEqual(parts, { overhead: 80, compute: 1300, latency: 2500,
    bandwidth: (56 + 4) / 2 + (56 + 200) / 0.5 + (56 + 200 + 56 + 12) / 1 });
  assert.equal(estimateUs(parts), 80 + 1300 + 2500 + 30 + 512 + 324);
  assert.equal(estimateUs(parts, "latency"), 80 + 1300 + 30 + 512 + 324);
});

test("errors are absolute and relative to what was measured", () => {
  const errors = errorsOf([{ predictedUs: 1100, measuredUs: 1000 },
    { predictedUs: 1000, measuredUs: 2000 }]);
  assert.equal(errors.mae_ms, 0.55);
  assert.equal(errors.mape, 30);
  assert.equal(errors.count, 2);
});

test("the time per token leaves the first one out", () => {
  assert.equal(tokenUs({ times: [50, 60, 80], usage: { completion_tokens: 4 } }), 10_000);
});

test("at least 40 swarms validate the model, in three settings, each with its own name", () => {
  const all = validations(["tiny", "0.6b"]);
  assert.ok(all.length >= 40, `${all.length}`);
  assert.equal(new Set(all.map(({ name }) => name)).size, all.length);
  for (const setting of ["homogeneous", "heterogeneous", "network"]) {
    assert.ok(all.filter((each) => each.setting === setting).length >= 12, setting);
  }
});

test("quotas are shares of their period, and no shorter than the kernel takes", () => {
  for (const core of [0.17, 0.25, 0.5, 1, 2]) {
    const { quotaUs, periodUs } = quotaOf(core);
    assert.ok(quotaUs >= 1000, `${core}`);
    assert.ok(Math.abs(quotaUs / periodUs - core) < 0.002, `${core}`);
  }
});

test("equal offers hold the largest equal part and no layer more, others leave room", () => {
  for (const configuration of splits("tiny")) {
    const { split, needed, devices } = configuration;
    const offers = offersOf(configuration, manifest, 256);
    assert.equal(offers.length, devices.length);
    assert.equal(stagesNeeded(manifest, 256, offers[0]), needed ?? 1, configuration.name);
    if (split !== "equal") continue;
    const part = Math.ceil(10 / needed);
    const layerBytes = 1e6 + 256 * 100;
    const held = Math.floor((offers[0] - 128 * 100 * 4 * 32) / layerBytes);
    assert.equal(held, part, configuration.name);
  }
});

test("the slow network of the ablation slows what the thesis slowed", () => {
  const [fast, slow] = ablations("tiny").map(({ devices }) => devices);
  assert.ok(fast.every(({ delayMs, upBytesPerS }) => delayMs === 0 && upBytesPerS === 0));
  const named = Object.fromEntries(slow.map((device) => [device.name, device]));
  assert.equal(named.aidos.delayMs, 52.5);
  assert.equal(named.pgx.downBytesPerS, 128e3);
  assert.equal(named.nano.downBytesPerS, 10e6);
});
