// "/swarm": the whole picture of the swarm; beside the chat, a smaller one.
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import {
  ConsentDialog, HistoryCharts, Notice, SharePanel, SwarmView, WhatIfForm,
} from "@weft/ui";
import { feedState, isStale, restartFeed, swarmActivity, swarmPicture } from "../api/swarmFeed.ts";
import { answerConsent, asking } from "./consent.ts";
import { askWhatIf, followHistory, history } from "./history.ts";
import { share } from "./share.ts";

export function SwarmPage(): VNode {
  const picture = swarmPicture.value;
  useEffect(followHistory, []);
  return (
    <div class="page swarm-page">
      <h1>Swarm</h1>
      <FeedNotice />
      <ConsentDialog device={asking.value}
        onAnswer={(device, isAllowed) => void answerConsent(device, isAllowed)} />
      <h2 class="visually-hidden">State, layers and devices</h2>
      {picture
        ? <SwarmView picture={picture} activity={swarmActivity.value} isStale={isStale.value}
          isFull />
        : <SwarmSkeleton />}
      {history.value && (
        <section class="card stack" aria-labelledby="history-heading">
          <h2 id="history-heading">History</h2>
          <HistoryCharts history={history.value} />
        </section>
      )}
      {picture && (
        <section class="card stack" aria-labelledby="what-if-heading">
          <h2 id="what-if-heading">What if</h2>
          <WhatIfForm layerCount={picture.layerCount} ask={askWhatIf} />
        </section>
      )}
      {share.value && (
        <section class="card" aria-labelledby="share-heading">
          <h2 id="share-heading">Add a device</h2>
          <SharePanel share={share.value} />
        </section>
      )}
      {share.value && <p><a href="/admin">Devices, keys and models: administration</a></p>}
    </div>
  );
}

export function SwarmAside(): VNode {
  const picture = swarmPicture.value;
  return (
    <aside class="swarm-aside" aria-label="Swarm">
      <h2 class="visually-hidden">Swarm</h2>
      {picture
        ? <SwarmView picture={picture} activity={swarmActivity.value} isStale={isStale.value}
          isFull={false} />
        : <SwarmSkeleton />}
      <a class="button button-block" href="/join">Help compute with this device</a>
    </aside>
  );
}

// Keeps the room until the first picture comes.
function SwarmSkeleton(): VNode {
  return (
    <div class="skeleton" aria-hidden="true">
      <i class="skeleton-line" />
      <i class="skeleton-bar" />
      <i class="skeleton-card" />
    </div>
  );
}

// Why the picture is not fresh.
export function FeedNotice(): VNode | null {
  switch (feedState.value) {
    case "live":
      return null;
    case "connecting":
      return null;
    case "lost":
      return (
        <Notice kind="warning" title="Connection lost, reconnecting" isAlert>
          <p>The server does not answer. This page tries again by itself.</p>
        </Notice>
      );
    case "denied":
      return (
        <Notice kind="warning" title="This swarm asks for its API key">
          <p>Open the chat link that <code>weft serve</code> printed, or enter the key.</p>
          <button type="button" class="button" onClick={restartFeed}>Enter the key</button>
        </Notice>
      );
  }
}
