// What people see before they help: what will happen, how much, under which conditions, and one
// button.
import type { VNode } from "preact";
import {
  Notice, formatBytes, formatMemory, kDataLimits, kShares, shareText,
} from "@weft/ui";
import type { EngineChoice } from "@weft/worker";
import { isPhoneDevice, keepsWeights } from "./device.ts";
import {
  changeChoices, choices, forgetCache, pausedBecause, startHelping, status,
} from "./helper.ts";
import { MemoryField } from "./memoryField.tsx";
import { modelState } from "./model.ts";

export function JoinForm(): VNode {
  const hasModel = modelState.value.kind === "known";
  return (
    <form
      class="card join-form stack"
      onSubmit={(event) => {
        event.preventDefault();
        startHelping();
      }}
    >
      <WhatHappens />
      <MemoryField />
      <NameField />
      <Conditions />
      <Limits />
      <button type="submit" class="button button-primary button-large"
        disabled={!isSecureContext || !hasModel || pausedBecause.value !== ""}
        aria-describedby="help-hint">
        Help compute
      </button>
      <p id="help-hint" class="muted centered">
        {isSecureContext && pausedBecause.value !== "" ? pausedBecause.value
          : "Nothing is downloaded or computed before you press it."}
      </p>
      <Advanced />
    </form>
  );
}

function WhatHappens(): VNode {
  const state = modelState.value;
  const { memoryBytes } = choices.value;
  const model = state.kind === "known" ? state.model : null;
  const most = model ? Math.min(model.weightBytes, memoryBytes) : memoryBytes;
  return (
    <ul class="what-happens">
      <li>
        Downloads up to <strong class="figure">{formatBytes(most)}</strong> of{" "}
        {model ? <strong>{model.name}</strong> : "the model"} from this server
        {keepsWeights.value
          ? " and keeps it in this browser for the next time."
          : ". This browser keeps nothing for the next time (a private window?)."}
      </li>
      <li>
        Computes while this tab is open{isPhoneDevice ? "" : ", in the background too"}, with at
        most{" "}
        <strong class="figure">{formatMemory(memoryBytes)}</strong> of memory.
      </li>
      <li>Stops at once when you press stop or close the tab.</li>
    </ul>
  );
}

function NameField(): VNode {
  return (
    <label class="field">
      <span class="field-label">Name of this device</span>
      <input
        type="text"
        maxLength={64}
        autocomplete="off"
        value={choices.value.name}
        onInput={(event) => changeChoices({ name: event.currentTarget.value })}
      />
      <span class="field-hint">Shown in the picture of the swarm.</span>
    </label>
  );
}

function Conditions(): VNode {
  const { onBattery, onMetered } = choices.value;
  return (
    <fieldset class="field">
      <legend class="field-label">Also help</legend>
      <label class="check">
        <input type="checkbox" checked={onBattery}
          onChange={(event) => changeChoices({ onBattery: event.currentTarget.checked })} />
        on battery
      </label>
      <label class="check">
        <input type="checkbox" checked={onMetered}
          onChange={(event) => changeChoices({ onMetered: event.currentTarget.checked })} />
        on metered connections
      </label>
    </fieldset>
  );
}

function Limits(): VNode {
  const { share, dataLimitBytes } = choices.value;
  return (
    <div class="limits">
      <label class="field">
        <span class="field-label">Compute</span>
        <select value={share} onChange={(event) =>
          changeChoices({ share: Number(event.currentTarget.value) })}>
          {kShares.map((one) => <option key={one} value={one}>{shareText(one)}</option>)}
        </select>
      </label>
      <label class="field">
        <span class="field-label">Data of a day</span>
        <select value={dataLimitBytes ?? ""} onChange={(event) => {
          const { value } = event.currentTarget;
          changeChoices({ dataLimitBytes: value === "" ? null : Number(value) });
        }}>
          {kDataLimits.map((limit) => (
            <option key={limit} value={limit ?? ""}>
              {limit === null ? "No limit" : `At most ${formatBytes(limit)}`}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

const kEngines: readonly [EngineChoice, string][] = [
  ["auto", "Choose for me"],
  ["webgpu", "WebGPU (graphics processor)"],
  ["wasm", "WebAssembly (processor)"],
];

function Advanced(): VNode {
  return (
    <details class="advanced">
      <summary>Advanced</summary>
      <div class="stack">
        <label class="field">
          <span class="field-label">Engine</span>
          <select
            value={choices.value.engine}
            onChange={(event) => {
              const chosen = kEngines.find(([engine]) => engine === event.currentTarget.value);
              if (chosen) changeChoices({ engine: chosen[0] });
            }}
          >
            {kEngines.map(([engine, words]) => (
              <option key={engine} value={engine}>{words}</option>
            ))}
          </select>
        </label>
        <div class="field">
          <span class="field-label">Weights kept in this browser</span>
          <button type="button" class="button" disabled={!isSecureContext} onClick={forgetCache}>
            Forget cached weights
          </button>
          {status.value.cachedBytes > 0 && (
            <span class="field-hint">{formatBytes(status.value.cachedBytes)} are kept.</span>
          )}
        </div>
      </div>
    </details>
  );
}

// Browsers withhold what helping needs from pages that came over plain http from another device.
export function InsecureNotice(): VNode | null {
  if (isSecureContext) return null;
  return (
    <Notice kind="warning" title="This address cannot be used for helping">
      <p>
        The page came over plain http. Browsers give such pages no WebGPU, no hashing and no
        cache, so this tab could neither verify nor keep the model.
      </p>
      <p>
        A phone or another computer needs an address with <code>https://</code>: start the server
        with <code>weft serve --share</code> and open the one that it prints. The certificate is
        its own: the browser warns once.
      </p>
    </Notice>
  );
}
