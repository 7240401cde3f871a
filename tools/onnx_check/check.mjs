// node check.mjs --weft WEFT [--limit X] [--optimization basic|all] DIR
// Cuts the ONNX decoder in DIR at every layer boundary, at every pair of boundaries and at all of
// them at once (`weft onnx-split`), runs the parts one after the other in onnxruntime over the
// prompt of DIR/reference.safetensors and 24 greedy steps with the cache, and compares with the
// whole model run the same way. Prints one JSON object; exits 1 when parts and whole model differ
// by more than the limit or take other greedy tokens, 2 when something could not be run.
// Both sides run at the optimization 'basic': with fused kernels onnxruntime computes a norm that
// starts a part otherwise than the same norm in the middle of the whole model. The reference is
// compared with the whole model fully optimized, as it was made.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Decoder, openSession, toFloats } from './decoder.mjs';
import { readSafetensors } from './reference.mjs';

const greedySteps = 24;

function parseArguments(args) {
  const options = { optimization: 'basic' };
  while (args.length > 0) {
    const word = args.shift();
    if (word === '--weft') options.weft = args.shift();
    else if (word === '--limit') options.limit = Number(args.shift());
    else if (word === '--optimization') options.optimization = args.shift();
    else options.directory = word;
  }
  if (!options.weft || !options.directory) {
    throw new Error('usage: node check.mjs --weft WEFT [--limit X] [--optimization basic|all] DIR');
  }
  return options;
}

/** Fills the head size in, which builder graphs leave symbolic; configuration files know it. */
function withNumbers(states, directory) {
  const read = (name) => {
    const path = join(directory, name);
    return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')) : {};
  };
  const decoder = read('genai_config.json').model?.decoder ?? {};
  const config = read('config.json');
  const headSize =
    decoder.head_size ??
    config.head_dim ??
    (config.hidden_size ? config.hidden_size / config.num_attention_heads : undefined);
  const fill = (dims) =>
    dims.map((dim, axis) =>
      axis === dims.length - 1 && typeof dim !== 'number' ? Number(headSize) : dim,
    );
  return states.map(({ inputs, outputs }) => ({
    inputs: inputs.map((input) => ({ ...input, dims: fill(input.dims) })),
    outputs,
  }));
}

function lastRow(tensor) {
  const vocabulary = tensor.dims.at(-1);
  const floats = toFloats(tensor);
  return floats.subarray(floats.length - vocabulary);
}

