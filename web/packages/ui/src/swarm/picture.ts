// The picture of the swarm as GET /api/swarm gives it, in this package's names, and the only place
// that knows the JSON. Missing or odd fields become harmless defaults: a page of another version
// than its server should still show what it can.

import { isObject, list, number, text } from "../words/readJson.ts";
import type { Json } from "../words/readJson.ts";

// "idle": no model is loaded, and one that is asked will be.
export type SwarmState = "down" | "idle" | "preparing" | "repairing" | "up";
export type DeviceState =
  "connecting" | "measuring" | "idle" | "preparing" | "active" | "standby";

export interface Model {
  name: string;
  architecture: string;
  quantisation: string;
  weightBytes: number;
  contextLength: number;
}

export interface Stage {
  deviceId: number; // 0: a hole, nobody runs these layers now
  firstLayer: number;
  endLayer: number;
  predictedUs: number;
  measuredUs: number; // 0: not measured yet
  // What answers would stand still if its device went; null: until another device joins.
  lossUs: number | null;
}

// A plan that serves beside the active one, with devices of its own.
export interface SidePlan {
  stages: Stage[];
  activeRequests: number; // that it answers now
}

// Layers that a device holds ready for whoever runs them.
export interface Standby {
  deviceId: number;
  firstLayer: number;
  endLayer: number;
  isLoaded: boolean;
  lagRows: number; // positions of conversations that it has not computed yet
}

export interface Device {
  id: number;
  name: string;
  kind: string; // "web": a browser tab; "headless": our engine on Node; "native": the program
  engine: string;
  device: string;
  state: DeviceState;
  memoryBytes: number;
  usedBytes: number;
  firstLayer: number; // of the active plan; -1: none
  endLayer: number;
  cachedLayers: number[];
  downloadedBytes: number;
  downloadTotalBytes: number; // 0: nothing to download
  latencyMs: number;
  downloadBytesPerSecond: number;
  uploadBytesPerSecond: number;
  usPerToken: number;
  bytesPerUs: number;
  computing: boolean;
  tokensComputed: number;
  bytesSent: number; // data to it and from it since it connected
  bytesReceived: number;
  steps: { count: number; queueUs: number; computeUs: number }; // answered ones, sums
  // Of a mixture of experts: those that it is to hold, and of them those that it holds.
  expertsTold: number;
  expertsHeld: number;
  expertMessages: number; // between it and others
  holder: HolderCounts | null; // null: no hub has told of it
  check: string; // whether it computes what it should: "trusted", "passed", "not checked", "failed"
  problem: string; // its last failure in a sentence
}

// A device that wants to compute the whole model, which somebody has to allow.
export interface Consent {
  deviceId: number;
  endsInS: number; // then it counts as a no
}

// What a device that holds experts did for those that asked it.
export interface HolderCounts {
  calls: number; // experts that it was asked for
  hedges: number; // of them, those where another device had been asked already
  wins: number; // calls that it answered first
  losses: number; // calls that were cancelled
  wonHedges: number;
  lostHedges: number;
  timeouts: number;
  refused: number; // answers that could not be used
  p50Ms: number; // of its last answers
  slowestMs: number;
}

// The line of a device that sends datagrams to a hub.
export interface LossyLine {
  deviceId: number;
  isReady: boolean;
  isBlocked: boolean; // UDP does not get through
  loss: number; // share of its datagrams
}

// A hub whose neuron groups may be lost: `weft serve --lossy`.
export interface LossyHub {
  deviceId: number;
  message: string; // whether anything may be lost now, and why not
  lines: LossyLine[];
  groups: number; // of every row and layer
  lost: number;
  share: number; // of their weight, lately
  falls: number; // how often it was too much
}

export interface SwarmPicture {
  state: SwarmState;
  message: string;
  missingMemoryBytes: number;
  model: Model;
  layerCount: number; // embedding and head included: layer 0 is one, the last layer the other
  planVersion: number;
  predictedUsPerToken: number;
  predictionError: number | null; // mean of |predicted - measured| / measured of steps
  measuredUsPerToken: number; // 0: not measured yet
  tokensPerSecond: number;
  activeRequests: number;
  queuedRequests: number;
  completedRequests: number;
  failedRequests: number;
  generatedTokens: number;
  isInNeuronGroups: boolean; // the experts are groups of neurons of a dense model
  expertsNeeded: number; // by hubs, which ask others for what they do not hold; 0: no hub
  coveredLayers: boolean[];
  stages: Stage[];
  sidePlans: SidePlan[];
  standbys: Standby[];
  consents: Consent[];
  historyBytes: number; // of rows that are kept for whoever takes over layers
  historyLimitBytes: number;
  lossyHubs: LossyHub[];
  devices: Device[];
}

const kSwarmStates: readonly string[] = ["down", "idle", "preparing", "repairing", "up"];
const kDeviceStates: readonly string[] =
  ["connecting", "measuring", "idle", "preparing", "active", "standby"];
// More layers than any model has: what a broken answer could make the page draw.
const kMaxLayers = 2000;

function readModel(value: unknown): Model & { layers: number } {
  const json = isObject(value) ? value : {};
  return {
    name: text(json, "name"),
    architecture: text(json, "architecture"),
    quantisation: text(json, "quantisation"),
    weightBytes: number(json, "weight_bytes"),
    contextLength: number(json, "context_length"),
    layers: number(json, "layers"),
  };
}

function readStage(json: Json): Stage {
  return {
    deviceId: number(json, "worker", -1),
    firstLayer: number(json, "first_layer"),
    endLayer: number(json, "end_layer"),
    predictedUs: number(json, "predicted_us"),
    measuredUs: number(json, "measured_us"),
    lossUs: typeof json["loss_us"] === "number" ? number(json, "loss_us") : null,
  };
}

