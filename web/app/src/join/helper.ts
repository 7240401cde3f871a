// Helping: what was chosen, whether it may run now, and the worker's status. It goes on while other
// pages of this app are looked at, and never starts without a click.
import { computed, effect, signal } from "@preact/signals";
import {
  kLeastOfferBytes, dataReason, defaultOfferBytes, formatBytes, limitName, mostOfferBytes,
  pauseReason, readDataLimit, readHelpShare, readOffer,
} from "@weft/ui";
import { HelpClient, initialStatus } from "@weft/worker";
import type { EngineChoice, WorkerPhase, WorkerStatus } from "@weft/worker";
import { apiKey, joinToken } from "../api/secrets.ts";
import { loadJson, save } from "../browser/storage.ts";
import { createWorker } from "./createWorker.ts";
import { countTraffic, dataUse } from "./dataUse.ts";
import {
  claimWorkerId, deviceConditions, deviceMemory, deviceName, findStorage, isPhoneDevice,
  saveDeviceName, watchDevice,
} from "./device.ts";
import { askGpu, gpuMemory } from "./gpuMemory.ts";
import { followOwnState } from "./ownState.ts";
import { SteadyPhase } from "./steadyPhase.ts";
import { watchSleep } from "./suspension.ts";
import { keepAwake } from "./wakeLock.ts";

export interface HelpChoices {
  name: string;
  memoryBytes: number;
  engine: EngineChoice;
  onBattery: boolean;
  onMetered: boolean;
  share: number; // of the time
  dataLimitBytes: number | null; // of a day
}

const kChoicesKey = "weft.help";

export const status = signal<WorkerStatus>(initialStatus());
export const shownPhase = signal<WorkerPhase>("stopped");
export const choices = signal<HelpChoices>(initialChoices());
// The button was pressed and the stop button was not.
export const isWanted = signal(false);

export const pausedBecause = computed(() => {
  const { onBattery, onMetered, dataLimitBytes } = choices.value;
  return pauseReason(deviceConditions.value, { battery: onBattery, metered: onMetered }) ||
    dataReason(dataLimitBytes, dataUse.value, formatBytes(dataLimitBytes ?? 0));
});
export const isHelping = computed(() => isWanted.value && pausedBecause.value === "");

const steadyPhase = new SteadyPhase((phase) => {
  shownPhase.value = phase;
});
const client = new HelpClient(createWorker);
client.onStatus((next) => {
  status.value = next;
  countTraffic(next);
  steadyPhase.see(next.phase);
  if (next.phase === "refused") isWanted.value = false;
});

let workerId: Promise<string> | null = null;

effect(() => {
  const helps = isHelping.value;
  keepAwake(helps);
  watchSleep(helps);
  followOwnState(helps ? limitName(choices.peek().name) : "");
  if (helps) void begin();
  else if (client.isHelping) client.stop();
});

async function begin(): Promise<void> {
  workerId ??= claimWorkerId();
  const id = await workerId;
  if (!isHelping.peek() || client.isHelping) return;
  const { name, memoryBytes, engine, share } = choices.peek();
  client.start({
    serverOrigin: location.origin,
    joinToken: joinToken.peek(),
    name: limitName(name),
    workerId: id,
    memoryBytes,
    processorBytes: Math.min(memoryBytes, mostOfferBytes(deviceMemory)),
    isPhone: isPhoneDevice,
    engine,
    ...(share < 1 ? { share } : {}),
  });
}

export function startHelping(): void {
  saveDeviceName(limitName(choices.value.name));
  // The name is kept beside them.
  const { memoryBytes, engine, onBattery, onMetered, share, dataLimitBytes } = choices.value;
  save(kChoicesKey,
    JSON.stringify({ memoryBytes, engine, onBattery, onMetered, share, dataLimitBytes }));
  isWanted.value = true;
}

export function stopHelping(): void {
  isWanted.value = false;
}

// The whole model in this tab, or shared among the swarm's devices again.
export function runItAllHere(isWanted: boolean): void {
  client.runHere(isWanted, apiKey.peek());
}

export function forgetCache(): void {
  client.forgetCache();
}

export function changeChoices(change: Partial<HelpChoices>): void {
  choices.value = { ...choices.value, ...change };
}

// Has the GPU asked, and offers what is sensible of what it gave.
export async function offerWhatGpuHas(): Promise<void> {
  const found = await askGpu(choices.peek().engine === "webgpu");
  if (found) changeChoices({ memoryBytes: defaultOfferBytes(deviceMemory, found) });
}

// They come from the link (tests, people who prepare links), else from the last time, else they
// are the defaults.
function initialChoices(): HelpChoices {
  const query = new URLSearchParams(location.search);
  const saved = (loadJson(kChoicesKey) ?? {}) as Partial<Record<keyof HelpChoices, unknown>>;
  const savedBytes = typeof saved.memoryBytes === "number" && saved.memoryBytes >= kLeastOfferBytes
    ? saved.memoryBytes : null;
  return {
    name: limitName(query.get("name") ?? "") || deviceName(),
    memoryBytes: readOffer(query.get("memory")) ?? savedBytes ??
      defaultOfferBytes(deviceMemory, gpuMemory.value),
    engine: readEngine(query.get("engine")) ?? readEngine(saved.engine) ?? "auto",
    onBattery: saved.onBattery === true,
    onMetered: saved.onMetered === true,
    share: readHelpShare(saved.share),
    dataLimitBytes: readDataLimit(saved.dataLimitBytes),
  };
}

function readEngine(value: unknown): EngineChoice | null {
  return value === "auto" || value === "webgpu" || value === "wasm" ? value : null;
}

void watchDevice();
void findStorage();
