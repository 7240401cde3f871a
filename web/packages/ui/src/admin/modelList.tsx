// The models of the server: what they take, who uses them, and whether they are loaded.
import type { VNode } from "preact";
import type { OwnedModel } from "./adminJson.ts";
import { demandText, modelText } from "./words.ts";

interface ModelListProps {
  models: readonly OwnedModel[];
  hasSeveral: boolean;
  onLoad: (name: string) => void;
  onUnload: (model: OwnedModel) => void;
}

export function ModelList({ models, hasSeveral, onLoad, onUnload }: ModelListProps): VNode {
  if (models.length === 0) return <p class="muted">The library is empty.</p>;
  return (
    <ul class="admin-rows">
      {models.map((model) => (
        <li key={model.name} class="admin-row">
          <div>
            <p class="admin-row-name">
              {model.name} <span class="chip admin-chip">{model.state}</span>
            </p>
            <p class="muted">{modelText(model)}</p>
            <p class="device-holds">{demandText(model)}</p>
            {model.use && <p class="muted">{model.use.message}</p>}
            {model.problem !== "" && <p class="device-problem">{model.problem}</p>}
          </div>
          {hasSeveral && <ModelButton model={model} onLoad={onLoad} onUnload={onUnload} />}
        </li>
      ))}
    </ul>
  );
}

function ModelButton({ model, onLoad, onUnload }: {
  model: OwnedModel;
  onLoad: (name: string) => void;
  onUnload: (model: OwnedModel) => void;
}): VNode | null {
  const { name, state, stays } = model;
  if (stays) return null;
  if (state === "loaded") {
    return (
      <button type="button" class="button" aria-label={`Unload ${name}`}
        onClick={() => onUnload(model)}>
        Unload
      </button>
    );
  }
  return (
    <button type="button" class="button" aria-label={`Load ${name}`} disabled={state !== "on disk"}
      onClick={() => onLoad(name)}>
      Load
    </button>
  );
}
