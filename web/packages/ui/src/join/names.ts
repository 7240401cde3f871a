// Names that people recognise in the picture of the swarm: "Heron, Chrome on Linux".

const kAnimals = [
  "Badger", "Beaver", "Bison", "Crane", "Dolphin", "Falcon", "Fox", "Gecko", "Hare", "Heron",
  "Ibex", "Jay", "Kestrel", "Lark", "Lynx", "Marten", "Newt", "Otter", "Owl", "Panda", "Puffin",
  "Quail", "Raven", "Robin", "Seal", "Stork", "Swift", "Tern", "Toad", "Vole", "Whale", "Wren",
];

// The order counts: Edge and Opera call themselves Chrome too, Chrome calls itself Safari.
const kBrowsers: readonly [RegExp, string][] = [
  [/\bEdgA?\//, "Edge"], [/\bOPR\//, "Opera"], [/\bSamsungBrowser\//, "Samsung Internet"],
  [/\bFirefox\/|\bFxiOS\//, "Firefox"], [/Chrome\/|\bCriOS\//, "Chrome"],
  [/\bSafari\//, "Safari"],
];

const kSystems: readonly [RegExp, string][] = [
  [/\bAndroid\b/, "Android"], [/\biPhone\b/, "iPhone"], [/\biPad\b/, "iPad"],
  [/\bCrOS\b/, "ChromeOS"], [/\bWindows\b/, "Windows"], [/\bMac OS X\b/, "Mac"],
  [/\bLinux\b/, "Linux"],
];

// Names have 64 bytes on the wire; all of these are plain ASCII and shorter.
const kNameBytes = 64;

// `touchPoints`: navigator.maxTouchPoints. Safari on an iPad says that it is one on a Mac; no Mac
// has a screen that is touched.
function isPad(userAgent: string, touchPoints: number): boolean {
  return /\biPad\b/.test(userAgent) || (/\bMacintosh\b/.test(userAgent) && touchPoints > 1);
}

export function friendlyName(userAgent: string, randomByte: number, touchPoints = 0): string {
  const find = (list: readonly [RegExp, string][]): string =>
    list.find(([pattern]) => pattern.test(userAgent))?.[1] ?? "";
  const animal = kAnimals[randomByte % kAnimals.length] ?? "Wren";
  const browser = find(kBrowsers) || "a browser";
  const system = isPad(userAgent, touchPoints) ? "iPad" : find(kSystems);
  return system === "" ? `${animal}, ${browser}` : `${animal}, ${browser} on ${system}`;
}

// Phones and tablets: their systems end tabs that take much memory.
export function isPhone(userAgent: string, touchPoints = 0): boolean {
  return /\bMobi|\bAndroid\b|\biPhone\b/.test(userAgent) || isPad(userAgent, touchPoints);
}

// Cuts a name to kNameBytes of UTF-8, between characters.
export function limitName(name: string): string {
  const encoder = new TextEncoder();
  let limited = "";
  let byteCount = 0;
  for (const character of name.trim()) {
    byteCount += encoder.encode(character).length;
    if (byteCount > kNameBytes) break;
    limited += character;
  }
  return limited;
}
