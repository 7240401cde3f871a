// Numbers as people read them. Every unit keeps three significant digits at most, so that changing
// figures do not jitter.

function withDigits(value: number, digits: number): string {
  const text = value.toFixed(digits);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function significant(value: number): string {
  return withDigits(value, value >= 99.5 ? 0 : value >= 9.95 ? 1 : 2);
}

// [amount in the unit, unit]
function scaled(value: number, base: number, units: readonly string[]): [number, string] {
  let amount = Math.max(0, Number.isFinite(value) ? value : 0);
  let unit = 0;
  // 999.5 would be shown as 1000: it belongs to the next unit.
  while (unit + 1 < units.length && amount >= (base === 1024 ? 1023.5 : 999.5)) {
    amount /= base;
    unit += 1;
  }
  return [unit === 0 ? Math.round(amount) : amount, units[unit] ?? ""];
}

// "1.2 GB", "15 MB": decimal and rounded as in the server's sentences.
export function formatBytes(byteCount: number): string {
  const [amount, unit] = scaled(byteCount, 1000, ["bytes", "KB", "MB", "GB", "TB"]);
  return `${withDigits(amount, amount < 9.95 ? 1 : 0)} ${unit}`;
}

// "1.5 GiB": binary, as memory is sold and offered.
export function formatMemory(byteCount: number): string {
  const [amount, unit] = scaled(byteCount, 1024, ["bytes", "KiB", "MiB", "GiB", "TiB"]);
  return `${significant(amount)} ${unit}`;
}

// "6.4 of 512 MiB", "300 KiB of 2 GiB": a part of an amount, with one unit where one is enough.
export function formatMemoryOf(partBytes: number, wholeBytes: number): string {
  const whole = formatMemory(wholeBytes);
  const part = formatMemory(partBytes);
  const [number = "", unit = ""] = part.split(" ");
  const isUnitKnown = number === "0" || whole.endsWith(` ${unit}`);
  return `${isUnitKnown ? number : part} of ${whole}`;
}

export function formatByteRate(bytesPerSecond: number): string {
  return `${formatBytes(bytesPerSecond)}/s`;
}

export function formatMicroseconds(microseconds: number): string {
  if (microseconds < 999.5) return `${significant(Math.max(0, microseconds))} µs`;
  if (microseconds < 999_500) return `${significant(microseconds / 1000)} ms`;
  return formatSeconds(microseconds / 1e6);
}

export function formatMilliseconds(milliseconds: number): string {
  return formatMicroseconds(milliseconds * 1000);
}

function formatSeconds(seconds: number): string {
  if (seconds < 119.5) return `${significant(Math.max(0, seconds))} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

// "21.4 tokens/s"; "none" of it is a dash, so that an idle swarm does not look broken.
export function formatRate(perSecond: number, what: string): string {
  return perSecond > 0 ? `${significant(perSecond)} ${what}/s` : `– ${what}/s`;
}

export function formatCount(count: number, singular: string, plural = `${singular}s`): string {
  return `${formatInteger(count)} ${count === 1 ? singular : plural}`;
}

// Groups of three with a narrow space, the same in every locale.
export function formatInteger(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

export function formatPercent(part: number, whole: number): string {
  return whole > 0 ? `${Math.floor((100 * Math.min(part, whole)) / whole)}%` : "0%";
}

// "+7%", "−12%" or "as predicted".
export function formatDifference(measured: number, predicted: number): string {
  if (!(predicted > 0) || !(measured > 0)) return "";
  const percent = Math.round((100 * (measured - predicted)) / predicted);
  if (percent === 0) return "as predicted";
  return percent > 0 ? `+${percent}%` : `−${-percent}%`;
}
