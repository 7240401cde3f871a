// `weft pull`, `list`, `show`, `rm` and `run org/name` against a registry on loopback that serves a
// real small model and misbehaves in the ways real ones do. Hugging Face's own client reads our
// cache, and we read its cache.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import {
  existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { encodeTensor } from '../../tools/convert_oracle/gguf_blocks.mjs';
import { ggufMetadata, ggufTensors, writeGguf } from '../../tools/convert_oracle/gguf_writer.mjs';
import { scanCacheDir, snapshotDownload } from '../../tools/registry_oracle/registry_client.mjs';
import { FakeRegistry } from './registry/fake_registry.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const weft = process.env.WEFT;
const tiny = join(root, 'models', 'weft-tiny');
const tinyFiles = [
  'README.md',
  'config.json',
  'generation_config.json',
  'model.safetensors',
  'tokenizer.json',
  'tokenizer_config.json',
];
const weights = readFileSync(join(tiny, 'model.safetensors'));

let fake;
let commit;
let folder; // of one test: its cache and library

const environment = (extra = {}) => ({
  PATH: process.env.PATH,
  HOME: folder,
  HF_ENDPOINT: fake.registry,
  WEFT_HOME: join(folder, 'weft'),
  ...extra,
});
const repositoryFolder = () => join(folder, '.cache/huggingface/hub/models--org--tiny');
const incompleteFile = () => {
  const blobs = join(repositoryFolder(), 'blobs');
  const names = existsSync(blobs) ? readdirSync(blobs) : [];
  const name = names.find((each) => each.length > 64 && each.endsWith('.incomplete'));
  return name && join(blobs, name);
};

// Runs weft to its end: { code, stdout, stderr }.
function run(args, { input = '', env = {} } = {}) {
  return start(args, { input, env }).ended;
}

function start(args, { input = '', env = {} } = {}) {
  const child = spawn(weft, args, { env: environment(env) });
  const out = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr']) {
    child[name].setEncoding('utf8').on('data', (text) => (out[name] += text));
  }
  child.stdin.on('error', () => {}); // It may end before it has read anything.
  child.stdin.end(input);
  const ended = new Promise((resolve) => {
    child.on('close', (code, signal) => resolve({ code, signal, ...out }));
  });
  return { child, ended };
}

async function pulled(args = ['pull', 'org/tiny'], options = {}) {
  const result = await run(args, options);
  assert.equal(result.code, 0, result.stderr);
  return result;
}

// Waits until some of the weights are on the disk.
async function untilHalfway() {
  for (let i = 0; i < 400; i++) {
    const file = incompleteFile();
    if (file && statSync(file).size > 1 << 20) return;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  assert.fail('no download began');
}

// The tensors of a safetensors file, all F16, without some.
function halvesOf(file, leftOut) {
  const headerBytes = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, 8 + headerBytes));
  const tensors = {};
  for (const [name, entry] of Object.entries(header)) {
    if (name === '__metadata__' || leftOut.test(name)) continue;
    const { dtype, shape, data_offsets: [begin, end] } = entry;
    assert.equal(dtype, 'F16');
    const values = new Float32Array((end - begin) / 2);
    for (let i = 0; i < values.length; i++) {
      const bits = file.readUInt16LE(8 + headerBytes + begin + 2 * i);
      const exponent = (bits >> 10) & 31;
      const fraction = exponent ? 1024 + (bits & 1023) : bits & 1023;
      values[i] = (bits >> 15 ? -1 : 1) * fraction * 2 ** (Math.max(exponent, 1) - 25);
    }
    tensors[name] = { dims: shape, values };
  }
  return tensors;
}

