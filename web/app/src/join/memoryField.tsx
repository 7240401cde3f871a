// How much memory is offered: a slider up to what this device can give, and a button that finds out
// how much that is where a GPU computes.
import type { VNode } from "preact";
import { useId } from "preact/hooks";
import { formatMemory, mostOfferBytes, offerStops } from "@weft/ui";
import { deviceMemory, isPhoneDevice } from "./device.ts";
import { asking, gpuMemory, mayAsk } from "./gpuMemory.ts";
import { changeChoices, choices, offerWhatGpuHas } from "./helper.ts";

export function MemoryField(): VNode {
  const { memoryBytes, engine } = choices.value;
  const gpu = engine === "wasm" ? null : gpuMemory.value;
  const stops = offerStops(mostOfferBytes(deviceMemory, gpu), memoryBytes);
  const id = useId();
  return (
    <div class="field">
      <div class="row row-between">
        <label class="field-label" for={id}>Memory to offer</label>
        <output class="figure memory-value" for={id}>{formatMemory(memoryBytes)}</output>
      </div>
      <input
        id={id}
        type="range"
        min="0"
        max={stops.length - 1}
        step="1"
        value={stops.indexOf(memoryBytes)}
        aria-valuetext={formatMemory(memoryBytes)}
        onInput={(event) => {
          const chosen = stops[event.currentTarget.valueAsNumber];
          if (chosen !== undefined) changeChoices({ memoryBytes: chosen });
        }}
      />
      <span class="field-hint">
        {isPhoneDevice
          ? "Phones close tabs that use much memory: half a GiB is a good amount."
          : "More memory can hold more layers. No more than this is used for the model."}{" "}
        The browser itself takes about 250 MB beside it.
      </span>
      {mayAsk && engine !== "wasm" && <AskGpu />}
    </div>
  );
}

function AskGpu(): VNode {
  const isAsking = asking.value.kind === "asking";
  return (
    <div class="row row-between ask-gpu">
      <span class="field-hint" role="status">{gpuWords()}</span>
      <button type="button" class="button" disabled={isAsking}
        onClick={() => void offerWhatGpuHas()}>
        {gpuMemory.value ? "Ask it again" : "Ask the graphics processor"}
      </button>
    </div>
  );
}

function gpuWords(): string {
  const now = asking.value;
  const found = gpuMemory.value;
  if (now.kind === "asking") return `It gives ${formatMemory(now.givenBytes)} so far.`;
  if (now.kind === "failed") return now.sentence;
  if (!found) return "How much the graphics processor has is found out by taking it for a moment.";
  const given = `The graphics processor gave ${formatMemory(found.bytes)}`;
  if (!found.isOwn) return `${given}, which it shares with this device.`;
  const most = formatMemory(mostOfferBytes(deviceMemory, found));
  return `${given}: up to ${most} may be lent, the rest is for windows and other programs.`;
}
