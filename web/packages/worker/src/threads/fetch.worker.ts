// A thread that fetches blobs and writes them to the origin private file system.
import { serveBlobs } from "../download/blobThread.ts";
import { OpfsStore } from "../download/opfsStore.ts";

serveBlobs(self, {
  fetch: (url, init) => fetch(url, init),
  openStore: () => OpfsStore.openToWrite(),
});
