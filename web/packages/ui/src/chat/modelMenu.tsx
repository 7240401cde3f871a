// Which model answers: a menu where the server has several, else its name.
import type { VNode } from "preact";

export interface ListedModel {
  id: string;
  state: string; // as the server says it: "loaded", "not loaded"; "": it does not say
}

interface ModelMenuProps {
  models: readonly ListedModel[];
  chosen: string; // "": the first one
  onChoose: (id: string) => void;
}

// The models of GET /v1/models that can chat; what is not ours is left out.
export function readModels(json: unknown): ListedModel[] {
  if (typeof json !== "object" || json === null || !("data" in json)) return [];
  return (Array.isArray(json.data) ? json.data : []).flatMap((model: unknown) => {
    if (typeof model !== "object" || model === null || !("id" in model)) return [];
    const { id, capabilities, state } = model as Partial<Record<string, unknown>>;
    // Embedding models write nothing; a server that does not say what its models can has none.
    const canChat = !Array.isArray(capabilities) || capabilities.includes("completion");
    if (typeof id !== "string" || !canChat) return [];
    return [{ id, state: typeof state === "string" ? state : "" }];
  });
}

export function ModelMenu({ models, chosen, onChoose }: ModelMenuProps): VNode | null {
  const [first] = models;
  if (!first) return null;
  const isListed = chosen === "" || models.some(({ id }) => id === chosen);
  if (models.length === 1 && isListed) return <span class="model-name">{first.id}</span>;
  return (
    <select class="model-menu" aria-label="Model" value={chosen || first.id}
      onChange={(event) => onChoose(event.currentTarget.value)}>
      {!isListed && <option value={chosen}>{chosen} (not there)</option>}
      {models.map(({ id, state }) => (
        <option key={id} value={id}>{state === "" ? id : `${id} (${state})`}</option>
      ))}
    </select>
  );
}
