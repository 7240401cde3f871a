// "/join": the helper's page. It works with a join token alone, without the right to see the swarm.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Notice, StateBadge, formatCount, formatRate } from "@weft/ui";
import { setJoinToken } from "../api/secrets.ts";
import { isStale, swarmPicture } from "../api/swarmFeed.ts";
import { isWanted, status } from "./helper.ts";
import { Helping } from "./helping.tsx";
import { InsecureNotice, JoinForm } from "./joinForm.tsx";
import { modelState, reloadModel, watchModel } from "./model.ts";

export function JoinPage(): VNode {
  useEffect(watchModel, []);
  return (
    <div class="page join-page">
      <header class="join-head">
        <h1>Help compute</h1>
        <p>
          weft runs a language model that is too big for one device on many devices together. If you
          help, this tab computes a part of every answer, as long as you like.
        </p>
      </header>
      <InsecureNotice />
      <ModelNotice />
      {status.value.phase === "refused" && !isWanted.value && (
        <Notice kind="error" title="This device could not help" isAlert>
          <p>{status.value.message}</p>
        </Notice>
      )}
      {isWanted.value ? <Helping /> : <JoinForm />}
      <SwarmLine />
    </div>
  );
}

function ModelNotice(): VNode | null {
  const state = modelState.value;
  switch (state.kind) {
    case "asking":
    case "known":
      return null;
    case "tokenWanted":
      return <TokenForm wasRefused={state.wasRefused} />;
    case "unreachable":
      return (
        <Notice kind="warning" title={state.sentence} isAlert>
          <p>Check that weft is running and that this device is connected.</p>
          <button type="button" class="button" onClick={reloadModel}>Try again</button>
        </Notice>
      );
  }
}

function TokenForm({ wasRefused }: { wasRefused: boolean }): VNode {
  const [token, setToken] = useState("");
  return (
    <form
      class="card stack"
      onSubmit={(event) => {
        event.preventDefault();
        // A whole join link is welcome too.
        const text = token.trim();
        setJoinToken(text.slice(text.lastIndexOf("#") + 1));
      }}
    >
      <h2>This swarm asks for its join token</h2>
      <p>
        The join link carries it after the <code>#</code>. <code>weft serve</code> printed the link
        when it started.
      </p>
      {wasRefused && (
        <p class="field-error" role="alert">
          The server did not accept the token that this browser has. It makes new ones at every
          start.
        </p>
      )}
      <label class="field">
        <span class="field-label">Join token or join link</span>
        <input type="text" autocomplete="off" spellcheck={false} value={token}
          onInput={(event) => setToken(event.currentTarget.value)} />
      </label>
      <div class="row row-end">
        <button type="submit" class="button button-primary" disabled={token.trim() === ""}>
          Use this token
        </button>
      </div>
    </form>
  );
}

// Only for those who may see the swarm.
function SwarmLine(): VNode | null {
  const picture = swarmPicture.value;
  if (!picture) return null;
  return (
    <p class="swarm-line">
      <StateBadge picture={picture} isStale={isStale.value} />
      <span>{formatCount(picture.devices.length, "device")}</span>
      <span class="figure">{formatRate(picture.tokensPerSecond, "tokens")}</span>
      <a href="/swarm">See the swarm</a>
    </p>
  );
}
