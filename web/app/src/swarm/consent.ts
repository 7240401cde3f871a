// Whether a device may compute the whole model: who waits for an answer, and the answer.
import { computed, effect, signal } from "@preact/signals";
import type { Device } from "@weft/ui";
import { callApi } from "../api/http.ts";
import { swarmPicture } from "../api/swarmFeed.ts";

// Answered here; the picture names them until the server has heard.
const answered = signal<readonly number[]>([]);

effect(() => {
  const asked = swarmPicture.value?.consents ?? [];
  answered.value = answered.peek()
    .filter((id) => asked.some(({ deviceId }) => deviceId === id));
});

export const asking = computed<Device | null>(() => {
  const picture = swarmPicture.value;
  const consent = picture?.consents.find(({ deviceId }) => !answered.value.includes(deviceId));
  return picture?.devices.find(({ id }) => id === consent?.deviceId) ?? null;
});

export async function answerConsent(device: Device, isAllowed: boolean): Promise<void> {
  answered.value = [...answered.value, device.id];
  try {
    const body = JSON.stringify({ worker: device.id, allow: isAllowed });
    await callApi("/api/swarm/consent", { method: "POST", body });
  } catch {
    // It was too late, or the server is gone: the picture tells.
  }
}
