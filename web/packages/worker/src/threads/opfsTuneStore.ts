// The file of tuneStore.ts in the origin private file system. Fails, as a store may, where there is
// none.
import { FileTuneStore } from "./tuneStore.ts";

const kFile = "weft-tuning.json";

// Works in dedicated workers of secure pages only, as opfsStore.ts.
export function opfsTuneStore(): FileTuneStore {
  const handle = async (): Promise<FileSystemFileHandle> =>
    await (await navigator.storage.getDirectory()).getFileHandle(kFile, { create: true });
  return new FileTuneStore({
    read: async () => await (await (await handle()).getFile()).text(),
    write: async (text) => {
      const access = await (await handle()).createSyncAccessHandle();
      try {
        access.truncate(0);
        access.write(new TextEncoder().encode(text), { at: 0 });
      } finally {
        access.close();
      }
    },
  });
}
