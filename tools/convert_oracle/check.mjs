// node check.mjs --weft WEFT --data DIR [--only NAME] [--quant NAME] [--cuts yes] [--native yes]
//               [--context N] [--reference FILE] [--folder checkpoints]
// Converts the checkpoints of that folder of DIR and runs each package's model.onnx whole in
// onnxruntime: logits
// and greedy tokens against what transformers gave (reference.safetensors), stories260K against
// expected.json. For q8 and q4 the reference is the same model with weights that dequantize.mjs, a
// second implementation of the block formats, writes back as f32. With --cuts the f32 packages are
// also cut at every layer boundary and every pair of them (../onnx_check). With --native `weft
// eval` runs every package, too, by one worker and by one for each layer, against the same
// references. --context is given to `weft convert`; --reference names another file than
// reference.safetensors in the checkpoints' folders. Prints one JSON object; exits 1 when anything
// differs by more than its limit.
import { execFileSync } from 'node:child_process';
import {
  copyFileSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Decoder, toFloats } from '../onnx_check/decoder.mjs';
import { readSafetensors } from '../onnx_check/reference.mjs';
import { writeDequantized, writeReference } from './dequantize.mjs';
import { cacheStates, Package } from './package.mjs';

// Below this margin between the two best tokens either is right.
const tieMargin = 1e-3;
// Against transformers in f32; f16 weights move the logits of these random models, whose scale is
// about 1, by their rounding.
const limits = { f32: 1e-3, f16: 2e-2, q8: 1e-3, q4: 1e-3 };

const knownOptions = [
  '--weft',
  '--data',
  '--only',
  '--quant',
  '--cuts',
  '--native',
  '--context',
  '--reference',
  '--folder',
];

function parseArguments(args) {
  const options = {};
  while (args.length > 0) {
    const word = args.shift();
    if (!knownOptions.includes(word)) throw new Error(`What is '${word}'?`);
    options[word.slice(2)] = args.shift();
  }
  if (!options.weft || !options.data) {
    throw new Error(`usage: node check.mjs --weft WEFT --data DIR [${knownOptions.slice(2)}]`);
  }
  options.folder ??= 'checkpoints';
  return options;
}

function argmax(row) {
  let best = 0;
  for (let i = 1; i < row.length; ++i) if (row[i] > row[best]) best = i;
  return best;
}

function margin(row, best) {
  let second = -Infinity;
  for (let i = 0; i < row.length; ++i) if (i !== best) second = Math.max(second, row[i]);
  return row[best] - second;
}

function maxDifference(a, b) {
  if (a.length !== b.length) return Infinity;
  let worst = 0;
  for (let i = 0; i < a.length; ++i) {
    const difference = Math.abs(a[i] - b[i]);
    if (!(difference <= worst)) worst = Number.isNaN(difference) ? Infinity : difference;
  }
  return worst;
}

function convert(weft, source, target, quantisation, context) {
  const args = ['convert', source, target, '--quant', quantisation];
  if (context) args.push('--context', context);
  args.push('--json', '--no-tokenizer');
  return JSON.parse(execFileSync(weft, args, { stdio: ['ignore', 'pipe', 'inherit'] }));
}

