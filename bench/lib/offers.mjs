// How much memory workers have to offer so that a model needs a certain number of them, by the
// formula of the planner (docs/planner.md): weights + keys and values + the largest scratch.

// Rows of a prefill frame, and f32 buffers of the width of a row that an engine holds beside.
const kChunkRows = 128;
const kScratchRows = 32;

export function stageBytes(manifest, context, first, end) {
  const layers = manifest.layers.slice(first, end);
  const held = layers.reduce(
    (bytes, layer) => bytes + layer.weight_bytes + layer.kv_bytes_per_position * context, 0);
  const logits = end === manifest.layers.length ? manifest.vocabulary * 4 : 0;
  return held + kChunkRows * manifest.hidden_columns * 4 * kScratchRows + logits;
}

// Stages that workers of equal offers need, each filled before the next; Infinity where a layer
// fits nowhere.
export function stagesNeeded(manifest, context, offerBytes) {
  let stages = 0;
  for (let first = 0; first < manifest.layers.length; ++stages) {
    let end = first;
    while (end < manifest.layers.length &&
      stageBytes(manifest, context, first, end + 1) <= offerBytes) ++end;
    if (end === first) return Infinity;
    first = end;
  }
  return stages;
}

// The least offer with which `count` workers are enough.
export function leastOffer(manifest, context, count) {
  let low = 0;
  let high = stageBytes(manifest, context, 0, manifest.layers.length);
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (stagesNeeded(manifest, context, middle) <= count) high = middle;
    else low = middle;
  }
  return high;
}

// An offer with which `count` workers are needed and enough, half way to where fewer would be, so
// that there is room to shift layers. Throws where no such offer exists.
export function offerFor(manifest, context, count) {
  const least = leastOffer(manifest, context, count);
  if (count === 1) return Math.round(least * 1.25);
  const fewer = leastOffer(manifest, context, count - 1);
  const offer = Math.floor((least + fewer) / 2);
  if (stagesNeeded(manifest, context, offer) !== count) {
    throw new Error(`no offer makes ${manifest.name} need exactly ${count} workers`);
  }
  return offer;
}
