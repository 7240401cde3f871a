// The swarm's history, asked for while somebody looks at it.
import { signal } from "@preact/signals";
import { readHistory, readWhatIf } from "@weft/ui";
import type { SwarmHistory, WhatIfAnswer } from "@weft/ui";
import { getJson } from "../api/http.ts";

// As often as the server has a new step.
const kAskMs = 10_000;

export const history = signal<SwarmHistory | null>(null);

// Asks now and then until the result is called.
export function followHistory(): () => void {
  const stop = new AbortController();
  const ask = (): void => {
    if (document.hidden) return;
    getJson("/api/swarm/history", { signal: stop.signal, onKeyMissing: "fail" })
      .then((json) => {
        history.value = readHistory(json);
      })
      .catch(() => undefined); // the notice of the page says that the server is gone
  };
  ask();
  const timer = setInterval(ask, kAskMs);
  return () => {
    stop.abort();
    clearInterval(timer);
  };
}

export async function askWhatIf(memoryBytes: number): Promise<WhatIfAnswer> {
  const answer = readWhatIf(await getJson(`/api/swarm/what-if?memory_bytes=${memoryBytes}`));
  if (!answer) throw new Error("The server answered in an unknown way: reload this page.");
  return answer;
}