if (!weft) {
  test('models from a registry', { skip: 'WEFT does not name the weft program' }, () => {});
} else {
  before(async () => {
    fake = await FakeRegistry.start();
    commit = fake.add('org/tiny', tiny, tinyFiles);
    fake.add('org/pickles', tiny, ['config.json', 'README.md']);
  });
  after(() => fake.stop());
  beforeEach((context) => {
    folder = mkdtempSync(join(tmpdir(), 'weft-registry-'));
    const made = folder;
    context.after(() => rmSync(made, { recursive: true, force: true }));
    fake.requests.length = 0;
    fake.faults = {
      token: '', gated: false, busy: {}, breakAt: {}, wrong: new Set(), bytesPerSecond: 0,
    };
  });

  test('from a name to a chat, a list and an empty disk again', async () => {
    fake.faults.token = 'hf_test';
    const env = { HF_TOKEN: 'hf_test' };
    const question = 'Where does Mira live?\n';
    const chat = ['run', 'org/tiny:q8', '--temperature', '0', '--max-tokens', '24'];
    const first = await run(chat, { input: question, env });
    assert.equal(first.code, 0, first.stderr);
    assert.match(first.stdout, /Mira lives in Spindle Green/);
    assert.match(first.stderr, /every file has the hash that the registry states/);
    assert.ok(!fake.requests.some((r) => r.host === 'cdn' && r.authorized), 'a token leaked');
    assert.ok(!fake.requests.some((r) => r.path.endsWith('README.md')));

    fake.requests.length = 0; // from here on no network is needed
    const second = await run(chat, { input: question });
    assert.equal(second.stdout, first.stdout);
    assert.equal(fake.requests.length, 0);

    const list = JSON.parse((await run(['list', '--json'])).stdout);
    assert.equal(list.length, 1);
    assert.equal(list[0].name, 'org--tiny-q8');
    assert.equal(list[0].architecture, 'qwen3');
    assert.equal(list[0].quantisation, 'q8');
    assert.equal(list[0].source.commit, commit);
    assert.match((await run(['list'])).stdout, /org--tiny-q8 +qwen3 +q8 +[\d.]+ MB +\d{4}-/);
    const shown = (await run(['show', 'org/tiny:q8'])).stdout;
    for (const part of ['8 between embedding and head', 'per token', 'memory', commit]) {
      assert.ok(shown.includes(part), shown);
    }

    const kept = await run(['rm', 'org--tiny-q8'], { input: 'n\n' });
    assert.equal(kept.code, 1);
    assert.match(kept.stderr, /Nothing was removed/);
    const removed = await run(['rm', 'org--tiny-q8', '--cache'], { input: 'y\n' });
    assert.equal(removed.code, 0, removed.stderr);
    assert.match(removed.stdout, /Freed \d+ MB/);
    assert.ok(!existsSync(repositoryFolder()));
    assert.match((await run(['list'])).stdout, /no packages/);
    assert.equal((await run(['show', 'org--tiny-q8'])).code, 3);
  });

  test('a pull that was killed goes on where it was', async () => {
    fake.faults.bytesPerSecond = 6 << 20;
    const { child, ended } = start(['pull', 'org/tiny']);
    await untilHalfway();
    child.kill('SIGKILL');
    await ended;
    const kept = statSync(incompleteFile()).size;
    assert.ok(kept < weights.length);
    fake.faults.bytesPerSecond = 0;
    fake.requests.length = 0;
    await pulled();
    const resumed = fake.requests.find((r) => r.host === 'cdn' && r.method === 'GET');
    assert.equal(resumed.range, `bytes=${kept}-`);
    assert.equal(fake.bytesSent('model.safetensors'), weights.length - kept);
    const snapshot = join(repositoryFolder(), 'snapshots', commit);
    assert.ok(readFileSync(join(snapshot, 'model.safetensors')).equals(weights));
    assert.equal(readFileSync(join(repositoryFolder(), 'refs/main'), 'utf8'), commit);
    assert.match((await pulled()).stderr, /of this commit already/);
  });

  test('Ctrl-C stops in order', async () => {
    fake.faults.bytesPerSecond = 3 << 20;
    const { child, ended } = start(['pull', 'org/tiny']);
    await untilHalfway();
    child.kill('SIGINT');
    const { code, stderr } = await ended;
    assert.equal(code, 1);
    assert.match(stderr, /Stopped\. What was downloaded is kept/);
    assert.ok(statSync(incompleteFile()).size > 1 << 20);
    assert.ok(!existsSync(join(folder, 'weft/packages/org--tiny')));
    assert.match((await run(['pull', 'org/tiny', '--offline'])).stderr, /stay offline/);
  });

  test('broken connections and busy answers are overcome', async () => {
    fake.faults.breakAt = { 'model.safetensors': 5 << 20, 'tokenizer.json': 1 };
    fake.faults.busy = { 'config.json': 1 };
    const { stderr } = await pulled(['pull', 'org/tiny', '--download-only']);
    assert.match(stderr, /too many requests.*Trying again in 1 s/s);
    const ranges = fake.requests.filter((r) => r.host === 'cdn' && r.method === 'GET');
    assert.equal(ranges.length, 2);
    assert.match(ranges[1].range, /^bytes=\d+-$/);
  });

  test('a registry with HTTP/2 is trusted by its certificate', async (context) => {
    const [key, cert] = ['key.pem', 'cert.pem'].map((name) => join(folder, name));
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt',
      'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=registry', '-addext',
      'subjectAltName=IP:127.0.0.1,DNS:localhost', '-keyout', key, '-out', cert],
    { stdio: 'pipe' });
    const secure = await FakeRegistry.start({ key: readFileSync(key), cert: readFileSync(cert) });
    context.after(() => secure.stop());
    secure.add('org/tiny', tiny, tinyFiles);
    secure.faults.breakAt = { 'model.safetensors': 3 << 20 };
    const args = ['pull', 'org/tiny', '--download-only'];
    const refused = await run(args, { env: { HF_ENDPOINT: secure.registry } });
    assert.match(refused.stderr, /self-signed certificate.*SSL_CERT_FILE/);
    await pulled(args, { env: { HF_ENDPOINT: secure.registry, SSL_CERT_FILE: cert } });
    assert.deepEqual(new Set(secure.requests.map((request) => request.version)), new Set(['2.0']));
    const ranges = secure.requests.filter(({ path, range }) =>
      path.endsWith('model.safetensors') && range);
    assert.ok(ranges.length > 0, 'it began again after a break');
  });

  test('wrong bytes are thrown away', async () => {
    fake.faults.wrong.add('model.safetensors');
    const { code, stderr } = await run(['pull', 'org/tiny']);
    assert.equal(code, 4);
    assert.match(stderr,
      /hashes to [0-9a-f]{64}, but the registry says [0-9a-f]{64}\. It was removed/);
    assert.equal(incompleteFile(), undefined);
    assert.ok(!existsSync(join(repositoryFolder(), 'snapshots', commit, 'model.safetensors')));
    fake.faults.wrong.clear();
    await pulled();
  });

  test('refusals say what to do', async () => {
    const refusal = async (args, env) => {
      const { code, stderr } = await run(args, { env });
      assert.ok([1, 2, 3].includes(code), `${code}: ${stderr}`); // docs/operations.md, Exit codes
      return stderr;
    };
    assert.match(await refusal(['pull', 'org/none']), /There is no model 'org\/none'/);
    assert.match(await refusal(['pull', 'org/tiny', '--revision', 'v9']), /no revision 'v9'/);
    assert.match(await refusal(['pull', 'org/pickles']), /neither model\.safetensors nor/);
    assert.match(await refusal(['pull', 'org/tiny:q4_k_m']), /has safetensors and no GGUF/);
    assert.match(await refusal(['pull', '../tiny']), /names no model of a registry/);
    assert.match(await refusal(['run', 'no-such-package']), /no model package/);
    fake.faults.token = 'hf_test';
    assert.match(await refusal(['pull', 'org/tiny']), /set HF_TOKEN/);
    assert.match(await refusal(['pull', 'org/tiny'], { HF_TOKEN: 'hf_x' }), /not accept the token/);
    fake.faults.gated = true;
    assert.match(await refusal(['pull', 'org/tiny']), /accept the conditions/);
    const away = { HF_ENDPOINT: 'http://127.0.0.1:9' };
    assert.match(await refusal(['pull', 'org/tiny'], away), /Cannot reach 127\.0\.0\.1:9/);
    assert.match(await refusal(['rm', 'org--tiny', '--yes']), /no model package/);
  });

  test('GGUF files are chosen by their kind', async () => {
    const models = mkdtempSync(join(tmpdir(), 'weft-registry-gguf-'));
    mkdirSync(join(models, 'Q8_0'));
    const config = JSON.parse(readFileSync(join(tiny, 'config.json'), 'utf8'));
    const checkpoint = halvesOf(weights, /^model\.layers\.[1-9]/);
    const embedding = checkpoint['model.embed_tokens.weight'];
    // One layer and a few words say as much of names as the whole model.
    Object.assign(config, { num_hidden_layers: 1, vocab_size: 128 });
    embedding.values = embedding.values.subarray(0, 128 * embedding.dims[1]);
    embedding.dims[0] = 128;
    const tensors = ggufTensors(config, checkpoint);
    const { metadata } = ggufMetadata(config);
    const names = { F16: 'tiny-F16.gguf', Q8_0: 'Q8_0/tiny-Q8_0.gguf' };
    for (const [type, name] of Object.entries(names)) {
      const encoded = tensors.map((tensor) => {
        const own = tensor.shape.length > 1 ? type : 'F32';
        return { ...tensor, type: own, bytes: encodeTensor(own, tensor.values) };
      });
      writeGguf(join(models, name), metadata, encoded);
    }
    fake.add('org/gguf', models, Object.values(names));
    rmSync(models, { recursive: true });
    const unclear = await run(['pull', 'org/gguf']);
    assert.equal(unclear.code, 2);
    assert.match(unclear.stderr, /several GGUF files; say which.*Q8_0\/tiny-Q8_0\.gguf/s);
    await pulled(['pull', 'org/gguf:Q8_0']);
    await pulled(['pull', 'org/gguf:f16']);
    const list = JSON.parse((await run(['list', '--json'])).stdout);
    const kinds = list.map(({ name, quantisation }) => [name, quantisation]);
    assert.deepEqual(kinds, [['org--gguf-f16', 'f16'], ['org--gguf-q8_0', 'q8']]);
    const removed = await run(['rm', 'org/gguf:q8_0', '--cache', '--yes']);
    assert.match(removed.stdout, /downloads stay: org--gguf-f16 was made from them/);
    assert.equal((await run(['pull', 'org/gguf:f16', '--offline'])).code, 0);
  });

  // As exporters' repositories look. The model's bytes are from several folders of the test data:
  // what is told apart here are names, links into the cache, and the configuration above onnx/.
  const models = join(process.env.WEFT_DATA ?? join(root, 'build', 'test-data'), 'onnx');
  const withoutModels = existsSync(models) ? false : `no models in ${models}`;
  test('ONNX models are chosen by their kind', { skip: withoutModels }, async () => {
    const from = (path) => readFileSync(join(models, path));
    fake.addFiles('org/onnx', [
      ['config.json', from('llama3-optimum/config.json')],
      ['onnx/model.onnx', from('llama3-genai/model.onnx')],
      ['onnx/model.onnx.data', from('llama3-genai/model.onnx.data')],
      ['onnx/model_q4.onnx', from('llama3-optimum-q4/model.onnx')],
      ['onnx/model_fp16.onnx', from('llama3-optimum-fp16/model.onnx')],
      ['onnx/model_int8.onnx', from('qwen3-optimum-int8/model.onnx')],
    ]);
    await pulled(['pull', 'org/onnx']);
    await pulled(['pull', 'org/onnx:q4']);
    const whole = await pulled(['pull', 'org/onnx:f32']); // its weights lie beside it
    assert.match(whole.stderr, /Converted to .*llama/);
    const list = JSON.parse((await run(['list', '--json'])).stdout);
    const kinds = list.map(({ name, quantisation }) => [name, quantisation]);
    assert.deepEqual(kinds, [
      ['org--onnx', 'f16'], ['org--onnx-f32', 'f32'], ['org--onnx-q4', 'mixed'],
    ]);
    assert.ok(!fake.requests.some((r) => r.path.endsWith('model_int8.onnx')));
    const unknown = await run(['pull', 'org/onnx:q5']);
    assert.equal(unknown.code, 3);
    assert.match(unknown.stderr, /no ONNX model ':q5'.*onnx\/model_fp16\.onnx \(:f16\)/s);
  });

  // Hugging Face's own client, with the same registry and cache.
  const cacheDir = () => dirname(repositoryFolder());
  const download = async (t) => {
    t.mock.method(console, 'debug', () => {});
    const from = { hubUrl: fake.registry, cacheDir: cacheDir() };
    return await snapshotDownload({ repo: 'org/tiny', ...from });
  };

  test("Hugging Face's client finds what weft downloaded", async (t) => {
    await pulled(['pull', 'org/tiny', '--download-only']);
    const { repos, warnings } = await scanCacheDir(cacheDir());
    assert.deepEqual(warnings, []);
    assert.deepEqual(repos.map(({ id }) => id.name), ['org/tiny']);
    const [revision, ...others] = repos[0].revisions;
    assert.deepEqual(others, []);
    assert.deepEqual([revision.commitOid, revision.refs], [commit, ['main']]);
    const sizes = new Map(revision.files.map(({ path, blob }) => [basename(path), blob.size]));
    assert.equal(sizes.get('model.safetensors'), weights.length);
    assert.ok(sizes.size >= 4, [...sizes.keys()].join());

    fake.requests.length = 0;
    const snapshot = await download(t);
    assert.equal(snapshot, join(repositoryFolder(), 'snapshots', commit));
    for (const name of sizes.keys()) assert.equal(fake.bytesSent(name), 0, name);
  });

  test("weft uses what Hugging Face's client downloaded", async (t) => {
    await download(t);
    assert.ok(fake.bytesSent('model.safetensors') >= weights.length);
    fake.requests.length = 0;
    await pulled(['pull', 'org/tiny:q4', '--offline']);
    assert.equal(fake.requests.length, 0);
    const online = await pulled(['pull', 'org/tiny', '--download-only']);
    assert.equal(fake.bytesSent('model.safetensors'), 0, online.stderr);
  });
}
