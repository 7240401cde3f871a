// How much memory a device offers: sensible stops for a slider, and the default.

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

export interface DeviceMemory {
  deviceGiB: number | null; // navigator.deviceMemory: rounded down, capped by the browser
  isPhone: boolean;
}

// A quarter of the device, at most 2 GiB; phones end tabs early, so 512 MiB there.
export function defaultOfferBytes({ deviceGiB, isPhone }: DeviceMemory): number {
  const deviceBytes = deviceGiB === null ? kUnknownDeviceBytes : deviceGiB * kGiB;
  const most = isPhone ? kPhoneOfferBytes : kMostDefaultBytes;
  return Math.max(kLeastOfferBytes, Math.min(deviceBytes / 4, most));
}

// Half of the device, but never less than the default: a device knows its needs better than we do.
export function mostOfferBytes(memory: DeviceMemory): number {
  const deviceBytes = memory.deviceGiB === null ? 2 * kUnknownDeviceBytes : memory.deviceGiB * kGiB;
  return Math.max(defaultOfferBytes(memory), memory.isPhone ? kMostPhoneBytes : deviceBytes / 2);
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
  return bytes >= kLeastOfferBytes && bytes <= 64 * kGiB ? bytes : null;
}
