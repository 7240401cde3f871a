// How much memory a device offers: sensible stops for a slider, and the default. A browser says
// little of it (navigator.deviceMemory) and nothing of the GPU's, so its owner may have the GPU
// asked; what was found then takes the place of the guess:
//
//   a desktop of 16 GiB              offers 2 GiB, at most 8
//   its card gave 22.5 GiB           offers 16 GiB, at most 20.25

const kMiB = 2 ** 20;
const kGiB = 2 ** 30;

export const kLeastOfferBytes = 8 * kMiB;
const kPhoneOfferBytes = 512 * kMiB;
// Beside the offer a tab takes 200 to 320 MB for the browser's own code and heap (measured in
// Firefox, WebKit and Chromium), and iOS ends tabs at about a GiB.
const kMostPhoneBytes = 768 * kMiB;
const kMostDefaultBytes = 2 * kGiB;
// What is assumed when the browser does not tell (Firefox, Safari).
const kUnknownDeviceBytes = 4 * kGiB;

// Of what a card gave: the rest is for windows and other programs.
const kMostShare = 0.9;
const kDefaultShare = 0.75;
const kMostFoundBytes = 128 * kGiB;

export interface DeviceMemory {
  deviceGiB: number | null; // navigator.deviceMemory: rounded down, capped by the browser
  isPhone: boolean;
}

// What the GPU gave when its owner had it asked.
export interface GpuMemory {
  bytes: number;
  isOwn: boolean; // of a card, not of the system
}

// A quarter of the device, at most 2 GiB; phones end tabs early, so 512 MiB there. Of a card's
// memory the greatest stop within three quarters.
export function defaultOfferBytes(memory: DeviceMemory, gpu: GpuMemory | null = null): number {
  const { deviceGiB, isPhone } = memory;
  const deviceBytes = deviceGiB === null ? kUnknownDeviceBytes : deviceGiB * kGiB;
  const most = isPhone ? kPhoneOfferBytes : kMostDefaultBytes;
  const unasked = Math.max(kLeastOfferBytes, Math.min(deviceBytes / 4, most));
  if (!gpu) return unasked;
  const share = gpu.isOwn ? gpu.bytes * kDefaultShare : Math.min(unasked, gpu.bytes);
  return offerStops(share, kLeastOfferBytes).at(-1)!;
}

// Half of the device, but never less than the default: a device knows its needs better than we do.
// Of what was found: nine tenths of a card, and all that a GPU gave which shares the system's, for
// it was asked for no more than this half.
export function mostOfferBytes(memory: DeviceMemory, gpu: GpuMemory | null = null): number {
  if (gpu) return Math.max(kLeastOfferBytes, gpu.isOwn ? gpu.bytes * kMostShare : gpu.bytes);
  const deviceBytes = memory.deviceGiB === null ? 2 * kUnknownDeviceBytes : memory.deviceGiB * kGiB;
  return Math.max(defaultOfferBytes(memory), memory.isPhone ? kMostPhoneBytes : deviceBytes / 2);
}

// What was kept of an earlier visit; null where it is nothing that was found.
export function readGpuMemory(kept: unknown): GpuMemory | null {
  if (typeof kept !== "object" || kept === null) return null;
  const { bytes, isOwn } = kept as Partial<Record<keyof GpuMemory, unknown>>;
  const isRight = typeof bytes === "number" && bytes >= kLeastOfferBytes &&
    bytes <= kMostFoundBytes && typeof isOwn === "boolean";
  return isRight ? { bytes, isOwn } : null;
}

// Ascending; doubles up to 512 MiB, then quarters of a GiB, then whole GiB. `chosenBytes` (from a
// link, say) is always one of them.
export function offerStops(mostBytes: number, chosenBytes: number): number[] {
  const stops = new Set<number>([kLeastOfferBytes, chosenBytes]);
  for (let bytes = kLeastOfferBytes; bytes <= Math.min(mostBytes, 512 * kMiB); bytes *= 2) {
    stops.add(bytes);
  }
  for (let bytes = 768 * kMiB; bytes <= Math.min(mostBytes, 4 * kGiB); bytes += 256 * kMiB) {
    stops.add(bytes);
  }
  for (let bytes = 5 * kGiB; bytes <= mostBytes; bytes += kGiB) stops.add(bytes);
  return [...stops].sort((a, b) => a - b);
}

// "?memory=" of a test's or a person's link; null when it is not a number of bytes in range.
export function readOffer(text: string | null): number | null {
  if (text === null || !/^\d{1,15}$/.test(text)) return null;
  const bytes = Number(text);
  return bytes >= kLeastOfferBytes && bytes <= kMostFoundBytes ? bytes : null;
}
