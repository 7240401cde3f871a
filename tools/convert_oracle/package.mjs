// A model package on disk and its model.onnx in onnxruntime: what `weft convert` wrote, run by
// someone else.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import ort from 'onnxruntime-node';

export class Package {
  constructor(folder) {
    this.folder = folder;
    this.manifest = JSON.parse(readFileSync(join(folder, 'weft.json'), 'utf8'));
  }

  /** Checks every blob and file against its SHA-256; returns how many were checked. */
  verify() {
    const digest = (path) => createHash('sha256').update(readFileSync(path)).digest('hex');
    for (const [hex, info] of Object.entries(this.manifest.blobs)) {
      const bytes = readFileSync(join(this.folder, 'blobs', hex));
      const whole = digest(join(this.folder, 'blobs', hex)) === hex;
      if (!whole || bytes.length !== info.byte_count) throw new Error(`Blob ${hex} is damaged.`);
      for (let i = 0; i < info.chunks.length; ++i) {
        const chunk = bytes.subarray(i << 20, (i + 1) << 20);
        const actual = createHash('sha256').update(chunk).digest('hex');
        if (actual !== info.chunks[i]) throw new Error(`Chunk ${i} of blob ${hex} is damaged.`);
      }
    }
    for (const [name, hex] of Object.entries(this.manifest.files)) {
      if (digest(join(this.folder, name)) !== hex) throw new Error(`File ${name} is damaged.`);
    }
    return Object.keys(this.manifest.blobs).length;
  }

  /** The blobs of model.onnx as onnxruntime wants external data. */
  externalData() {
    const hexes = new Set(this.manifest.layers.flatMap((layer) => layer.blobs));
    return [...hexes].map((path) => ({
      path,
      data: readFileSync(join(this.folder, 'blobs', path)),
    }));
  }

  async openSession() {
    return ort.InferenceSession.create(readFileSync(join(this.folder, 'model.onnx')), {
      externalData: this.externalData(),
      logSeverityLevel: 3,
      intraOpNumThreads: 1,
    });
  }
}

/** The shapes of the caches, for Decoder of ../onnx_check/decoder.mjs. */
export function cacheStates(session) {
  const states = [];
  for (const meta of session.inputMetadata) {
    const match = /^past_key_values\.(\d+)\.(key|value)$/.exec(meta.name);
    if (!match) continue;
    const layer = Number(match[1]);
    states[layer] ??= { inputs: [], outputs: [] };
    states[layer].inputs.push({ name: meta.name, type: 'float', dims: meta.shape });
    states[layer].outputs.push(`present.${layer}.${match[2]}`);
  }
  return states;
}
