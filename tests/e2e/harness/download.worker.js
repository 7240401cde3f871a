// A tab's downloads without an engine: every blob of the served package into the browser's own
// files, on as many threads, or on this one. Answers how long it took.
import { MemoryStore } from "../../../web/packages/worker/src/download/blobStore.ts";
import { BlobThreads } from "../../../web/packages/worker/src/download/blobThreads.ts";
import { OpfsStore } from "../../../web/packages/worker/src/download/opfsStore.ts";
import { PackageSource, VerifiedChunks }
  from "../../../web/packages/worker/src/download/packageSource.ts";
import { RecentChunks } from "../../../web/packages/worker/src/download/recentChunks.ts";
import { ServerHttp } from "../../../web/packages/worker/src/download/serverHttp.ts";
import FetchThread from "../../../web/packages/worker/src/threads/fetch.worker.ts?worker";

self.onmessage = async ({ data: { origin, digest, threads } }) => {
  try {
    const store = await OpfsStore.open();
    await store.clear();
    const fetcher = threads > 0 ? new BlobThreads(threads, () => new FetchThread()) : null;
    const http = new ServerHttp(origin, "", (url, init) => fetch(url, init), AbortSignal.any([]));
    const source = new PackageSource({
      http, cache: store, memory: new MemoryStore(() => true), verified: new VerifiedChunks(),
      recent: new RecentChunks(() => false), fetcher, needsPrograms: true,
    });
    const { layers } = await source.fetchManifest(digest);
    const begin = performance.now();
    await source.download(layers.map((_, index) => index), () => undefined);
    self.postMessage({ byteCount: store.cachedBytes, ms: performance.now() - begin });
  } catch (error) {
    self.postMessage({ error: String(error) });
  }
};
