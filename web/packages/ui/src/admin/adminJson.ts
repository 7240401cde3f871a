// What the owner of a server sees, as /api/admin and /api/keys give it, in this package's names.
import type { Range } from "../swarm/layers.ts";
import { readDevice } from "../swarm/picture.ts";
import type { Device } from "../swarm/picture.ts";
import { isObject, list, number, text } from "../words/readJson.ts";
import type { Json } from "../words/readJson.ts";

export interface OwnedDevice extends Device {
  model: string; // that it helps; one that helps several is here for each
  layerCount: number; // of that model, embedding and head included
  beside: Range | null; // its layers in a plan beside the active one
  ready: Range[]; // that it holds without running them
  address: string;
  isOwn: boolean; // the server's own worker
  connectedS: number;
  silentS: number; // since the last byte of it
  busyShare: number; // of the time since it came
  isLeaving: boolean;
  asideReason: string; // why it gets no work, or less than it offers; "": it does
  asideForS: number | null; // null: no time is set
}

export interface EvictedDevice {
  number: number;
  name: string;
  kind: string;
  address: string;
  endsInS: number;
}

export interface OwnedDevices {
  devices: OwnedDevice[];
  evicted: EvictedDevice[];
}

export interface Asker {
  name: string; // of the key, or an address
  isKey: boolean;
  requests: number;
}

export interface OwnedModel {
  name: string;
  state: string; // "on disk", "loading", "loaded", "unloading"
  stays: boolean; // it is never unloaded
  weightBytes: number;
  needBytes: number; // of all devices together
  waitingRequests: number; // until it is loaded
  goesInS: number | null; // without further requests; null: it stays, or is not loaded
  problem: string; // why it could not be loaded the last time
  // null: it is not loaded.
  use: {
    message: string;
    devices: number;
    activeRequests: number;
    queuedRequests: number;
    askers: Asker[];
  } | null;
}

export interface OwnedModels {
  models: OwnedModel[];
  hasSeveral: boolean; // they can be loaded and unloaded
}

export type KeyRole = "user" | "admin" | "metrics" | "helper";

export interface NamedKey {
  name: string;
  role: string;
  state: string; // "active", "expired", "ended"
  models: string[]; // empty: all
  perMinute: number | null;
  tokensPerDay: number | null;
  atOnce: number | null;
  created: string;
  expires: string; // "": never
  ended: string; // "": it has not
  today: { requests: number; promptTokens: number; completionTokens: number };
}

function numberOrNull(json: Json, key: string): number | null {
  return typeof json[key] === "number" ? number(json, key) : null;
}

function readSpan(value: unknown): Range | null {
  if (!Array.isArray(value)) return null;
  const [first, end] = value as unknown[];
  return typeof first === "number" && typeof end === "number" ? { first, end } : null;
}

function readOwnedDevice(json: Json): OwnedDevice {
  const aside = isObject(json["aside"]) ? json["aside"] : {};
  return {
    ...readDevice(json),
    model: text(json, "model"),
    layerCount: number(json, "layers"),
    beside: readSpan(json["layers_beside"]),
    ready: list(json, "layers_ready").map(readSpan).filter((span) => span !== null),
    address: text(json, "address"),
    isOwn: json["is_own"] === true,
    connectedS: number(json, "connected_s"),
    silentS: number(json, "silent_s"),
    busyShare: number(json, "busy_share"),
    isLeaving: json["is_leaving"] === true,
    asideReason: text(aside, "reason"),
    asideForS: numberOrNull(aside, "for_s"),
  };
}

export function readOwnedDevices(json: unknown): OwnedDevices {
  const answer = isObject(json) ? json : {};
  return {
    devices: list(answer, "devices").filter(isObject).map(readOwnedDevice),
    evicted: list(answer, "evicted").filter(isObject).map((each) => ({
      number: number(each, "number"),
      name: text(each, "name"),
      kind: text(each, "kind"),
      address: text(each, "address"),
      endsInS: number(each, "ends_in_s"),
    })),
  };
}

function readUse(value: unknown): OwnedModel["use"] {
  if (!isObject(value)) return null;
  return {
    message: text(value, "message"),
    devices: number(value, "devices"),
    activeRequests: number(value, "active_requests"),
    queuedRequests: number(value, "queued_requests"),
    askers: list(value, "askers").filter(isObject).map((asker) => ({
      name: text(asker, "name"),
      isKey: asker["is_key"] === true,
      requests: number(asker, "requests"),
    })),
  };
}

export function readOwnedModels(json: unknown): OwnedModels {
  const answer = isObject(json) ? json : {};
  return {
    hasSeveral: answer["has_several"] === true,
    models: list(answer, "models").filter(isObject).map((model) => ({
      name: text(model, "name"),
      state: text(model, "state"),
      stays: model["stays"] === true,
      weightBytes: number(model, "weight_bytes"),
      needBytes: number(model, "need_bytes"),
      waitingRequests: number(model, "waiting_requests"),
      goesInS: numberOrNull(model, "goes_in_s"),
      problem: text(model, "problem"),
      use: readUse(model["use"]),
    })),
  };
}

function readKey(json: Json): NamedKey {
  const today = isObject(json["today"]) ? json["today"] : {};
  return {
    name: text(json, "name"),
    role: text(json, "role"),
    state: text(json, "state"),
    models: list(json, "models").filter((model) => typeof model === "string"),
    perMinute: numberOrNull(json, "per_minute"),
    tokensPerDay: numberOrNull(json, "tokens_per_day"),
    atOnce: numberOrNull(json, "at_once"),
    created: text(json, "created"),
    expires: text(json, "expires"),
    ended: text(json, "ended"),
    today: {
      requests: number(today, "requests"),
      promptTokens: number(today, "prompt_tokens"),
      completionTokens: number(today, "completion_tokens"),
    },
  };
}

// Good ones first, then the others; each by name.
export function readKeys(json: unknown): NamedKey[] {
  const answer = isObject(json) ? json : {};
  const keys = list(answer, "data").filter(isObject).map(readKey);
  const isOver = ({ state }: NamedKey): number => (state === "active" ? 0 : 1);
  return keys.sort((a, b) => isOver(a) - isOver(b) || a.name.localeCompare(b.name));
}
