// What the admin page knows and does: lists that it asks for again and again while it is looked at,
// and the orders of the owner.
import { signal } from "@preact/signals";
import { readKeys, readOwnedDevices, readOwnedModels } from "@weft/ui";
import type {
  EvictedDevice, MadeKey, NamedKey, OwnedDevice, OwnedDevices, OwnedModels, WantedKey,
} from "@weft/ui";
import { ApiFailure } from "../api/failure.ts";
import { callApi, getJson } from "../api/http.ts";

const kAgainMs = 2000;

export const owned = signal<OwnedDevices | null>(null);
export const ownedModels = signal<OwnedModels | null>(null);
export const keys = signal<readonly NamedKey[] | null>(null);
// Why the lists are not there or not fresh; "": they are.
export const adminProblem = signal("");
// What came of the last order, for people.
export const orderResult = signal<{ isProblem: boolean; text: string } | null>(null);

async function refresh(stopped: AbortSignal): Promise<void> {
  try {
    const signal = stopped;
    owned.value = readOwnedDevices(await getJson("/api/admin/devices", { signal }));
    ownedModels.value = readOwnedModels(await getJson("/api/admin/models", { signal }));
    keys.value = readKeys(await getJson("/api/keys", { signal }));
    adminProblem.value = "";
  } catch (error) {
    if (!stopped.aborted) adminProblem.value = sentenceOf(error);
  }
}

// Asks until the page is left. A hidden page rests.
export function followAdmin(): () => void {
  const stop = new AbortController();
  let isAsking = false;
  const look = (): void => {
    if (isAsking || document.hidden) return;
    isAsking = true;
    void refresh(stop.signal).finally(() => {
      isAsking = false;
    });
  };
  look();
  const timer = setInterval(look, kAgainMs);
  document.addEventListener("visibilitychange", look);
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", look);
    stop.abort();
  };
}

function sentenceOf(error: unknown): string {
  if (error instanceof ApiFailure) return `${error.sentence} ${error.advice}`.trim();
  return error instanceof Error ? error.message : String(error);
}

// Says what came of it, and looks at once what it changed.
async function order(path: string, body: object | null, done: string): Promise<void> {
  try {
    await callApi(path, body === null ? { method: "DELETE" }
      : { method: "POST", body: JSON.stringify(body) });
    orderResult.value = { isProblem: false, text: done };
  } catch (error) {
    orderResult.value = { isProblem: true, text: sentenceOf(error) };
  }
  await refresh(new AbortController().signal);
}

export async function evict({ id, model, name }: OwnedDevice): Promise<void> {
  await order("/api/admin/devices/evict", { worker: id, model }, `${name} is evicted.`);
}

export async function letIn({ number, name }: EvictedDevice): Promise<void> {
  await order(`/api/admin/evicted/${number}`, null,
    `${name} is let in: it comes back when it tries again, within half a minute.`);
}

export async function loadModel(model: string): Promise<void> {
  await order("/api/admin/models/load", { model }, `${model} is being loaded.`);
}

export async function unloadModel(model: string): Promise<void> {
  await order("/api/admin/models/unload", { model },
    `${model} is unloaded when its answers have ended.`);
}

export async function endKey({ name }: NamedKey): Promise<void> {
  await order(`/api/keys/${encodeURIComponent(name)}`, null, `${name} has ended.`);
}

export async function makeKey(wanted: WantedKey): Promise<MadeKey> {
  try {
    const body = JSON.stringify(wanted);
    const response = await callApi("/api/keys", { method: "POST", body });
    const json: unknown = await response.json();
    const secret = typeof json === "object" && json !== null && "key" in json &&
      typeof json.key === "string" ? json.key : "";
    return { name: wanted.name, secret, link: linkWith(wanted, secret) };
  } catch (error) {
    throw new Error(sentenceOf(error), { cause: error });
  } finally {
    void refresh(new AbortController().signal);
  }
}

// The page that the secret opens.
function linkWith({ role }: WantedKey, secret: string): string {
  if (role === "helper") return `${location.origin}/join#${secret}`;
  return role === "metrics" ? "" : `${location.origin}/#key=${secret}`;
}
