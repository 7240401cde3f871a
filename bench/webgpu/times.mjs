// Small helpers of the WebGPU benchmark, for Node and for browsers.
export function median(values) {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
}

// Milliseconds that it took.
export async function timed(work) {
  const begin = performance.now();
  await work();
  return performance.now() - begin;
}
