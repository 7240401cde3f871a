// What the server says of this device while it helps: why it is put aside, where it is. A helper
// may ask that with its join token.
import { signal } from "@preact/signals";
import { readOwnProblem } from "@weft/ui";
import { apiKey, joinToken } from "../api/secrets.ts";

const kAskMs = 5000;

export const ownProblem = signal("");

let timer: ReturnType<typeof setInterval> | undefined;

// An empty name: this device does not help.
export function followOwnState(name: string): void {
  clearInterval(timer);
  timer = undefined;
  ownProblem.value = "";
  if (name === "") return;
  timer = setInterval(() => void ask(name), kAskMs);
  void ask(name);
}

async function ask(name: string): Promise<void> {
  const secret = joinToken.peek() || apiKey.peek();
  try {
    const response = await fetch(`/worker/state?name=${encodeURIComponent(name)}`, {
      credentials: "omit", cache: "no-store",
      headers: secret === "" ? {} : { Authorization: `Bearer ${secret}` },
    });
    const isAsked = timer !== undefined;
    if (response.ok && isAsked) ownProblem.value = readOwnProblem(await response.json());
  } catch {
    // The worker tells that the connection is lost.
  }
}
