// What several views say about devices: their letters, their order, words for states.
import { formatCount } from "../words/format.ts";
import type { Device, DeviceState, SwarmPicture, SwarmState } from "./picture.ts";

// "A", "B", ... "Z", "AA": a device keeps its letter while it is connected, whatever the plan, and
// nobody else gets it before the page is loaded again.
export function deviceLetter(index: number): string {
  const letter = String.fromCharCode(65 + (index % 26));
  return index < 26 ? letter : deviceLetter(Math.floor(index / 26) - 1) + letter;
}

// Colours repeat after this many devices; letters do not.
const kDeviceColors = 8;

export interface NamedDevice {
  device: Device;
  letter: string;
  color: number; // 0 to kDeviceColors - 1
}

// Remembers which device had which letter.
export class DeviceLetters {
  readonly #indexOf = new Map<number, number>();

  indexOf(deviceId: number): number {
    let index = this.#indexOf.get(deviceId);
    if (index === undefined) {
      index = this.#indexOf.size;
      this.#indexOf.set(deviceId, index);
    }
    return index;
  }

  // Devices come in the order of the pipeline, then those without a stage by age.
  name(picture: SwarmPicture): NamedDevice[] {
    const byAge = [...picture.devices].sort((a, b) => a.id - b.id);
    for (const device of byAge) this.indexOf(device.id);
    const place = (device: Device): number =>
      device.firstLayer >= 0 ? device.firstLayer : Number.MAX_SAFE_INTEGER;
    return byAge
      .sort((a, b) => place(a) - place(b) || a.id - b.id)
      .map((device) => {
        const index = this.indexOf(device.id);
        return { device, letter: deviceLetter(index), color: index % kDeviceColors };
      });
  }
}

const kStateWords: Record<SwarmState, string> = {
  down: "Down",
  idle: "Idle",
  preparing: "Preparing",
  repairing: "Taking over",
  up: "Up",
};

export function stateWord(state: SwarmState): string {
  return kStateWords[state];
}

const kDeviceStateWords: Record<DeviceState, string> = {
  connecting: "Connecting",
  measuring: "Measuring its speed",
  idle: "Waiting for work",
  preparing: "Preparing",
  active: "Ready",
  standby: "Standby",
};

export function deviceStateWord(state: DeviceState): string {
  return kDeviceStateWords[state];
}

export function kindWord(kind: string): string {
  if (kind === "web") return "browser tab";
  if (kind === "headless") return "program on a GPU";
  return kind === "native" ? "native program" : kind;
}

// "Up · 3 devices": for narrow places.
export function summaryText(picture: SwarmPicture): string {
  return `${stateWord(picture.state)} · ${formatCount(picture.devices.length, "device")}`;
}
