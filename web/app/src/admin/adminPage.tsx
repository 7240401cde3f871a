// "/admin": what the owner of the server looks after: devices, models, keys. Admins alone may.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import {
  ConfirmDialog, EvictedList, KeyForm, KeyList, ModelList, Notice, OwnedDeviceList,
} from "@weft/ui";
import type { NamedKey, OwnedDevice, OwnedModel } from "@weft/ui";
import {
  adminProblem, endKey, evict, followAdmin, keys, letIn, loadModel, makeKey, orderResult, owned,
  ownedModels, unloadModel,
} from "./admin.ts";

export function AdminPage(): VNode {
  useEffect(followAdmin, []);
  const result = orderResult.value;
  return (
    <div class="page admin-page">
      <h1>Administration</h1>
      {adminProblem.value !== "" && (
        <Notice kind="warning" title="This page cannot see the server" isAlert>
          <p>{adminProblem.value}</p>
        </Notice>
      )}
      <p role="status" class={result?.isProblem === true ? "field-error" : ""}>{result?.text}</p>
      <Devices />
      <Models />
      <Keys />
    </div>
  );
}

function Devices(): VNode | null {
  const [leaving, setLeaving] = useState<OwnedDevice | null>(null);
  if (!owned.value) return null;
  const { devices, evicted } = owned.value;
  return (
    <section class="stack" aria-labelledby="devices-heading">
      <h2 id="devices-heading">Devices</h2>
      <OwnedDeviceList devices={devices} onEvict={setLeaving} />
      <EvictedList evicted={evicted} onLetIn={(device) => void letIn(device)} />
      <ConfirmDialog title="Evict this device?" isOpen={leaving !== null} action="Evict it"
        onClose={() => setLeaving(null)}
        onConfirm={() => {
          if (leaving) void evict(leaving);
          setLeaving(null);
        }}>
        <p>
          <strong>{leaving?.name}</strong> stops helping, every model that it helps. Its layers
          move to other devices, and conversations go on. Where no other device has room, they wait
          until one joins.
        </p>
        <p class="muted">
          It may come back in an hour, or as soon as you let it in. This keeps out a device, not a
          person: to shut out somebody who has the join token, end the token.
        </p>
      </ConfirmDialog>
    </section>
  );
}

function Models(): VNode | null {
  const [leaving, setLeaving] = useState<OwnedModel | null>(null);
  if (!ownedModels.value) return null;
  const { models, hasSeveral } = ownedModels.value;
  return (
    <section class="card stack" aria-labelledby="models-heading">
      <h2 id="models-heading">Models</h2>
      <ModelList models={models} hasSeveral={hasSeveral}
        onLoad={(name) => void loadModel(name)} onUnload={setLeaving} />
      <ConfirmDialog title="Unload this model?" isOpen={leaving !== null} action="Unload it"
        onClose={() => setLeaving(null)}
        onConfirm={() => {
          if (leaving) void unloadModel(leaving.name);
          setLeaving(null);
        }}>
        <p>
          <strong>{leaving?.name}</strong> goes when its answers that are under way have ended. Its
          conversations are computed anew when it is loaded again, and the next question loads it.
        </p>
      </ConfirmDialog>
    </section>
  );
}

function Keys(): VNode | null {
  const [ending, setEnding] = useState<NamedKey | null>(null);
  if (!keys.value) return null;
  const isToken = ending?.role === "helper";
  return (
    <section class="card stack" aria-labelledby="keys-heading">
      <h2 id="keys-heading">Keys and join tokens</h2>
      <KeyForm make={makeKey} />
      <KeyList keys={keys.value} onEnd={setEnding} />
      <ConfirmDialog title={isToken ? "End this join token?" : "End this key?"}
        isOpen={ending !== null} action="End it" onClose={() => setEnding(null)}
        onConfirm={() => {
          if (ending) void endKey(ending);
          setEnding(null);
        }}>
        <p>
          <strong>{ending?.name}</strong> is good for nothing any more, and cannot be brought
          back.{" "}
          {isToken ? "The devices that joined with it are sent away."
            : "Answers that are under way go on to their end."}
        </p>
      </ConfirmDialog>
    </section>
  );
}
