// Gemma 4 against a second implementation (tools/convert_oracle/gemma4.mjs), which is held against
// transformers first. The embedding factor is the one number between the two that no file of the
// test data has: there it is a made-up one, in the published models the root of the hidden size. So
// it is searched for, and with what is found all logits must be those of transformers.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { writeReference } from '../../tools/convert_oracle/dequantize.mjs';
import { Gemma4 } from '../../tools/convert_oracle/gemma4.mjs';
import { readSafetensors } from '../../tools/onnx_check/reference.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const data = process.env.WEFT_DATA ?? join(root, '..', 'shared', 'data');
const checkpoints = join(data, 'checkpoints-2026');
const greedySteps = 24;

function logitsOf(model, ids) {
  model.clear();
  return ids.flatMap((id) => model.next(id));
}

function worstOf(actual, expected) {
  return actual.reduce((worst, value, i) => Math.max(worst, Math.abs(value - expected[i])), 0);
}

/** The factor with the smallest error over the first positions, between 0.5 and 2. */
function findFactor(model, ids, expected) {
  let [low, high] = [0.5, 2];
  let best = 1;
  while (high - low > 1e-7) {
    const step = (high - low) / 12;
    let least = Infinity;
    for (let factor = low; factor <= high + step / 2; factor += step) {
      model.embeddingFactor = factor;
      const worst = worstOf(logitsOf(model, ids), expected);
      if (worst < least) [least, best] = [worst, factor];
    }
    [low, high] = [best - step, best + step];
  }
  return best;
}

/** What the published model answers, as reference.safetensors has it. */
function writeOracle(path, folder, ids) {
  const model = new Gemma4(folder);
  const prefill = Float32Array.from(logitsOf(model, ids));
  let last = [...prefill.subarray(prefill.length - model.config.vocab_size)];
  const greedy = [];
  const margins = [];
  for (let step = 0; step < greedySteps; ++step) {
    const [best, second] = [...last].sort((a, b) => b - a);
    greedy.push(last.indexOf(best));
    margins.push(best - second);
    last = model.next(greedy.at(-1));
  }
  writeReference(path, ids, { prefill, greedy, margins });
}

for (const name of ['gemma4', 'gemma4-unified']) {
  const folder = join(checkpoints, name);
  const isThere = weft && existsSync(folder);
  const skip = isThere ? false : `WEFT names no program, or there is no ${folder}`;
  test(`${name}: transformers, the second implementation and both engines agree`, { skip }, () => {
    const reference = readSafetensors(join(folder, 'reference.safetensors'));
    const ids = reference.input_ids.values;
    const expected = reference.logits.values;
    const model = new Gemma4(folder);
    const few = 10;
    model.embeddingFactor = findFactor(model, ids.slice(0, few), expected);
    assert.ok(worstOf(logitsOf(model, ids), expected) < 1e-4);

    const work = mkdtempSync(join(tmpdir(), 'weft-gemma4-'));
    try {
      const target = join(work, 'checkpoints', name);
      mkdirSync(target, { recursive: true });
      for (const file of ['config.json', 'model.safetensors']) {
        copyFileSync(join(folder, file), join(target, file));
      }
      writeOracle(join(target, 'reference.safetensors'), folder, ids);
      const script = join(root, 'tools', 'convert_oracle', 'check.mjs');
      const options = ['--data', work, '--only', name, '--native', 'yes', '--cuts', 'yes'];
      const run = spawnSync(process.execPath, [script, '--weft', weft, ...options], {
        encoding: 'utf8',
      });
      assert.notEqual(run.stdout, '', run.stderr);
      const { results } = JSON.parse(run.stdout);
      assert.equal(results.length, 4);
      for (const result of results) assert.ok(result.ok, JSON.stringify(result));
      assert.ok(results[0].max_abs_logit_error < 1e-4, JSON.stringify(results[0]));
      assert.ok(results[0].native_max_abs_logit_error < 1e-4, JSON.stringify(results[0]));
      assert.ok(results[0].max_abs_cut_error <= 1e-4, JSON.stringify(results[0]));
    } finally {
      rmSync(work, { recursive: true });
    }
  });
}
