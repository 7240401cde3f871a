// Which models a server with several has loaded, as GET /worker/cells tells it: at once when a
// device has not seen the latest list, else as soon as there is another one. The same in C++:
// src/apps/remote_cells.h.
import type { Fetch } from "@weft/worker/download/serverHttp.ts";
import type { ServerList } from "@weft/worker/threads/serverList.ts";

// A model that is loaded.
export interface Cell {
  readonly cell: number;
  readonly model: string;
  readonly needBytes: number;
}

export interface Question {
  readonly servers: ServerList; // the next one is asked where one does not answer
  readonly joinToken: string; // "" where none is asked for
  readonly device: string; // the worker's id
  readonly memoryBytes: number; // that the device has for all models
}

// After a server did not answer, and after one that knows no such question: it may be another one.
const kAwayPauseMs = 5_000, kOneModelPauseMs = 60_000;
const kFirstAnswerMs = 3_000, kAnswerMs = 40_000;
const kLeastOfferBytes = 32 * 2 ** 20;

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}

// Throws where the answer is no such list.
export function parseCellList(answer: unknown): { version: number; cells: Cell[] } {
  const { version, cells } = (answer ?? {}) as { version?: unknown; cells?: unknown };
  if (!isCount(version) || !Array.isArray(cells))
    throw new Error("The server's list of models lacks its version or cells.");
  return {
    version,
    cells: cells.map((each: unknown) => {
      const { cell, model, need_bytes: needBytes } = (each ?? {}) as Record<string, unknown>;
      if (!isCount(cell) || cell === 0 || typeof model !== "string" || !isCount(needBytes))
        throw new Error("The server's list of models has a cell without number, model or memory.");
      return { cell, model, needBytes };
    }),
  };
}

// What the device offers a model: what it needs, as far as `leftBytes` go; 0: it does not help it.
export function offerFor(needBytes: number, leftBytes: number): number {
  const bytes = Math.min(needBytes, leftBytes);
  return bytes < kLeastOfferBytes ? 0 : bytes;
}

// Settles after so long, or when `signal` ends it.
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const timer = setTimeout(resolve, ms);
    const end = (): void => {
      clearTimeout(timer);
      resolve();
    };
    signal.addEventListener("abort", end, { once: true });
  });
}

// Ends with `signal`, or after so long.
function limited(ms: number, signal: AbortSignal): AbortSignal {
  const end = new AbortController();
  void pause(ms, signal).then(() => end.abort());
  return end.signal;
}

// Asks until `signal` ends it. `tell` gets every list, and null when the server has one model, or
// does not answer.
export async function followCells(
  fetch: Fetch,
  { servers, joinToken, device, memoryBytes }: Question,
  signal: AbortSignal,
  tell: (cells: readonly Cell[] | null) => void,
): Promise<void> {
  const headers: Record<string, string> =
    joinToken === "" ? {} : { Authorization: `Bearer ${joinToken}` };
  let seen = 0;
  while (!signal.aborted) {
    const query = new URLSearchParams({
      device, memory: String(memoryBytes), seen: String(seen),
    });
    let isThere = false;
    try {
      // What a device has not seen yet is told at once.
      const limit = limited(seen === 0 ? kFirstAnswerMs : kAnswerMs, signal);
      const { origin } = servers.current;
      const answer = await fetch(`${origin}/worker/cells?${query}`, { headers, signal: limit });
      isThere = true;
      const body: unknown = await answer.json();
      if (answer.ok) {
        const list = parseCellList(body);
        seen = list.version;
        servers.settle();
        tell(list.cells);
        continue;
      }
    } catch {
      // The server is away, or answers something else: it is asked again.
    }
    if (signal.aborted) return;
    seen = 0;
    if (!isThere && servers.next()) continue;
    tell(null);
    await pause(isThere ? kOneModelPauseMs : kAwayPauseMs, signal);
  }
}
