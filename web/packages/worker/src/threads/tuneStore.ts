// The kernels that were found fastest on this device (engine/tune), in a file (opfsTuneStore.ts).
// Where the file is not what it should be, nothing is known.
import type { TuneStore } from "@weft/engine/tune/store.ts";

const kMostEntries = 16; // drivers and versions come and go

// What is used of a file in the browser's file system.
export interface TextFile {
  read(): Promise<string>;
  write(text: string): Promise<void>;
}

export class FileTuneStore implements TuneStore {
  readonly #file: TextFile;

  constructor(file: TextFile) {
    this.#file = file;
  }

  async #entries(): Promise<[string, string][]> {
    try {
      const parsed: unknown = JSON.parse(await this.#file.read());
      if (typeof parsed !== "object" || parsed === null) return [];
      return Object.entries(parsed).filter(
        (entry): entry is [string, string] => typeof entry[1] === "string",
      );
    } catch {
      return [];
    }
  }

  async get(key: string): Promise<string | null> {
    return new Map(await this.#entries()).get(key) ?? null;
  }

  // Two tabs at once may lose one of their entries: it is found out again.
  async set(key: string, value: string): Promise<void> {
    const others = (await this.#entries()).filter(([other]) => other !== key);
    const kept = [...others.slice(-(kMostEntries - 1)), [key, value]];
    await this.#file.write(JSON.stringify(Object.fromEntries(kept)));
  }
}
