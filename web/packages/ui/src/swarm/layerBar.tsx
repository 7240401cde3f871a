// All layers of the model as one bar: who runs what, and below it how many devices hold each layer.
// Letters and words say everything that colours say.
import type { VNode } from "preact";
import type { NamedDevice } from "./devices.ts";
import { holderCounts, layersText, rangesOf, weakestText } from "./layers.ts";
import type { SwarmPicture } from "./picture.ts";

// Lines between layers only while they are wider than the lines.
const kMostDrawnLayers = 48;

interface LayerBarProps {
  picture: SwarmPicture;
  devices: readonly NamedDevice[];
  computing: ReadonlySet<number>;
}

export function LayerBar({ picture, devices, computing }: LayerBarProps): VNode | null {
  if (picture.layerCount === 0) return null;
  const running = devices.filter(({ device }) => device.firstLayer >= 0);
  const words = running.map(({ device, letter }) => {
    const layers = layersText(device.firstLayer, device.endLayer, picture.layerCount);
    return `${letter} (${device.name}): ${layers}`;
  });
  const holes = picture.stages.filter(({ deviceId }) => deviceId === 0);
  for (const { firstLayer, endLayer } of holes) {
    words.push(`Nobody: ${layersText(firstLayer, endLayer, picture.layerCount)}`);
  }
  const label = words.length > 0
    ? `Who runs what. ${words.join("; ")}.` : "No device runs a layer.";
  const byId = new Map(devices.map((named) => [named.device.id, named]));
  return (
    <div class="layer-bar">
      <div class="layer-row" role="img" aria-label={label} style={columns(picture.layerCount)}>
        {running.map((named) => (
          <Segment
            key={named.device.id}
            named={named}
            firstLayer={named.device.firstLayer}
            endLayer={named.device.endLayer}
            layerCount={picture.layerCount}
            isComputing={computing.has(named.device.id)}
          />
        ))}
        {holes.map(({ firstLayer, endLayer }) => (
          <div
            key={`hole-${firstLayer}`}
            class="segment segment-hole"
            title={`Missing: ${layersText(firstLayer, endLayer, picture.layerCount)}`}
            style={{ "grid-column": `${firstLayer + 1} / ${endLayer + 1}` }}
          >
            <span>?</span>
          </div>
        ))}
      </div>
      {picture.sidePlans.map(({ stages }) => {
        const named = stages.flatMap((stage) => {
          const who = byId.get(stage.deviceId);
          return who ? [{ ...stage, who }] : [];
        });
        const parts = named.map(({ who, firstLayer, endLayer }) =>
          `${who.letter} (${who.device.name}): ` +
          layersText(firstLayer, endLayer, picture.layerCount));
        return (
          <div class="layer-row layer-row-side" role="img" style={columns(picture.layerCount)}
            key={stages.map(({ deviceId }) => deviceId).join("-")}
            aria-label={`Beside them, for other conversations: ${parts.join("; ")}.`}>
            {named.map(({ who, firstLayer, endLayer }) => (
              <Segment key={who.device.id} named={who} firstLayer={firstLayer} endLayer={endLayer}
                layerCount={picture.layerCount} isComputing={computing.has(who.device.id)} />
            ))}
          </div>
        );
      })}
      <div class="layer-axis" aria-hidden="true">
        <span>embedding</span>
        <span>{picture.layerCount > 2 ? `layers 1–${picture.layerCount - 2}` : ""}</span>
        <span>head</span>
      </div>
    </div>
  );
}

function columns(layerCount: number): Record<string, string> {
  return { "grid-template-columns": `repeat(${layerCount}, minmax(0, 1fr))` };
}

interface SegmentProps {
  named: NamedDevice;
  firstLayer: number;
  endLayer: number;
  layerCount: number;
  isComputing: boolean;
}

function Segment(props: SegmentProps): VNode {
  const { named, firstLayer, endLayer, layerCount, isComputing } = props;
  const { device, letter, color } = named;
  const lines = layerCount <= kMostDrawnLayers ? "segment-lined" : "";
  return (
    <div
      class={`segment device-color-${color} ${lines} ${isComputing ? "is-computing" : ""}`}
      title={`${letter}: ${device.name}, ${layersText(firstLayer, endLayer, layerCount)}`}
      style={{
        "grid-column": `${firstLayer + 1} / ${endLayer + 1}`,
        "--span": String(endLayer - firstLayer),
      }}
    >
      <span>{letter}</span>
    </div>
  );
}

// The weakest layers are where the swarm breaks first: they must be seen.
export function CoverageBar({ picture }: { picture: SwarmPicture }): VNode | null {
  const counts = holderCounts(picture);
  if (counts.length === 0) return null;
  const levels = counts.map((count) => Math.min(count, 2));
  const ranges = [0, 1, 2].flatMap((level) =>
    rangesOf(levels.flatMap((other, layer) => (other === level ? [layer] : [])))
      .map((range) => ({ ...range, level })));
  const weakest = weakestText(picture);
  return (
    <div class="coverage">
      <div class="coverage-row" role="img" aria-label={`Copies of each layer. ${weakest}`}
        style={columns(counts.length)}>
        {ranges.map(({ first, end, level }) => (
          <div
            key={`${first}-${level}`}
            class={`coverage-part holders-${level}`}
            style={{ "grid-column": `${first + 1} / ${end + 1}` }}
          />
        ))}
      </div>
      <ul class="coverage-legend" aria-hidden="true">
        <li><i class="holders-0" />on no device</li>
        <li><i class="holders-1" />on one</li>
        <li><i class="holders-2" />on several</li>
      </ul>
      <p class="coverage-text">{weakest}</p>
    </div>
  );
}

// One device's share of the bar: what it runs, and what it has in its cache.
export function DeviceBar({ named, layerCount }: {
  named: NamedDevice;
  layerCount: number;
}): VNode {
  const { device, color } = named;
  const runs = (layer: number): boolean => layer >= device.firstLayer && layer < device.endLayer;
  const spare = rangesOf(device.cachedLayers.filter((layer) => !runs(layer) && layer < layerCount));
  return (
    <div class="device-bar" aria-hidden="true" style={columns(layerCount)}>
      {spare.map(({ first, end }) => (
        <div key={first} class={`device-part device-part-spare device-color-${color}`}
          style={{ "grid-column": `${first + 1} / ${end + 1}` }} />
      ))}
      {device.firstLayer >= 0 && (
        <div class={`device-part device-color-${color}`}
          style={{ "grid-column": `${device.firstLayer + 1} / ${device.endLayer + 1}` }} />
      )}
    </div>
  );
}
