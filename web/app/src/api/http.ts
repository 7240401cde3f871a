// Requests to the server that this page came from, with the API key where there is one.
import { signal } from "@preact/signals";
import { failureOf, unreachable } from "./failure.ts";
import type { ApiFailure } from "./failure.ts";
import { apiKey, setApiKey } from "./secrets.ts";

// The key dialog: `no`, asked for by a 401, or asked for because a key was refused.
export const keyWanted = signal<"no" | "missing" | "refused">("no");

const waiting = new Set<() => void>();

export function saveKey(key: string): void {
  setApiKey(key);
  closeKeyDialog();
}

// Whoever waits for a key tries again, with or without one.
export function closeKeyDialog(): void {
  keyWanted.value = "no";
  for (const go of waiting) go();
  waiting.clear();
}

interface ApiOptions {
  method?: "GET" | "POST" | "DELETE";
  body?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  // What a 401 does: opens the dialog and tries again with what it gave, or fails.
  onKeyMissing?: "ask" | "fail";
}

// An answer with a status of 200. Throws an ApiFailure, or the signal's reason.
export async function callApi(path: string, options: ApiOptions = {}): Promise<Response> {
  for (;;) {
    const key = apiKey.value;
    const response = await send(path, options, key);
    if (response.ok) return response;
    const failure: ApiFailure = await failureOf(response);
    if (response.status !== 401 || options.onKeyMissing === "fail") throw failure;
    // Another request may have brought the right key meanwhile.
    if (apiKey.value === key) {
      await askForKey(key !== "", options.signal);
      if (apiKey.value === key) throw failure;
    }
  }
}

async function send(path: string, options: ApiOptions, key: string): Promise<Response> {
  const headers: Record<string, string> = { ...options.headers };
  if (key !== "") headers["Authorization"] = `Bearer ${key}`;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await fetch(path, {
      method: options.method ?? "GET",
      headers,
      credentials: "omit",
      cache: "no-store",
      ...(options.body === undefined ? {} : { body: options.body }),
      ...(options.signal ? { signal: options.signal } : {}),
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw unreachable();
  }
}

function askForKey(wasRefused: boolean, signalOfRequest: AbortSignal | undefined): Promise<void> {
  keyWanted.value = wasRefused ? "refused" : "missing";
  return new Promise((resolve, reject) => {
    waiting.add(resolve);
    signalOfRequest?.addEventListener("abort", () => {
      waiting.delete(resolve);
      reject(new DOMException("The request was stopped.", "AbortError"));
    });
  });
}

export async function getJson(path: string, options: ApiOptions = {}): Promise<unknown> {
  const response = await callApi(path, options);
  return response.json();
}
