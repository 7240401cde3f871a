// What each part of the cost model's bench runs on a swarm of emulated devices.
import { askQuietly, messagesOf, promptOf, textOf } from "../lib/chat_client.mjs";
import { leastOffer, offerFor, stageBytes } from "../lib/offers.mjs";
import { mean, rounded } from "../lib/statistics.mjs";
import { swarmOf } from "../lib/weft_processes.mjs";
import { DeviceSwarm } from "./device_swarm.mjs";
import { estimateUs, partsOf, tokenUs } from "./estimates.mjs";

const kPromptTokens = 25;

// Positions of a conversation; offers and the model's costs count them.
export function contextFor(tokens) {
  return Math.max(256, kPromptTokens + tokens + 24);
}

// Starts a swarm and asks: {initialUs, stages, requests: [{predictedUs, measuredUs}], parts}. The
// initial estimate is the server's for its plan before it answered anything; each later request
// stands beside the server's estimate just before it.
async function answers(model, devices, offers, { tokens, requests, ...settings }) {
  const context = contextFor(tokens);
  const { folder, manifest } = model;
  const swarm = await DeviceSwarm.start(
    { ...settings, folder, cache: model.cache, context }, devices, offers);
  try {
    const initial = await swarmOf(swarm.origin);
    const pairs = [];
    await promptOf(swarm.origin, manifest.name, 0, kPromptTokens);
    let picture = null;
    for (let number = 0; number < requests; ++number) {
      const answer = await askQuietly(swarm.origin, { model: manifest.name,
        messages: messagesOf(textOf(number + 1, 15)), max_tokens: tokens });
      if (picture !== null) {
        pairs.push({ predictedUs: picture.predicted_us_per_token, measuredUs: tokenUs(answer) });
      }
      picture = await swarmOf(swarm.origin);
    }
    return { initialUs: initial.predicted_us_per_token, pairs, picture,
      samePlan: initial.plan_version === picture.plan_version, parts: partsOf(picture, manifest) };
  } finally {
    await swarm.end();
  }
}

function assignmentOf({ stages, workers }) {
  const names = new Map(workers.map(({ id, name }) => [id, name]));
  return stages.map(({ worker, first_layer: first, end_layer: end }) =>
    `${names.get(worker)} ${first}-${end}`).join(", ");
}

const perToken = (pairs) => mean(pairs.map(({ measuredUs }) => measuredUs));

// 7.3: estimates beside what the client saw.
export async function validate(configuration, model, settings) {
  const { devices } = configuration;
  const offer = offerFor(model.manifest, contextFor(settings.tokens), devices.length);
  const { initialUs, pairs, samePlan, picture } =
    await answers(model, devices, devices.map(() => offer), settings);
  const measuredUs = perToken(pairs);
  return {
    part: "validation", name: configuration.name, model: configuration.model,
    setting: configuration.setting, workers: devices.length, plan: assignmentOf(picture),
    plan_kept: samePlan, initial_ms: rounded(initialUs / 1000, 2),
    running_ms: rounded(mean(pairs.map(({ predictedUs }) => predictedUs)) / 1000, 2),
    measured_ms: rounded(measuredUs / 1000, 2),
    initial_pairs: [{ predictedUs: initialUs, measuredUs }], running_pairs: pairs,
  };
}

// Offers of a split (configurations.mjs): of equal parts, the exact size of the largest one; else
// three quarters of the way to where fewer devices would do, so that layers can be shifted.
export function offersOf({ split, needed, devices }, manifest, context) {
  const count = manifest.layers.length;
  if (needed === null) return devices.map(() => 2 * stageBytes(manifest, context, 0, count));
  const part = Math.ceil(count / needed);
  const starts = Array.from({ length: count - part + 1 }, (_, first) => first);
  const equal = Math.max(...starts.map((first) =>
    stageBytes(manifest, context, first, first + part)));
  const roomy = Math.round(
    (offerFor(manifest, context, needed) + leastOffer(manifest, context, needed - 1)) / 2);
  const offer = split === "equal" ? equal : roomy;
  return devices.map(() => Math.max(offer, leastOffer(manifest, context, needed)));
}

// 7.4: how fast a split of the model is.
export async function compareSplit(configuration, model, settings) {
  const { devices, split, needed } = configuration;
  const offers = offersOf(configuration, model.manifest, contextFor(settings.tokens));
  const { pairs, picture } = await answers(model, devices, offers, settings);
  return { part: "split", name: configuration.name, split, needed,
    stages: picture.stages.length, plan: assignmentOf(picture),
    tokens_per_s: rounded(1e6 / perToken(pairs), 2) };
}

// 7.5: what the estimate would be without each metric.
export async function ablate(configuration, model, settings) {
  const { devices } = configuration;
  const offer = offerFor(model.manifest, contextFor(settings.tokens), devices.length);
  const { pairs, parts, picture } =
    await answers(model, devices, devices.map(() => offer), settings);
  const measuredMs = perToken(pairs) / 1000;
  const errorMs = (without) => rounded(estimateUs(parts, without) / 1000 - measuredMs, 2);
  return { part: "ablation", name: configuration.name, plan: assignmentOf(picture),
    measured_ms: rounded(measuredMs, 2), error_ms: errorMs(null),
    without_compute_ms: errorMs("compute"), without_latency_ms: errorMs("latency"),
    without_bandwidth_ms: errorMs("bandwidth") };
}
