// The models of the server, asked for once it is there and whenever it comes back, and where it has
// several whenever another one is loaded.
import { computed, effect, signal } from "@preact/signals";
import { readModels } from "@weft/ui";
import type { ListedModel } from "@weft/ui";
import { getJson } from "../api/http.ts";
import { feedState, swarmPicture } from "../api/swarmFeed.ts";

export const models = signal<readonly ListedModel[]>([]);

// Changes when the states of several models may have changed.
const loaded = computed(() => models.value.length > 1
  ? `${swarmPicture.value?.model.name ?? ""} ${swarmPicture.value?.state ?? ""}` : "");

effect(() => {
  if (feedState.value !== "live") return;
  void loaded.value;
  getJson("/v1/models", { onKeyMissing: "fail" })
    .then((json) => {
      models.value = readModels(json);
    })
    .catch(() => undefined); // the chat asks again when it needs a name
});

// What answers where nobody chose: the model of the swarm, of several the one that the menu shows.
export async function modelName(stopped: AbortSignal): Promise<string> {
  const { length, 0: top } = models.value;
  const known = length > 1 ? top?.id : swarmPicture.value?.model.name ?? top?.id;
  if (known) return known;
  const [first] = readModels(await getJson("/v1/models", { signal: stopped }));
  return first?.id ?? "";
}
