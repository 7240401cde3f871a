// One device of the swarm: what it is, what it holds, how fast it is, what it does now.
import type { VNode } from "preact";
import { Figure, ProgressBar } from "../elements/controls.tsx";
import { Icon } from "../elements/icons.tsx";
import {
  formatByteRate, formatBytes, formatCount, formatDifference, formatInteger, formatMemoryOf,
  formatMicroseconds, formatMilliseconds, formatRate,
} from "../words/format.ts";
import { deviceStateWord, kindWord } from "./devices.ts";
import type { NamedDevice } from "./devices.ts";
import { DeviceBar } from "./layerBar.tsx";
import { answerTimesText, callsText, hedgesText } from "./holders.ts";
import { layersText } from "./layers.ts";
import { lineText } from "./losses.ts";
import type { Device, HolderCounts, LossyLine, SidePlan, Stage, Standby } from "./picture.ts";

interface DeviceCardProps {
  named: NamedDevice;
  stage: Stage | undefined; // of the active plan
  side: SidePlan | undefined; // a plan beside the active one that it is part of
  standbys: readonly Standby[]; // its own
  lines: readonly LossyLine[]; // its own
  layerCount: number;
  hasHubs: boolean; // whoever runs layers asks others for experts
  expertWord: string; // "expert" or "neuron group"
  isComputing: boolean;
  isFull: boolean; // all figures; otherwise one line of them
}

export function DeviceCard(props: DeviceCardProps): VNode {
  const { named, standbys, lines, layerCount, isComputing, isFull } = props;
  const { device, letter, color } = named;
  return (
    <li class={`device-card ${isComputing ? "is-computing" : ""}`}>
      <header class="device-head">
        <span class={`device-letter device-color-${color}`} aria-hidden="true">{letter}</span>
        <h3>{device.name}</h3>
        <StateChip device={device} isComputing={isComputing} />
      </header>
      <p class="device-identity">{identity(device)}</p>
      <DeviceBar named={named} layerCount={layerCount} />
      <p class="device-holds">{holdsText(props)}</p>
      {device.expertsTold > 0 && <p class="device-holds">{expertsText(props)}</p>}
      {lines.length > 0 && <p class="device-holds">{lines.map(lineText).join(" ")}</p>}
      {standbys.length > 0 && (
        <p class="device-holds">
          {standbys.map((standby) => standbyText(standby, layerCount)).join(" ")}
        </p>
      )}
      <Download device={device} />
      {device.check === "not checked" && (
        <p class="device-holds">
          Not checked: no device that is trusted could compare what it computes yet.
        </p>
      )}
      {device.problem !== "" && <p class="device-problem">{device.problem}</p>}
      {isFull
        ? <DeviceFigures {...props} />
        : (
          <p class="device-identity figure device-brief">
            {briefFigures(device).map((text) => <span key={text}>{text}</span>)}
          </p>
        )}
    </li>
  );
}

function identity(device: Device): string {
  // The native program's engine has the same name: once is enough.
  const engine = device.engine === device.kind ? "" : device.engine;
  return [kindWord(device.kind), engine, device.device].filter((word) => word !== "").join(" · ");
}

function StateChip({ device, isComputing }: { device: Device; isComputing: boolean }): VNode {
  // Who holds experts for others has work, also where it runs no layers.
  const state = device.state === "idle" && device.expertsHeld > 0 ? "active" : device.state;
  return (
    <span class={`chip ${isComputing ? "chip-busy" : `chip-${state}`}`}>
      {isComputing && <Icon name="bolt" />}
      {isComputing ? "Computing" : deviceStateWord(state)}
    </span>
  );
}

function Download({ device }: { device: Device }): VNode | null {
  const { downloadedBytes: done, downloadTotalBytes: total } = device;
  if (total === 0 || done >= total) return null;
  const text = `${formatBytes(done)} of ${formatBytes(total)}`;
  return <ProgressBar label="Downloading" done={done} total={total} text={text} />;
}

// "Answers on its own, with layers 1 to 24: 2 conversations now."
function sideText(side: SidePlan, device: Device, layerCount: number): string {
  const stage = side.stages.find(({ deviceId }) => deviceId === device.id);
  const layers = stage ? layersText(stage.firstLayer, stage.endLayer, layerCount) : "no layers";
  const how = side.stages.length === 1
    ? `Answers on its own, with ${layers}`
    : `Answers with ${formatCount(side.stages.length - 1, "other device")}, runs ${layers}`;
  const now = side.activeRequests > 0
    ? `${formatCount(side.activeRequests, "conversation")} now` : "nothing now";
  return `${how}: ${now}.`;
}

