// The picture of the swarm, kept up to date: server-sent events while the page is looked at, a
// question every few seconds where a lasting connection would be in the way. Browsers keep at most
// six connections to one server for all of their tabs, so hidden pages and helping pages must not
// hold one each, and of pages that are looked at side by side only the first few do.
import { computed, signal } from "@preact/signals";
import { idleActivity, nextActivity, readPicture } from "@weft/ui";
import type { Activity, SwarmPicture } from "@weft/ui";
import { ApiFailure } from "./failure.ts";
import { callApi, getJson } from "./http.ts";
import { readEvents } from "./sse.ts";

export type FeedMode = "events" | "poll" | "off";
export type FeedState = "connecting" | "live" | "lost" | "denied";

const kPollMs = 3000;
const kFirstRetryMs = 500;
const kLongestRetryMs = 10_000;
// The server sends a picture every two seconds: so long without one means that it is gone.
const kSilenceMs = 6000;
// Locks that all tabs of a browser share: whoever holds one may keep a connection open.
const kPlaces = ["weft-feed-1", "weft-feed-2", "weft-feed-3"];

export const swarmPicture = signal<SwarmPicture | null>(null);
export const swarmActivity = signal<Activity>(idleActivity());
export const feedState = signal<FeedState>("connecting");
// The picture is of before: nobody knows whether it is right.
export const isStale = computed(() => swarmPicture.value !== null && feedState.value !== "live");

let mode: FeedMode = "off";
let running: AbortController | null = null;

export function followSwarm(next: FeedMode): void {
  if (next === mode && running) return;
  mode = next;
  restart();
}

// Begins anew, with another key, say.
export function restartFeed(): void {
  if (running) restart();
}

function restart(): void {
  running?.abort();
  running = null;
  if (mode === "off" || document.hidden) return;
  running = new AbortController();
  void follow(mode, running.signal);
}

document.addEventListener("visibilitychange", restart);
addEventListener("online", restart);
addEventListener("offline", () => {
  if (running) feedState.value = "lost";
});

async function follow(how: "events" | "poll", stop: AbortSignal): Promise<void> {
  let retryMs = kFirstRetryMs;
  while (!stop.aborted) {
    try {
      const events = (): Promise<void> => followEvents(stop, () => {
        retryMs = kFirstRetryMs;
      });
      if (how === "events" && (await inPlace(events))) {
        feedState.value = "lost"; // the server ended it
      } else {
        const signal = AbortSignal.any([stop, AbortSignal.timeout(kSilenceMs)]);
        show(await getJson("/api/swarm", { signal, onKeyMissing: "fail" }));
        retryMs = kPollMs;
      }
    } catch (error) {
      if (stop.aborted) return;
      const isDenied = error instanceof ApiFailure && error.status === 401;
      feedState.value = isDenied ? "denied" : "lost";
      // The next key, if there will be one, starts the feed again.
      if (isDenied) return;
    }
    await sleep(retryMs, stop);
    if (feedState.value === "lost") retryMs = Math.min(2 * retryMs, kLongestRetryMs);
  }
}

// Runs `body` while it holds a place; false where other tabs have them all. Pages on plain http
// from another machine have no locks: there each follows.
async function inPlace(body: () => Promise<void>): Promise<boolean> {
  const locks = (navigator as Partial<Navigator>).locks;
  if (!locks) {
    await body();
    return true;
  }
  const run = async (lock: Lock | null): Promise<boolean> => {
    if (lock) await body();
    return lock !== null;
  };
  for (const name of kPlaces) {
    if (await locks.request(name, { ifAvailable: true }, run)) return true;
  }
  return false;
}

async function followEvents(stop: AbortSignal, onPicture: () => void): Promise<void> {
  const silence = new AbortController();
  const guard = (): ReturnType<typeof setTimeout> => setTimeout(() => silence.abort(), kSilenceMs);
  let timer = guard();
  try {
    const signal = AbortSignal.any([stop, silence.signal]);
    const response = await callApi("/api/swarm/events", { signal });
    for await (const { event, data } of readEvents(response)) {
      if (event !== "swarm") continue;
      clearTimeout(timer);
      timer = guard();
      show(JSON.parse(data));
      onPicture();
    }
  } finally {
    clearTimeout(timer);
  }
}

function show(json: unknown): void {
  const picture = readPicture(json);
  if (!picture) return;
  swarmPicture.value = picture;
  swarmActivity.value = nextActivity(swarmActivity.value, picture, performance.now());
  feedState.value = "live";
}

function sleep(durationMs: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, durationMs);
    stop.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
