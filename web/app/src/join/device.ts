// What the browser tells about this device, where it tells it.
import { signal } from "@preact/signals";
import { friendlyName, isMeteredConnection, isPhone } from "@weft/ui";
import type { DeviceConditions, DeviceMemory } from "@weft/ui";
import { load, randomId, save } from "../browser/storage.ts";

// Not in every browser, and not in TypeScript's library.
interface NavigatorExtras {
  deviceMemory?: number;
  userAgentData?: { mobile?: boolean };
  connection?: EventTarget & { type?: string; saveData?: boolean };
  getBattery?: () => Promise<EventTarget & { charging: boolean }>;
}

const extras = navigator as NavigatorExtras;

export const isPhoneDevice =
  extras.userAgentData?.mobile ?? isPhone(navigator.userAgent, navigator.maxTouchPoints);

export const deviceMemory: DeviceMemory = {
  deviceGiB: extras.deviceMemory ?? null,
  isPhone: isPhoneDevice,
};

export const deviceConditions = signal<DeviceConditions>({
  isOnBattery: false,
  isMetered: extras.connection ? isMeteredConnection(extras.connection) : false,
});

// Resolves when the conditions are known; from then on they follow the device.
export async function watchDevice(): Promise<void> {
  const { connection } = extras;
  connection?.addEventListener("change", () => {
    deviceConditions.value = {
      ...deviceConditions.value, isMetered: isMeteredConnection(connection),
    };
  });
  try {
    const battery = await extras.getBattery?.();
    if (!battery) return;
    const look = (): void => {
      deviceConditions.value = { ...deviceConditions.value, isOnBattery: !battery.charging };
    };
    battery.addEventListener("chargingchange", look);
    look();
  } catch {
    // A page that may not know is treated as one of a desktop.
  }
}

// Whether weights outlive the tab, as far as a page can know: private windows give no folder. Only
// the worker can tell whether files can be written there, and says so while it helps.
export const keepsWeights = signal(true);

export async function findStorage(): Promise<void> {
  // Undefined on plain http, whatever the types say.
  const storage = navigator.storage as StorageManager | undefined;
  try {
    keepsWeights.value = (await storage?.getDirectory()) !== undefined;
  } catch {
    keepsWeights.value = false;
  }
}

const kNameKey = "weft.deviceName";

export function deviceName(): string {
  const saved = load(kNameKey);
  if (saved !== null && saved !== "") return saved;
  const [byte = 0] = crypto.getRandomValues(new Uint8Array(1));
  const name = friendlyName(navigator.userAgent, byte, navigator.maxTouchPoints);
  save(kNameKey, name);
  return name;
}

export function saveDeviceName(name: string): void {
  if (name !== "") save(kNameKey, name);
}

const kIdPrefix = "weft.workerId.";

// The same after a reload or tomorrow, and never that of another tab that is open: the first of
// this browser's ids that no tab holds. The lock is held until the page goes away.
export async function claimWorkerId(): Promise<string> {
  // Undefined on plain http, whatever the types say.
  const locks = navigator.locks as LockManager | undefined;
  if (!locks) return randomId();
  for (let slot = 0; ; slot += 1) {
    const key = `${kIdPrefix}${slot}`;
    if (await holdForever(locks, key)) {
      const id = load(key) ?? randomId();
      save(key, id);
      return id;
    }
  }
}

function holdForever(locks: LockManager, name: string): Promise<boolean> {
  return new Promise((resolve) => {
    void locks.request(name, { ifAvailable: true }, (lock) => {
      resolve(lock !== null);
      return lock === null ? undefined : new Promise<void>(() => undefined);
    });
  });
}
