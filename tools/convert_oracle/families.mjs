// node families.mjs --weft WEFT --data DIR
//
// Prints the table of docs/models.md: for every checkpoint of DIR/checkpoints-2026 the largest
// difference of a logit from what transformers computed, in f32, of the native engine on the
// package from the folder and on the one from the checkpoint as a GGUF file (written as
// llama.cpp's converter does); and who can run the package. WebGPU's errors are printed by
// `WEFT_ALL_MODELS=1 npx vitest run packages/engine/src/wholeModels.test.ts
// packages/engine/src/recurrentModels.test.ts` in web/.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readSafetensors } from '../onnx_check/reference.mjs';
import { encodeTensor } from './gguf_blocks.mjs';
import { ggufMetadata, ggufTensors, writeGguf } from './gguf_writer.mjs';
import { Package } from './package.mjs';

const [, , weftFlag, weft, dataFlag, data] = process.argv;
if (weftFlag !== '--weft' || dataFlag !== '--data' || !data) {
  console.error('usage: node families.mjs --weft WEFT --data DIR');
  process.exit(2);
}
const folder = join(data, 'checkpoints-2026');
const work = mkdtempSync(join(tmpdir(), 'weft-families-'));

/** The error of the package from `source`; a word where there is none. */
function errorOf(source, reference) {
  const target = join(work, 'package');
  const args = ['convert', source, target, '--quant', 'f32', '--force', '--no-tokenizer'];
  if (spawnSync(weft, args).status !== 0) return { text: 'refused' };
  const result = JSON.parse(
    execFileSync(weft, ['eval', target, '--reference', reference], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }),
  );
  const text = result.max_abs_logit_error.toExponential(0);
  const own = new Package(target);
  return { text: result.greedy_equal ? text : `${text}, other tokens`, package: own };
}

function ggufOf(name, config) {
  const path = join(work, `${name}.gguf`);
  const checkpoint = readSafetensors(join(folder, name, 'model.safetensors'));
  const { metadata, extra } = ggufMetadata(config);
  const tensors = [...ggufTensors(config, checkpoint), ...extra].map(
    ({ name: own, shape, values }) =>
      ({ name: own, type: 'F32', shape, bytes: encodeTensor('F32', values) }),
  );
  writeGguf(path, metadata, tensors);
  return path;
}

try {
  console.log('| checkpoint | folder | GGUF | who runs it |\n|---|---|---|---|');
  for (const name of readdirSync(folder).sort()) {
    const reference = join(folder, name, 'reference.safetensors');
    const plain = errorOf(join(folder, name), reference);
    const config = JSON.parse(readFileSync(join(folder, name, 'config.json'), 'utf8'));
    let gguf = 'none';
    try {
      gguf = errorOf(ggufOf(name, config), reference).text;
    } catch (error) {
      if (process.env.WEFT_WHY) console.error(name, error);
    }
    const { manifest } = plain.package ?? {};
    const engines = manifest && `native, WebGPU${manifest.has_onnx === false ? '' : ', wasm'}`;
    console.log(`| ${name} | ${plain.text} | ${gguf} | ${engines ?? ''} |`);
  }
} finally {
  rmSync(work, { recursive: true, force: true });
}