/** The largest difference that cutting the package's graph makes; throws when above 1e-4. */
function checkCuts(weft, folder) {
  // onnxruntime looks for external data beside the model, by the blob's bare name.
  for (const name of readdirSync(join(folder, 'blobs'))) {
    copyFileSync(join(folder, 'blobs', name), join(folder, name));
  }
  const script = fileURLToPath(new URL('../onnx_check/check.mjs', import.meta.url));
  const args = [script, '--weft', weft, '--limit', '1e-4', folder];
  const output = execFileSync(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  return JSON.parse(output).max_abs_logit_error;
}

/**
 * The prompt in one call, then `steps` greedy tokens one by one; a `forced` token replaces what
 * greedy would feed.
 */
async function run(folder, prompt, steps, forced = []) {
  const model = new Package(folder);
  const blobs = model.verify();
  const session = await model.openSession();
  const decoder = new Decoder([session], cacheStates(session), 'logits');
  const first = await decoder.run(prompt);
  const prefill = Float32Array.from(toFloats(first));
  let last = prefill.subarray(prefill.length - first.dims.at(-1));
  const greedy = [];
  const margins = [];
  for (let step = 0; step < steps; ++step) {
    greedy.push(argmax(last));
    margins.push(margin(last, greedy[step]));
    if (step + 1 === steps) break;
    last = Float32Array.from(toFloats(await decoder.run([forced[step] ?? greedy[step]])));
  }
  await session.release();
  return { prefill, greedy, margins, blobs, manifest: model.manifest };
}

/**
 * What the native engine makes of a package: as it is, and with keys, values and boundaries in f32,
 * so that nothing but the format of the weights is judged (f16 keys send a row near a tie between
 * experts to another one). Adds to `result`.
 */
function runNative(result, weft, target, reference) {
  const evaluate = (...extra) => {
    const args = ['eval', target, '--reference', reference, ...extra];
    return JSON.parse(execFileSync(weft, args, { stdio: ['ignore', 'pipe', 'inherit'] }));
  };
  const shipped = evaluate();
  const path = join(target, 'weft.json');
  const manifest = readFileSync(path, 'utf8');
  const exact = { ...JSON.parse(manifest), quantisation: 'f32', boundary_dtype: 'f32' };
  writeFileSync(path, JSON.stringify(exact));
  const whole = evaluate();
  const split = evaluate('--split-everywhere');
  writeFileSync(path, manifest);
  result.native_max_abs_logit_error = Math.max(
    whole.max_abs_logit_error,
    split.max_abs_logit_error,
  );
  result.native_greedy_equal = whole.greedy_equal && split.greedy_equal;
  result.native_shipped_max_abs_logit_error = shipped.max_abs_logit_error;
  result.native_shipped_greedy_steps =
    shipped.first_difference?.step ?? shipped.greedy_steps;
}

function isNativeClose(result) {
  if (result.native_max_abs_logit_error === undefined) return true;
  return (
    result.native_max_abs_logit_error <= limits[result.quantisation] &&
    result.native_greedy_equal &&
    Number.isFinite(result.native_shipped_max_abs_logit_error)
  );
}

function sameTokens(actual, expected, margins) {
  return expected.every((token, i) => token === actual[i] || margins[i] < tieMargin);
}

async function checkCheckpoint(name, quantisation, options, work) {
  const source = join(options.data, options.folder, name);
  const referenceFile = join(source, options.reference ?? 'reference.safetensors');
  const reference = readSafetensors(referenceFile);
  const target = join(work, `${name}-${quantisation}`);
  const report = convert(options.weft, source, target, quantisation, options.context);
  const forced = reference.greedy_ids.values;
  const prompt = reference.input_ids.values;
  const actual = await run(target, prompt, forced.length, forced);
  const result = { model: name, quantisation, lowered: report.lowered, blobs: actual.blobs };
  if (quantisation === 'f32' || quantisation === 'f16') {
    result.max_abs_logit_error = maxDifference(actual.prefill, reference.logits.values);
    const margins = reference.greedy_margin.values;
    const loose = quantisation === 'f32' ? margins : margins.map((m) => m - limits.f16);
    result.greedy_equal = sameTokens(actual.greedy, forced, loose);
  } else {
    const compared = await compareWithDequantized(target, source, prompt, forced.length, options);
    Object.assign(result, compared);
    result.max_abs_error_of_quantising = maxDifference(actual.prefill, reference.logits.values);
  }
  if (options.native) {
    const plain = quantisation === 'f32' || quantisation === 'f16';
    const expected = plain
      ? referenceFile
      : join(`${target}-plain`, 'reference.safetensors');
    runNative(result, options.weft, target, expected);
  }
  if (options.cuts && quantisation === 'f32') {
    copyFileSync(referenceFile, join(target, 'reference.safetensors'));
    result.max_abs_cut_error = checkCuts(options.weft, target);
  }
  const close = result.max_abs_logit_error <= limits[quantisation];
  result.ok = close && result.greedy_equal && report.lowered && isNativeClose(result);
  return result;
}

/** Runs a q8 or q4 package beside the same model with its weights turned back into f32. */
async function compareWithDequantized(target, source, prompt, steps, options) {
  const plain = `${target}-plain`;
  writeDequantized(new Package(target), source, plain);
  convert(options.weft, plain, `${plain}-package`, 'f32');
  // Its own greedy tokens, one at a time: the product of a single row has kernels of its own in
  // onnxruntime.
  const free = await run(target, prompt, steps);
  const expected = await run(`${plain}-package`, prompt, steps, free.greedy);
  writeReference(join(plain, 'reference.safetensors'), prompt, expected);
  return {
    max_abs_logit_error: maxDifference(free.prefill, expected.prefill),
    greedy_equal: sameTokens(expected.greedy, free.greedy, expected.margins),
  };
}

/** Heads of 8 columns, and an MLP of 172, which is no multiple of a block. */
async function checkStories(quantisation, options, work) {
  const source = join(options.data, 'stories260K');
  const target = join(work, `stories260K-${quantisation}`);
  const report = convert(options.weft, source, target, quantisation);
  const expected = JSON.parse(readFileSync(join(source, 'expected.json'), 'utf8'));
  const result = { model: 'stories260K', quantisation, lowered: report.lowered };
  result.greedy_equal = true;
  const limit = limits[quantisation];
  for (const { prompt_ids: prompt, output_ids: output } of Object.values(expected)) {
    if (quantisation === 'f32') {
      const { greedy } = await run(target, prompt, output.length);
      result.greedy_equal &&= output.every((token, i) => token === greedy[i]);
      continue;
    }
    const one = await compareWithDequantized(target, source, prompt, 24, options);
    rmSync(`${target}-plain-package`, { recursive: true });
    result.greedy_equal &&= one.greedy_equal;
    result.max_abs_logit_error = Math.max(one.max_abs_logit_error, result.max_abs_logit_error ?? 0);
  }
  result.ok = result.greedy_equal && report.lowered && (result.max_abs_logit_error ?? 0) <= limit;
  return result;
}

async function main() {
  const options = parseArguments(process.argv.slice(2));
  const work = mkdtempSync(join(tmpdir(), 'weft-convert-'));
  const results = [];
  try {
    for (const name of readdirSync(join(options.data, options.folder)).sort()) {
      if (options.only && options.only !== name) continue;
      for (const quantisation of ['f32', 'f16', 'q8', 'q4']) {
        if (options.quant && options.quant !== quantisation) continue;
        results.push(await checkCheckpoint(name, quantisation, options, work));
      }
    }
    if (!options.only || options.only === 'stories260K') {
      for (const quantisation of ['f32', 'q8', 'q4']) {
        results.push(await checkStories(quantisation, options, work));
      }
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
  const ok = results.length > 0 && results.every((result) => result.ok);
  console.log(JSON.stringify({ ok, results }, null, 1));
  process.exitCode = ok ? 0 : 1;
}

await main();
