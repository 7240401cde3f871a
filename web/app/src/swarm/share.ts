// The join link, asked for once a page may see the swarm.
import { effect, signal } from "@preact/signals";
import { readShare } from "@weft/ui";
import type { Share } from "@weft/ui";
import { getJson } from "../api/http.ts";
import { learnJoinToken } from "../api/secrets.ts";
import { feedState } from "../api/swarmFeed.ts";

export const share = signal<Share | null>(null);

let isAsking = false;

// Asks after a reconnection, too: a server that was started again has other tokens.
effect(() => {
  if (feedState.value !== "live" || isAsking) return;
  isAsking = true;
  getJson("/api/share", { onKeyMissing: "fail" })
    .then((json) => {
      share.value = readShare(json);
      if (share.value) learnJoinToken(share.value.joinUrl);
    })
    .catch(() => undefined) // the link is a convenience; the server printed it as well
    .finally(() => {
      isAsking = false;
    });
});
