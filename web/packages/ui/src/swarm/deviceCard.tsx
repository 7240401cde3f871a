// One device of the swarm: what it is, what it holds, how fast it is, what it does now.
import type { VNode } from "preact";
import { Figure, ProgressBar } from "../elements/controls.tsx";
import { Icon } from "../elements/icons.tsx";
import {
  formatBytes, formatByteRate, formatDifference, formatInteger, formatMemory, formatMicroseconds,
  formatMilliseconds, formatRate,
} from "../format.ts";
import { deviceStateWord, kindWord } from "./devices.ts";
import type { NamedDevice } from "./devices.ts";
import { DeviceBar } from "./layerBar.tsx";
import { layersText } from "./layers.ts";
import type { Device, Stage } from "./picture.ts";

interface DeviceCardProps {
  named: NamedDevice;
  stage: Stage | undefined; // of the active plan
  layerCount: number;
  isComputing: boolean;
}

export function DeviceCard({ named, stage, layerCount, isComputing }: DeviceCardProps): VNode {
  const { device, letter, color } = named;
  return (
    <li class={`device-card ${isComputing ? "is-computing" : ""}`}>
      <header class="device-head">
        <span class={`device-letter device-color-${color}`} aria-hidden="true">{letter}</span>
        <div class="device-names">
          <h3>{device.name}</h3>
          <p class="muted">{identity(device)}</p>
        </div>
        <StateChip device={device} isComputing={isComputing} />
      </header>
      <DeviceBar named={named} layerCount={layerCount} />
      <p class="device-holds">{holdsText(device, layerCount)}</p>
      <Download device={device} />
      {device.problem !== "" && <p class="device-problem">{device.problem}</p>}
      <DeviceFigures device={device} stage={stage} />
    </li>
  );
}

function identity(device: Device): string {
  return [kindWord(device.kind), device.engine, device.device].filter((word) => word !== "")
    .join(" · ");
}

function StateChip({ device, isComputing }: { device: Device; isComputing: boolean }): VNode {
  return (
    <span class={`chip ${isComputing ? "chip-busy" : `chip-${device.state}`}`}>
      {isComputing && <Icon name="bolt" />}
      {isComputing ? "Computing" : deviceStateWord(device.state)}
    </span>
  );
}

function Download({ device }: { device: Device }): VNode | null {
  const { downloadedBytes: done, downloadTotalBytes: total } = device;
  if (total === 0 || done >= total) return null;
  const text = `${formatBytes(done)} of ${formatBytes(total)}`;
  return <ProgressBar label="Downloading" done={done} total={total} text={text} />;
}

function holdsText(device: Device, layerCount: number): string {
  const spare = device.cachedLayers.filter(
    (layer) => layer < device.firstLayer || layer >= device.endLayer).length;
  const also = spare > 0 ? `${spare} more in its cache` : "";
  if (device.firstLayer < 0) return also ? `Runs nothing now, ${also}.` : "Runs nothing now.";
  const runs = `Runs ${layersText(device.firstLayer, device.endLayer, layerCount)}`;
  return also ? `${runs}, ${also}.` : `${runs}.`;
}

function DeviceFigures({ device, stage }: { device: Device; stage: Stage | undefined }): VNode {
  const memory = `${formatMemory(device.usedBytes)} of ${formatMemory(device.memoryBytes)}`;
  const perToken = device.usPerToken > 0
    ? `${formatMicroseconds(device.usPerToken)} (${formatRate(1e6 / device.usPerToken, "tokens")})`
    : "–";
  return (
    <dl class="figures">
      <Figure name="Compute per token" value={perToken} />
      <Figure name="Latency" value={device.latencyMs > 0
        ? formatMilliseconds(device.latencyMs) : "–"} />
      <Figure name="Memory used" value={memory} />
      {stage && stage.predictedUs > 0
        ? <Figure name="Stage, predicted → measured" value={stageText(stage)} />
        : <Figure name="Download speed" value={device.downloadBytesPerSecond > 0
          ? formatByteRate(device.downloadBytesPerSecond) : "–"} />}
      <Figure name="Tokens computed" value={formatInteger(device.tokensComputed)} />
    </dl>
  );
}

function stageText(stage: Stage): string {
  const predicted = formatMicroseconds(stage.predictedUs);
  if (stage.measuredUs <= 0) return `${predicted} → –`;
  const difference = formatDifference(stage.measuredUs, stage.predictedUs);
  return `${predicted} → ${formatMicroseconds(stage.measuredUs)} (${difference})`;
}