function readStandby(json: Json): Standby {
  return {
    deviceId: number(json, "worker", -1),
    firstLayer: number(json, "first_layer"),
    endLayer: number(json, "end_layer"),
    isLoaded: json["loaded"] === true,
    lagRows: number(json, "lag_rows"),
  };
}

function readLossyHub(json: Json): LossyHub {
  return {
    deviceId: number(json, "hub", -1),
    message: text(json, "message"),
    lines: list(json, "lines").filter(isObject).map((line) => ({
      deviceId: number(line, "worker", -1),
      isReady: line["ready"] === true,
      isBlocked: line["blocked"] === true,
      loss: number(line, "loss"),
    })),
    groups: number(json, "groups"),
    lost: number(json, "lost"),
    share: number(json, "share"),
    falls: number(json, "falls"),
  };
}

function readHolder(json: unknown): HolderCounts | null {
  if (!isObject(json)) return null;
  return {
    calls: number(json, "calls"),
    hedges: number(json, "hedges"),
    wins: number(json, "wins"),
    losses: number(json, "losses"),
    wonHedges: number(json, "won_hedges"),
    lostHedges: number(json, "lost_hedges"),
    timeouts: number(json, "timeouts"),
    refused: number(json, "refused"),
    p50Ms: number(json, "p50_ms"),
    slowestMs: number(json, "slowest_ms"),
  };
}

function readSteps(value: unknown): Device["steps"] {
  const json = isObject(value) ? value : {};
  return {
    count: number(json, "count"), queueUs: number(json, "queue_us"),
    computeUs: number(json, "compute_us"),
  };
}

export function readDevice(json: Json): Device {
  const state = text(json, "state");
  return {
    id: number(json, "id", -1),
    name: text(json, "name") || "a device without a name",
    kind: text(json, "kind"),
    engine: text(json, "engine"),
    device: text(json, "device"),
    state: (kDeviceStates.includes(state) ? state : "connecting") as DeviceState,
    memoryBytes: number(json, "memory_bytes"),
    usedBytes: number(json, "used_bytes"),
    firstLayer: number(json, "first_layer", -1),
    endLayer: number(json, "end_layer", -1),
    cachedLayers: list(json, "cached_layers").filter((layer) => typeof layer === "number"),
    downloadedBytes: number(json, "downloaded_bytes"),
    downloadTotalBytes: number(json, "download_total_bytes"),
    latencyMs: number(json, "latency_ms"),
    downloadBytesPerSecond: number(json, "download_bytes_per_s"),
    uploadBytesPerSecond: number(json, "upload_bytes_per_s"),
    usPerToken: number(json, "us_per_token"),
    bytesPerUs: number(json, "speed_bytes_per_us"),
    computing: json["computing"] === true,
    tokensComputed: number(json, "tokens_computed"),
    bytesSent: number(json, "bytes_sent"),
    bytesReceived: number(json, "bytes_received"),
    steps: readSteps(json["steps"]),
    expertsTold: number(json, "experts_told"),
    expertsHeld: number(json, "experts_held"),
    expertMessages: number(json, "expert_messages"),
    holder: readHolder(json["holder"]),
    check: text(json, "check"),
    problem: text(json, "problem"),
  };
}

function readError(json: unknown): number | null {
  const running = isObject(json) ? json["running"] : null;
  return typeof running === "number" && running >= 0 ? running : null;
}

// Gives null when this is no picture at all.
export function readPicture(json: unknown): SwarmPicture | null {
  if (!isObject(json)) return null;
  const state = text(json, "state");
  if (!kSwarmStates.includes(state)) return null;
  const { layers, ...model } = readModel(json["model"]);
  const covered = list(json, "covered_layers").map((layer) => layer === true);
  const layerCount = Math.min(kMaxLayers, covered.length || layers);
  return {
    state: state as SwarmState,
    message: text(json, "message"),
    missingMemoryBytes: number(json, "missing_memory_bytes"),
    model,
    layerCount,
    planVersion: number(json, "plan_version"),
    predictedUsPerToken: number(json, "predicted_us_per_token"),
    predictionError: readError(json["prediction_error"]),
    measuredUsPerToken: number(json, "measured_us_per_token"),
    tokensPerSecond: number(json, "tokens_per_second"),
    activeRequests: number(json, "active_requests"),
    queuedRequests: number(json, "queued_requests"),
    completedRequests: number(json, "completed_requests"),
    failedRequests: number(json, "failed_requests"),
    generatedTokens: number(json, "generated_tokens"),
    isInNeuronGroups: json["in_neuron_groups"] === true,
    expertsNeeded: number(json, "experts_needed"),
    coveredLayers: covered.slice(0, layerCount),
    stages: list(json, "stages").filter(isObject).map(readStage),
    sidePlans: list(json, "side_plans").filter(isObject).map((plan) => ({
      stages: list(plan, "stages").filter(isObject).map(readStage),
      activeRequests: number(plan, "active_requests"),
    })),
    standbys: list(json, "standbys").filter(isObject).map(readStandby),
    consents: list(json, "consents").filter(isObject).map((asked) => ({
      deviceId: number(asked, "worker", -1),
      endsInS: number(asked, "ends_in_s"),
    })),
    historyBytes: number(json, "history_bytes"),
    historyLimitBytes: number(json, "history_limit_bytes"),
    lossyHubs: list(json, "losses").filter(isObject).map(readLossyHub),
    devices: list(json, "workers").filter(isObject).map(readDevice),
  };
}
