// Offers that make a model need as many workers as it should; order statistics.
import assert from "node:assert/strict";
import { test } from "node:test";

import { leastOffer, offerFor, stageBytes, stagesNeeded } from "./offers.mjs";
import { percentile, seededRandom, shuffled } from "./statistics.mjs";

const layer = (weightBytes, kvBytes) =>
  ({ weight_bytes: weightBytes, kv_bytes_per_position: kvBytes });
const manifest = {
  name: "m", hidden_columns: 1, vocabulary: 100,
  layers: [layer(2e6, 0), ...Array.from({ length: 8 }, () => layer(1e6, 1000)), layer(2e6, 0)],
};

test("a stage needs weights, keys and values, and scratch; the last one logits", () => {
  const scratch = 128 * 4 * 32;
  assert.equal(stageBytes(manifest, 500, 1, 3), 2 * (1e6 + 500 * 1000) + scratch);
  assert.equal(stageBytes(manifest, 500, 9, 10), 2e6 + scratch + 400);
});

test("with the offer as many workers are needed as asked for, and no byte less would do", () => {
  for (const count of [1, 2, 3, 5]) {
    const least = leastOffer(manifest, 500, count);
    assert.ok(stagesNeeded(manifest, 500, least) <= count);
    assert.ok(stagesNeeded(manifest, 500, least - 1) > count);
    const offer = offerFor(manifest, 500, count);
    assert.ok(offer >= least);
    assert.equal(stagesNeeded(manifest, 500, offer), count);
  }
  assert.equal(stagesNeeded(manifest, 500, 1000), Infinity);
  assert.throws(() => offerFor(manifest, 500, 11), /need exactly 11 workers/);
});

test("percentiles are values that occurred", () => {
  const values = [5, 1, 4, 2, 3];
  assert.equal(percentile(values, 50), 3);
  assert.equal(percentile(values, 99), 5);
  assert.equal(percentile(values, 0), 1);
  assert.ok(Number.isNaN(percentile([], 50)));
});

test("one seed gives one order, and every order is a permutation", () => {
  const values = [1, 2, 3, 4, 5, 6, 7];
  const once = shuffled(values, seededRandom(4));
  assert.deepEqual(shuffled(values, seededRandom(4)), once);
  assert.deepEqual([...once].sort(), values);
  const random = seededRandom(9);
  const mean = Array.from({ length: 10_000 }, random).reduce((a, b) => a + b) / 10_000;
  assert.ok(Math.abs(mean - 0.5) < 0.02);
});
