// The picture of the swarm, kept up to date: server-sent events while the page is looked at, a
// question every few seconds where a lasting connection would be in the way. Browsers keep at most
// six connections to one server, so hidden pages and helping pages must not hold one each.
import { signal } from "@preact/signals";
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

export const swarmPicture = signal<SwarmPicture | null>(null);
export const swarmActivity = signal<Activity>(idleActivity());
export const feedState = signal<FeedState>("connecting");

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

async function follow(how: "events" | "poll", stop: AbortSignal): Promise<void> {
  let retryMs = kFirstRetryMs;
  while (!stop.aborted) {
    try {
      if (how === "events") {
        await followEvents(stop, () => {
          retryMs = kFirstRetryMs;
        });
      } else {
        show(await getJson("/api/swarm", { signal: stop, onKeyMissing: "fail" }));
        retryMs = kPollMs;
      }
      if (how === "events") feedState.value = "lost"; // the server ended it
    } catch (error) {
      if (stop.aborted) return;
      const isDenied = error instanceof ApiFailure && error.status === 401;
      feedState.value = isDenied ? "denied" : "lost";
      // The next key, if there will be one, starts the feed again.
      if (isDenied) return;
    }
    await sleep(retryMs, stop);
    if (how === "events" || feedState.value === "lost") {
      retryMs = Math.min(2 * retryMs, kLongestRetryMs);
    }
  }
}

async function followEvents(stop: AbortSignal, onPicture: () => void): Promise<void> {
  const response = await callApi("/api/swarm/events", { signal: stop });
  for await (const { event, data } of readEvents(response)) {
    if (event !== "swarm") continue;
    show(JSON.parse(data));
    onPicture();
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
