// The browser's name for the picture of the swarm. Never used to decide anything.

const kBrands: readonly [RegExp, string][] = [
  [/Edg\/(\d+)/, "Edge"],
  [/OPR\/(\d+)/, "Opera"],
  [/Firefox\/(\d+)/, "Firefox"],
  [/Chrome\/(\d+)/, "Chrome"],
  [/Version\/(\d+).*Safari/, "Safari"],
];

export function describeBrowser(userAgent: string, threads: number): string {
  let name = "a browser";
  for (const [pattern, brand] of kBrands) {
    const version = pattern.exec(userAgent)?.[1];
    if (version === undefined) continue;
    name = `${brand} ${version}`;
    break;
  }
  const isMobile = /Android|iPhone|iPad|Mobile/.test(userAgent);
  return `${name}${isMobile ? " on a phone or tablet" : ""}, ${threads} threads`;
}
