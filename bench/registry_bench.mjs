// `weft pull` of one large file from a registry on loopback that gives every connection so many
// bytes a second, as servers of models do: one connection against several, in turn.
//   node bench/registry_bench.mjs --weft build/release/weft [--mib 256] [--mib-per-second 16]
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';

import { FakeRegistry } from '../tests/conformance/registry/fake_registry.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

// The registry has a thread of its own, since this one waits for weft.
async function serve({ mib, mibPerSecond }) {
  const fake = await FakeRegistry.start();
  fake.addFiles('org/large', [
    ['config.json', Buffer.from('{}')],
    ['model.safetensors', randomBytes(mib << 20)],
  ]);
  fake.faults.bytesPerSecond = mibPerSecond << 20;
  parentPort.postMessage(fake.registry);
}

function pull(weft, fake, connections) {
  const folder = mkdtempSync(join(tmpdir(), 'weft-registry-bench-'));
  const args = ['pull', 'org/large', '--download-only', '--connections', String(connections)];
  const began = performance.now();
  const done = spawnSync(weft, args, {
    env: { PATH: process.env.PATH, HOME: folder, HF_ENDPOINT: fake },
    encoding: 'utf8',
  });
  const seconds = (performance.now() - began) / 1000;
  rmSync(folder, { recursive: true });
  if (done.status !== 0) throw new Error(done.stderr);
  return seconds;
}

async function main() {
  const { values } = parseArgs({
    options: {
      weft: { type: 'string', default: join(root, 'build/release/weft') },
      mib: { type: 'string', default: '256' },
      'mib-per-second': { type: 'string', default: '16' },
      connections: { type: 'string', default: '1,2,4,8' },
      rounds: { type: 'string', default: '2' },
    },
  });
  const mib = Number(values.mib);
  const worker = new Worker(fileURLToPath(import.meta.url), {
    workerData: { mib, mibPerSecond: Number(values['mib-per-second']) },
  });
  const fake = await new Promise((resolve, reject) => {
    worker.once('message', resolve).once('error', reject);
  });
  console.log(`one file of ${mib} MiB, ${values['mib-per-second']} MiB/s a connection`);
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const connections of values.connections.split(',')) {
      const seconds = pull(values.weft, fake, connections);
      const rate = (mib / seconds).toFixed(0);
      console.log(`${connections.padStart(3)} connections ${seconds.toFixed(2)} s, ${rate} MiB/s`);
    }
  }
  await worker.terminate();
}

if (isMainThread) await main();
else await serve(workerData);
