// Who this worker is, for the orchestrator: kept beside the cache, so that a worker that starts
// again is the same device. Workers that run at one time are different ones: a file is taken by one
// process, which writes its number beside it.
import { randomBytes } from "node:crypto";
import {
  linkSync, mkdirSync, readFileSync, renameSync, unlinkSync, writeFileSync,
} from "node:fs";
import { join } from "node:path";

import { isProcessAlive } from "./processes.ts";

const kMostWorkers = 64; // on one adapter

// The first id of the folder for this adapter that no other process holds, 32 hex digits. Where
// the folder cannot be used, a new one for this time.
export function takeWorkerId(folder: string, adapter: number): string {
  try {
    mkdirSync(folder, { recursive: true });
    for (let number = 1; number <= kMostWorkers; ++number) {
      const name = `gpu-worker-id-${adapter}${number === 1 ? "" : `-${number}`}`;
      if (take(join(folder, `${name}.taken`))) return idIn(join(folder, name));
    }
  } catch {
    // As for a folder that cannot be written.
  }
  return newId();
}

const newId = (): string => randomBytes(16).toString("hex");

function idIn(file: string): string {
  try {
    const kept = readFileSync(file, "utf8").trim();
    if (/^[0-9a-f]{32}$/.test(kept)) return kept;
  } catch {
    // It is new.
  }
  const id = newId();
  writeFileSync(file, id, { mode: 0o600 });
  return id;
}

// False when a process that runs has it.
function take(mark: string): boolean {
  for (;;) {
    try {
      writeFileSync(mark, String(process.pid), { flag: "wx", mode: 0o600 });
      process.once("exit", () => unlinkSync(mark));
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    }
    const holder = readFileSync(mark, "utf8");
    if (isProcessAlive(Number(holder))) return false;
    // Of several that find it at once, one moves it away; who came too late has moved the mark of
    // that one, and gives it back.
    const away = `${mark}.${process.pid}`;
    try {
      renameSync(mark, away);
      if (readFileSync(away, "utf8") !== holder) linkSync(away, mark);
      unlinkSync(away);
    } catch {
      return false;
    }
  }
}
