// The models of the server, asked for once it is there and whenever it comes back.
import { effect, signal } from "@preact/signals";
import { readModels } from "@weft/ui";
import type { ListedModel } from "@weft/ui";
import { getJson } from "../api/http.ts";
import { feedState, swarmPicture } from "../api/swarmFeed.ts";

export const models = signal<readonly ListedModel[]>([]);

effect(() => {
  if (feedState.value !== "live") return;
  getJson("/v1/models", { onKeyMissing: "fail" })
    .then((json) => {
      models.value = readModels(json);
    })
    .catch(() => undefined); // the chat asks again when it needs a name
});

// What answers where nobody chose: the model of the swarm.
export async function modelName(stopped: AbortSignal): Promise<string> {
  const known = swarmPicture.value?.model.name ?? models.value[0]?.id;
  if (known) return known;
  const [first] = readModels(await getJson("/v1/models", { signal: stopped }));
  return first?.id ?? "";
}