function argmax(row) {
  let best = 0;
  for (let i = 1; i < row.length; ++i) if (row[i] > row[best]) best = i;
  return best;
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

/**
 * The prompt in one call, then single steps. `forced` replaces the tokens that greedy decoding
 * would feed.
 */
async function decode(decoder, prompt, forced) {
  decoder.reset();
  const rows = [];
  const greedy = [];
  let logits = await decoder.run(prompt);
  rows.push(Float32Array.from(toFloats(logits)));
  for (let step = 0; step < greedySteps; ++step) {
    greedy.push(argmax(lastRow(logits)));
    if (step === greedySteps - 1) break;
    logits = await decoder.run([forced ? forced[step] : greedy[step]]);
    rows.push(Float32Array.from(toFloats(logits)));
  }
  return { rows, greedy };
}

function sameTokens(a, b) {
  return a.length === b.length && a.every((token, i) => token === b[i]);
}

/** All ways to cut that are checked: lists of boundaries 1 .. layers - 1. */
function cutLists(layers) {
  const cuts = [];
  for (let a = 1; a < layers; ++a) {
    cuts.push([a]);
    for (let b = a + 1; b < layers; ++b) cuts.push([a, b]);
  }
  if (layers > 3) cuts.push(Array.from({ length: layers - 1 }, (_, i) => i + 1));
  return cuts;
}

/**
 * 1e-4, but for a residual stream in 16 bits two units in the last place of the largest logit:
 * onnxruntime computes float16 on the CPU in float32 and rounds between nodes only where it must,
 * so a cut adds a rounding that the whole model skips.
 */
function defaultLimit(split, rows) {
  const unit = { float16: 2 ** -10, bfloat16: 2 ** -7 }[split.boundaries[0].type];
  if (!unit) return 1e-4;
  let largest = 0;
  for (const row of rows) for (const logit of row) largest = Math.max(largest, Math.abs(logit));
  return 2 * unit * largest;
}

async function checkCuts(split, folder, states, prompt, whole, optimization) {
  const sessions = new Map();
  const open = async (first, end) => {
    const file = `part_${first}_${end}.onnx`;
    if (!sessions.has(file)) {
      sessions.set(file, await openSession(join(folder, file), optimization));
    }
    return sessions.get(file);
  };
  const summary = { worst: 0, worstCut: null, greedyEqual: true, cuts: [] };
  for (const cut of cutLists(split.layers)) {
    const ends = [...cut, split.layers];
    const parts = [];
    for (let i = 0; i < ends.length; ++i) {
      parts.push(await open(i === 0 ? 0 : ends[i - 1], ends[i]));
    }
    const decoder = new Decoder(parts, states, split.logits);
    const run = await decode(decoder, prompt, whole.greedy);
    const errors = run.rows.map((row, i) => maxDifference(row, whole.rows[i]));
    const error = Math.max(...errors);
    const greedyEqual = sameTokens(run.greedy, whole.greedy);
    summary.cuts.push({ at: cut, max_abs_logit_error: error, greedy_equal: greedyEqual });
    summary.greedyEqual &&= greedyEqual;
    if (error >= summary.worst) [summary.worst, summary.worstCut] = [error, cut];
  }
  return summary;
}

async function main() {
  const options = parseArguments(process.argv.slice(2));
  const folder = mkdtempSync(join(tmpdir(), 'weft-onnx-check-'));
  try {
    execFileSync(options.weft, ['onnx-split', options.directory, folder, '--pairs'], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const split = JSON.parse(readFileSync(join(folder, 'split.json'), 'utf8'));
    const modelFolder = dirname(split.model);
    const states = withNumbers(split.states, modelFolder);
    const reference = readSafetensors(join(modelFolder, 'reference.safetensors'));
    const prompt = reference.input_ids.values;

    const runWhole = async (optimization) => {
      const session = await openSession(split.model, optimization);
      return decode(new Decoder([session], states, split.logits), prompt, null);
    };
    const wholeRun = await runWhole(options.optimization);
    const optimizedRun = await runWhole('all');
    const cuts = await checkCuts(
      split,
      folder,
      states,
      prompt,
      wholeRun,
      options.optimization,
    );

    const expected = Float32Array.from(reference.logits.values);
    const expectedHere = reference.logits_ort
      ? Float32Array.from(reference.logits_ort.values)
      : expected;
    const referenceError = maxDifference(optimizedRun.rows[0], expected);
    // Where onnxruntime takes activations as int8 (accuracy_level 4, the references that have
    // logits_ort), which kernels it takes depends on the processor and on what stands around a
    // product: a cut may move logits as far as the int8 does.
    const quantizes = reference.logits_ort !== undefined;
    const least = quantizes ? referenceError : 0;
    const limit = options.limit ?? Math.max(defaultLimit(split, wholeRun.rows), least);
    const passed = cuts.worst <= limit && cuts.greedyEqual;
    const report = {
      directory: options.directory,
      layers: split.layers,
      optimization: options.optimization,
      boundary_type: split.boundaries[0].type,
      cuts: cuts.cuts.length,
      max_abs_logit_error: cuts.worst,
      worst_cut: cuts.worstCut,
      limit,
      greedy_equal: cuts.greedyEqual,
      quantizes_activations: quantizes,
      reference_error: referenceError,
      reference_error_runtime: maxDifference(optimizedRun.rows[0], expectedHere),
      reference_greedy_equal: sameTokens(optimizedRun.greedy, reference.greedy_ids.values),
      reference_smallest_margin: Math.min(...reference.greedy_margin.values),
      passed,
      per_cut: cuts.cuts,
    };
    console.log(JSON.stringify(report));
    return passed ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

process.exitCode = await main().catch((error) => {
  console.error(error.message);
  return 2;
});