function holdsText({ named, side, layerCount, hasHubs, expertWord }: DeviceCardProps): string {
  const { device } = named;
  if (side && device.firstLayer < 0) return sideText(side, device, layerCount);
  const spare = device.cachedLayers.filter(
    (layer) => layer < device.firstLayer || layer >= device.endLayer).length;
  const cached = formatCount(spare, "layer");
  if (device.firstLayer < 0 && device.expertsTold > 0) return "Runs no layers.";
  if (device.firstLayer < 0) {
    return spare > 0 ? `Runs nothing now, has ${cached} in its cache.` : "Runs nothing now.";
  }
  const layers = layersText(device.firstLayer, device.endLayer, layerCount);
  const runs = hasHubs ? `Runs ${layers}, and asks others for ${expertWord}s` : `Runs ${layers}`;
  return spare > 0 ? `${runs}, has ${cached} more in its cache.` : `${runs}.`;
}

function expertsText({ named, expertWord }: DeviceCardProps): string {
  const { expertsTold: told, expertsHeld: held } = named.device;
  if (held >= told) return `Holds ${formatCount(held, expertWord)} for others.`;
  return `Holds ${formatInteger(held)} of ${formatCount(told, expertWord)} and loads the others.`;
}

function standbyText(standby: Standby, layerCount: number): string {
  const layers = layersText(standby.firstLayer, standby.endLayer, layerCount);
  if (!standby.isLoaded) return `Loads ${layers} to stand by.`;
  const lag = standby.lagRows === 0
    ? "up to date" : `${formatCount(standby.lagRows, "row")} behind`;
  return `Stands by with ${layers}, ${lag}.`;
}

// The means of its steps: in its queue, and computing.
function stepTimesText({ steps: { count, queueUs, computeUs } }: Device): string {
  if (count === 0) return "–";
  return `${formatMicroseconds(queueUs / count)}, ${formatMicroseconds(computeUs / count)}`;
}

// What its loss would be to somebody who waits for an answer.
function lossText(stage: Stage | undefined): string {
  if (!stage) return "no answer waits";
  if (stage.lossUs === null) return "answers stop";
  return stage.lossUs < 1000 ? "hardly noticed"
    : `answers wait ${formatMicroseconds(stage.lossUs)}`;
}

function briefFigures(device: Device): string[] {
  const parts: string[] = [];
  if (device.usPerToken > 0) parts.push(`${formatMicroseconds(device.usPerToken)} a token`);
  if (device.latencyMs > 0) parts.push(`${formatMilliseconds(device.latencyMs)} away`);
  parts.push(formatMemoryOf(device.usedBytes, device.memoryBytes));
  return parts;
}

function DeviceFigures({ named: { device }, stage, expertWord }: DeviceCardProps): VNode {
  const { usPerToken, latencyMs, downloadBytesPerSecond, uploadBytesPerSecond } = device;
  return (
    <dl class="figures">
      <Figure name="Compute per token" value={usPerToken > 0
        ? formatMicroseconds(usPerToken) : "–"} />
      <Figure name="That is up to" value={formatRate(usPerToken > 0 ? 1e6 / usPerToken : 0,
        "tokens")} />
      <Figure name="Latency" value={latencyMs > 0 ? formatMilliseconds(latencyMs) : "–"} />
      <Figure name="Line down, up" value={[downloadBytesPerSecond, uploadBytesPerSecond]
        .map((rate) => (rate > 0 ? formatByteRate(rate) : "–")).join(", ")} />
      <Figure name="Memory used" value={formatMemoryOf(device.usedBytes, device.memoryBytes)} />
      <Figure name="Tokens computed" value={formatInteger(device.tokensComputed)} />
      <Figure name="Data to it, from it"
        value={`${formatBytes(device.bytesSent)}, ${formatBytes(device.bytesReceived)}`} />
      <Figure name="A step waits, computes" value={stepTimesText(device)} />
      {device.expertsTold > 0 && (
        <Figure name={`Messages for ${expertWord}s`} value={formatInteger(device.expertMessages)} />
      )}
      {device.holder && <HolderFigures holder={device.holder} expertWord={expertWord} />}
      {stage && stage.predictedUs > 0 && (
        <Figure name="Its step, predicted and measured" value={stageText(stage)} isWide />
      )}
      <Figure name="If it goes now" value={lossText(stage)} />
    </dl>
  );
}

function HolderFigures({ holder, expertWord }: {
  holder: HolderCounts;
  expertWord: string;
}): VNode {
  return (
    <>
      <Figure name={`Asked for ${expertWord}s`} value={callsText(holder)} isWide />
      <Figure name="Copies of others' work" value={hedgesText(holder)} />
      <Figure name="Answers in" value={answerTimesText(holder)} />
    </>
  );
}

function stageText(stage: Stage): string {
  const predicted = formatMicroseconds(stage.predictedUs);
  if (stage.measuredUs <= 0) return `${predicted}, not measured yet`;
  const difference = formatDifference(stage.measuredUs, stage.predictedUs);
  return `${predicted}, ${formatMicroseconds(stage.measuredUs)} (${difference})`;
}
