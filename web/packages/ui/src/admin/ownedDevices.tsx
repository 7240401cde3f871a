// Devices as the owner of the server sees them: where they come from, what they hold, why they get
// nothing, and a way to send them away. Below them those that were sent away.
import type { VNode } from "preact";
import { Figure } from "../elements/controls.tsx";
import { deviceStateWord, kindWord } from "../swarm/devices.ts";
import {
  formatByteRate, formatCount, formatMemoryOf, formatMicroseconds, formatMilliseconds,
} from "../words/format.ts";
import type { EvictedDevice, OwnedDevice } from "./adminJson.ts";
import { asideText, busyText, formatAge, silenceText, workText } from "./words.ts";

interface OwnedDeviceListProps {
  devices: readonly OwnedDevice[];
  onEvict: (device: OwnedDevice) => void;
}

export function OwnedDeviceList({ devices, onEvict }: OwnedDeviceListProps): VNode {
  if (devices.length === 0) return <p class="muted">No device is connected.</p>;
  return (
    <ul class="device-list">
      {devices.map((device) => (
        <OwnedDeviceCard key={`${device.model}/${device.id}`} device={device} onEvict={onEvict} />
      ))}
    </ul>
  );
}

function OwnedDeviceCard({ device, onEvict }: {
  device: OwnedDevice;
  onEvict: (device: OwnedDevice) => void;
}): VNode {
  const notes = [asideText(device), silenceText(device)].filter((note) => note !== "");
  return (
    <li class="device-card">
      <header class="device-head">
        <h3>{device.name}</h3>
        <span class={`chip chip-${device.state}`}>
          {device.isLeaving ? "Leaving" : deviceStateWord(device.state)}
        </span>
      </header>
      <p class="device-identity">
        {[kindWord(device.kind), device.device, device.isOwn ? "this server" : device.address]
          .filter((word) => word !== "").join(" · ")}
      </p>
      <p class="device-holds">{workText(device)}</p>
      {notes.map((note) => <p key={note} class="admin-aside">{note}</p>)}
      {device.problem !== "" && <p class="device-problem">{device.problem}</p>}
      <OwnedFigures device={device} />
      {!device.isOwn && (
        <div class="row row-end">
          <button type="button" class="button" disabled={device.isLeaving}
            aria-label={`Evict ${device.name}`} onClick={() => onEvict(device)}>
            Evict
          </button>
        </div>
      )}
    </li>
  );
}

function OwnedFigures({ device }: { device: OwnedDevice }): VNode {
  const { usPerToken, latencyMs, downloadBytesPerSecond, uploadBytesPerSecond } = device;
  return (
    <dl class="figures">
      <Figure name="Memory used" value={formatMemoryOf(device.usedBytes, device.memoryBytes)} />
      <Figure name="Computes" value={busyText(device)} />
      <Figure name="Compute per token"
        value={usPerToken > 0 ? formatMicroseconds(usPerToken) : "–"} />
      <Figure name="Latency" value={latencyMs > 0 ? formatMilliseconds(latencyMs) : "–"} />
      <Figure name="Line down, up" value={[downloadBytesPerSecond, uploadBytesPerSecond]
        .map((rate) => (rate > 0 ? formatByteRate(rate) : "–")).join(", ")} />
      <Figure name="Here since" value={`${formatAge(device.connectedS)} ago`} />
    </dl>
  );
}

interface EvictedListProps {
  evicted: readonly EvictedDevice[];
  onLetIn: (device: EvictedDevice) => void;
}

export function EvictedList({ evicted, onLetIn }: EvictedListProps): VNode | null {
  if (evicted.length === 0) return null;
  return (
    <section class="stack" aria-labelledby="evicted-heading">
      <h3 id="evicted-heading">{formatCount(evicted.length, "evicted device")}</h3>
      <ul class="admin-rows">
        {evicted.map((device) => (
          <li key={device.number} class="admin-row">
            <div>
              <p class="admin-row-name">{device.name}</p>
              <p class="muted">
                {kindWord(device.kind)} · {device.address} · may come back
                in {formatAge(Math.ceil(device.endsInS))}
              </p>
            </div>
            <button type="button" class="button" aria-label={`Let in ${device.name}`}
              onClick={() => onLetIn(device)}>
              Let in
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
