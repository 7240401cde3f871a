// What the admin page says of devices, models and keys: pure functions, each a sentence or a part.
import { layersText } from "../swarm/layers.ts";
import { formatBytes, formatCount, formatInteger, formatMemory } from "../words/format.ts";
import type { NamedKey, OwnedDevice, OwnedModel } from "./adminJson.ts";

// "45 s", "12 min", "3 h", "2 days": rounded down, for times that go on.
export function formatAge(seconds: number): string {
  if (seconds < 60) return `${Math.max(0, Math.floor(seconds))} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h`;
  return formatCount(Math.floor(seconds / 86_400), "day");
}

// "For qwen3-0.6b: runs the whole model, stands by with layers 4–8."
export function workText(device: OwnedDevice): string {
  const { firstLayer, endLayer, layerCount, beside, ready, expertsHeld, model } = device;
  const parts: string[] = [];
  if (firstLayer >= 0) parts.push(`runs ${layersText(firstLayer, endLayer, layerCount)}`);
  if (beside) {
    const layers = layersText(beside.first, beside.end, layerCount);
    parts.push(`answers beside the others with ${layers}`);
  }
  for (const { first, end } of ready) {
    parts.push(`stands by with ${layersText(first, end, layerCount)}`);
  }
  if (expertsHeld > 0) parts.push(`holds ${formatInteger(expertsHeld)} parts for others`);
  if (parts.length === 0) return `For ${model}: nothing now.`;
  return `For ${model}: ${parts.join(", ")}.`;
}

// Why it gets no work, and for how long; "" where it does.
export function asideText({ asideReason, asideForS }: OwnedDevice): string {
  if (asideReason === "" || asideForS === null) return asideReason;
  return `${asideReason} Again in ${formatAge(Math.ceil(asideForS))}.`;
}

// A device says something every half second; a tab in the background or a lid may keep it silent.
const kSilentS = 3;

export function silenceText({ silentS }: OwnedDevice): string {
  return silentS < kSilentS ? "" : `Nothing has been heard of it for ${formatAge(silentS)}.`;
}

export function busyText({ busyShare }: OwnedDevice): string {
  const percent = Math.round(100 * busyShare);
  if (busyShare > 0 && percent === 0) return "less than 1% of the time";
  return `${percent}% of the time`;
}

export function modelText({ weightBytes, needBytes, goesInS, stays, use }: OwnedModel): string {
  const size = `${formatBytes(weightBytes)} of weights, needs ${formatMemory(needBytes)}` +
    " of all devices together.";
  if (use === null) return size;
  if (stays) return `${size} It stays loaded.`;
  return goesInS === null ? size
    : `${size} Without a question it is unloaded in ${formatAge(goesInS)}.`;
}

// "2 answers under way, 1 waits: maths (2), 192.168.1.7 (1)."
export function demandText({ use, waitingRequests }: OwnedModel): string {
  if (!use) {
    return waitingRequests === 0 ? "Nobody uses it."
      : `${formatCount(waitingRequests, "question")} ${waitingRequests === 1 ? "waits" : "wait"}.`;
  }
  const devices = `${formatCount(use.devices, "device")} ${use.devices === 1 ? "helps" : "help"}.`;
  const waiting = use.queuedRequests + waitingRequests;
  if (use.activeRequests + waiting === 0) return `${devices} Nobody asks it now.`;
  const askers = use.askers.map(({ name, requests }) => `${name} (${requests})`).join(", ");
  const waits = waiting === 0 ? ""
    : `, ${formatInteger(waiting)} ${waiting === 1 ? "waits" : "wait"}`;
  const under = `${formatCount(use.activeRequests, "answer")} under way${waits}`;
  return askers === "" ? `${devices} ${under}.` : `${devices} ${under}: ${askers}.`;
}

const kRoleWords: Record<string, string> = {
  user: "API and chat", admin: "admin", metrics: "metrics", helper: "join token",
};

export function roleWord(role: string): string {
  return kRoleWords[role] ?? role;
}

export function usageText({ today }: NamedKey): string {
  const tokens = today.promptTokens + today.completionTokens;
  return `Today: ${formatCount(today.requests, "request")}, ${formatCount(tokens, "token")}.`;
}

// "60 a minute, 100 000 tokens a day, for maths only"; "" where it has no limits.
export function limitsText({ perMinute, tokensPerDay, atOnce, models }: NamedKey): string {
  const limits: string[] = [];
  if (perMinute !== null) limits.push(`${formatInteger(perMinute)} requests a minute`);
  if (tokensPerDay !== null) limits.push(`${formatInteger(tokensPerDay)} tokens a day`);
  if (atOnce !== null) limits.push(`${formatInteger(atOnce)} at once`);
  if (models.length > 0) limits.push(`only ${models.join(", ")}`);
  return limits.length === 0 ? "" : `Limits: ${limits.join(", ")}.`;
}

// "2027-06-30T18:00:00Z" as "2027-06-30 18:00 UTC"; what is no time stays as it is.
export function timeText(time: string): string {
  const parts = /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})/.exec(time);
  return parts ? `${parts[1]} ${parts[2]} UTC` : time;
}

export function lifeText({ state, created, expires, ended }: NamedKey): string {
  const made = `Made ${timeText(created)}`;
  if (state === "ended") return `${made}, ended ${timeText(ended)}.`;
  if (expires === "") return `${made}, does not end by itself.`;
  return `${made}, ${state === "expired" ? "ended" : "ends"} ${timeText(expires)}.`;
}
