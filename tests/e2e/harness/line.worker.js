// How fast the blobs of the served package come to a script of this browser that only counts their
// bytes: the line that loading is compared with.
async function readBlob(digest) {
  const response = await fetch(`/package/blobs/${digest}`, { cache: "no-store" });
  if (!response.ok) throw new Error(`the server answers ${response.status} for ${digest}`);
  const reader = response.body.getReader();
  let byteCount = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return byteCount;
    byteCount += value.length;
  }
}

// `lanes`: blobs at once.
self.onmessage = async ({ data: { digests, lanes } }) => {
  try {
    const rest = [...digests];
    const begin = performance.now();
    let byteCount = 0;
    await Promise.all(Array.from({ length: lanes }, async () => {
      for (let next = rest.shift(); next; next = rest.shift()) {
        const read = await readBlob(next);
        byteCount += read; // in one line it would be added to what there was before
      }
    }));
    self.postMessage({ byteCount, ms: performance.now() - begin });
  } catch (error) {
    self.postMessage({ error: String(error) });
  }
};
