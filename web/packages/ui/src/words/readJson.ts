// Reads fields of a server's JSON. What is missing or odd becomes a harmless default: a page of
// another version than its server should still show what it can.

export type Json = Record<string, unknown>;

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function number(json: Json, key: string, ifAbsent = 0): number {
  const value = json[key];
  return typeof value === "number" && Number.isFinite(value) ? value : ifAbsent;
}

export function text(json: Json, key: string): string {
  const value = json[key];
  return typeof value === "string" ? value : "";
}

export function list(json: Json, key: string): unknown[] {
  const value = json[key];
  return Array.isArray(value) ? value : [];
}
