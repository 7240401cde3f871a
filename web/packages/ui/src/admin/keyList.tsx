// Named API keys and join tokens: what each may, what it was used for today, and its end.
import type { VNode } from "preact";
import type { NamedKey } from "./adminJson.ts";
import { lifeText, limitsText, roleWord, usageText } from "./words.ts";

interface KeyListProps {
  keys: readonly NamedKey[];
  onEnd: (key: NamedKey) => void;
}

export function KeyList({ keys, onEnd }: KeyListProps): VNode {
  if (keys.length === 0) return <p class="muted">There are no named keys yet.</p>;
  return (
    <ul class="admin-rows">
      {keys.map((key) => <KeyRow key={`${key.name}/${key.created}`} named={key} onEnd={onEnd} />)}
    </ul>
  );
}

function KeyRow({ named, onEnd }: { named: NamedKey; onEnd: (key: NamedKey) => void }): VNode {
  const limits = limitsText(named);
  const isActive = named.state === "active";
  return (
    <li class="admin-row">
      <div>
        <p class="admin-row-name">
          {named.name} <span class="chip admin-chip">{roleWord(named.role)}</span>
          {!isActive && <span class="chip admin-chip">{named.state}</span>}
        </p>
        <p class="muted">{lifeText(named)}</p>
        {limits !== "" && <p class="muted">{limits}</p>}
        {named.role !== "helper" && <p class="device-holds">{usageText(named)}</p>}
      </div>
      {isActive && (
        <button type="button" class="button" aria-label={`End ${named.name}`}
          onClick={() => onEnd(named)}>
          End
        </button>
      )}
    </li>
  );
}
