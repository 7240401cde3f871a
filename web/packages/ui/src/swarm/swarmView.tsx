// The picture of the swarm: state in words, figures, the bar of layers, a card for each device.
import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import { Figure } from "../elements/controls.tsx";
import {
  formatBytes, formatCount, formatDifference, formatInteger, formatMemoryOf, formatMicroseconds,
  formatRate,
} from "../words/format.ts";
import { speedsText, sparkline } from "./activity.ts";
import type { Activity } from "./activity.ts";
import { DeviceCard } from "./deviceCard.tsx";
import { DeviceLetters, stateWord, summaryText } from "./devices.ts";
import { CoverageBar, LayerBar } from "./layerBar.tsx";
import { leftOutText } from "./losses.ts";
import type { SwarmPicture } from "./picture.ts";

interface SwarmViewProps {
  picture: SwarmPicture;
  activity: Activity;
  isStale: boolean;
}

// `isStale`: the picture is of before the connection was lost, and what it says may be wrong now.
export function StateBadge({ picture, isStale, isLong }: {
  picture: SwarmPicture;
  isStale: boolean;
  isLong?: boolean; // with the number of devices
}): VNode {
  const words = isStale ? "No connection" : isLong ? summaryText(picture)
    : stateWord(picture.state);
  return (
    <span class={`state-badge state-${isStale ? "lost" : picture.state}`}>
      <i aria-hidden="true" />
      {words}
    </span>
  );
}

// `isFull` adds the figures that only the swarm's own page has room for.
export function SwarmView({ picture, activity, isStale, isFull }: SwarmViewProps & {
  isFull: boolean;
}): VNode {
  const letters = useRef(new DeviceLetters());
  const devices = letters.current.name(picture);
  const stageOf = new Map(picture.stages.map((stage) => [stage.deviceId, stage]));
  const computing: ReadonlySet<number> = isStale ? new Set() : activity.computing;
  const lines = picture.lossyHubs.flatMap((hub) => hub.lines);
  const hasModel = picture.model.name !== ""; // a server of several may have loaded none
  return (
    <div class={`swarm ${isFull ? "swarm-full" : "swarm-compact"} ${isStale ? "is-stale" : ""}`}>
      <div class="swarm-state">
        <div role="status" class="swarm-state-words">
          <StateBadge picture={picture} isStale={isStale} />
          <p class="swarm-message">
            {isStale ? "What is below was so before the connection was lost." : picture.message}
          </p>
          {picture.lossyHubs.map((hub) => (
            <p key={hub.deviceId} class="swarm-message">{hub.message} {leftOutText(hub)}</p>
          ))}
        </div>
        <span class="speed-value figure">
          {formatRate(isStale ? 0 : picture.tokensPerSecond, "tokens")}
        </span>
        <Sparkline activity={activity} />
      </div>
      {isFull && hasModel && <ModelFigures picture={picture} />}
      {hasModel && (
        <section class="swarm-layers" aria-label="Layers">
          <LayerBar picture={picture} devices={devices} computing={computing} />
          <CoverageBar picture={picture} />
        </section>
      )}
      <PlanTimes picture={picture} />
      {devices.length > 0 && (
        <ul class="device-list" aria-label="Devices">
          {devices.map((named) => (
            <DeviceCard
              key={named.device.id}
              named={named}
              stage={stageOf.get(named.device.id)}
              side={picture.sidePlans.find(({ stages }) =>
                stages.some(({ deviceId }) => deviceId === named.device.id))}
              standbys={picture.standbys.filter(({ deviceId }) => deviceId === named.device.id)}
              lines={lines.filter(({ deviceId }) => deviceId === named.device.id)}
              layerCount={picture.layerCount}
              hasHubs={picture.expertsNeeded > 0}
              expertWord={picture.isInNeuronGroups ? "neuron group" : "expert"}
              isComputing={computing.has(named.device.id)}
              isFull={isFull}
            />
          ))}
        </ul>
      )}
    </div>
  );
}

function Sparkline({ activity }: { activity: Activity }): VNode {
  const points = sparkline(activity.speeds);
  const words = speedsText(activity.speeds);
  return (
    <svg class="sparkline" viewBox="0 0 100 24" preserveAspectRatio="none"
      {...(words === "" ? { "aria-hidden": true } : { role: "img", "aria-label": words })}>
      <path d="M0 23H100" />
      {points !== "" && <polyline points={points} />}
    </svg>
  );
}

function ModelFigures({ picture }: { picture: SwarmPicture }): VNode {
  const { model } = picture;
  const requests = `${picture.activeRequests} active, ${picture.queuedRequests} waiting, ` +
    `${formatInteger(picture.completedRequests)} done`;
  const failed = picture.failedRequests > 0 ? `, ${picture.failedRequests} failed` : "";
  return (
    <dl class="figures figures-wide">
      <Figure name="Model" value={model.name || "–"} />
      <Figure name="Form" value={[model.architecture, model.quantisation].filter(Boolean)
        .join(" ") || "–"} />
      <Figure name="Weights" value={formatBytes(model.weightBytes)} />
      <Figure name="Context" value={formatCount(model.contextLength, "token")} />
      <Figure name="Requests" value={requests + failed} />
      <Figure name="Tokens generated" value={formatInteger(picture.generatedTokens)} />
      {picture.historyLimitBytes > 0 && (
        <Figure name="Kept for recovery"
          value={formatMemoryOf(picture.historyBytes, picture.historyLimitBytes)} />
      )}
    </dl>
  );
}

// What the planner promised against what is: for ever, side by side.
function PlanTimes({ picture }: { picture: SwarmPicture }): VNode | null {
  const { predictedUsPerToken: predicted, measuredUsPerToken: measured } = picture;
  if (predicted <= 0) return null;
  const longest = Math.max(predicted, measured);
  const width = (us: number): Record<string, string> =>
    ({ "inline-size": `${((100 * us) / longest).toFixed(1)}%` });
  return (
    <section class="plan-times" aria-label="Time per token of the plan">
      <h3>Time per token</h3>
      <dl>
        <dt>Predicted</dt>
        <dd>
          <i class="plan-bar plan-bar-predicted" style={width(predicted)} />
          <span class="figure">
            {formatMicroseconds(predicted)}
            {picture.predictionError !== null &&
              ` (±${Math.round(100 * picture.predictionError)}%)`}
          </span>
        </dd>
        <dt>Measured</dt>
        <dd>
          <i class="plan-bar plan-bar-measured" style={width(measured)} />
          <span class="figure">
            {measured > 0
              ? `${formatMicroseconds(measured)} (${formatDifference(measured, predicted)})`
              : "not yet"}
          </span>
        </dd>
      </dl>
    </section>
  );
}

// One line for narrow screens, leading to the whole picture.
export function SwarmStrip({ picture, isStale, href }: {
  picture: SwarmPicture | null;
  isStale: boolean;
  href: string;
}): VNode {
  return (
    <a class="swarm-strip" href={href}>
      {picture ? (
        <>
          <StateBadge picture={picture} isStale={isStale} isLong />
          {!isStale && picture.state === "up" && (
            <span class="figure">{formatRate(picture.tokensPerSecond, "tokens")}</span>
          )}
        </>
      ) : <span class="muted">Looking at the swarm…</span>}
      <span class="swarm-strip-more">Swarm</span>
    </a>
  );
}
