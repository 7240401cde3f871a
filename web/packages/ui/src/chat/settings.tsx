// What every question is asked with: system prompt, temperature, longest answer.
import type { VNode } from "preact";
import { Dialog } from "../elements/dialog.tsx";

export interface ChatSettings {
  systemPrompt: string;
  temperature: number | null; // null: the model's own
  mostTokens: number | null; // null: as long as the context allows
}

function defaultSettings(): ChatSettings {
  return { systemPrompt: "", temperature: null, mostTokens: null };
}

export function readSettings(saved: unknown): ChatSettings {
  const settings = defaultSettings();
  if (typeof saved !== "object" || saved === null) return settings;
  const from = saved as Partial<Record<keyof ChatSettings, unknown>>;
  if (typeof from.systemPrompt === "string") settings.systemPrompt = from.systemPrompt;
  const { temperature, mostTokens } = from;
  if (typeof temperature === "number" && temperature >= 0 && temperature <= 2) {
    settings.temperature = temperature;
  }
  if (typeof mostTokens === "number" && Number.isInteger(mostTokens) && mostTokens >= 1) {
    settings.mostTokens = mostTokens;
  }
  return settings;
}

interface SettingsDialogProps {
  isOpen: boolean;
  settings: ChatSettings;
  onChange: (settings: ChatSettings) => void;
  onClose: () => void;
  onForgetKey: (() => void) | null; // null: no key is kept
}

export function SettingsDialog(props: SettingsDialogProps): VNode {
  const { isOpen, settings, onChange, onClose, onForgetKey } = props;
  return (
    <Dialog title="Settings" isOpen={isOpen} onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          onClose();
        }}
      >
        <label class="field">
          <span class="field-label">System prompt</span>
          <textarea
            rows={3}
            placeholder="For example: You answer in one sentence."
            value={settings.systemPrompt}
            onInput={(event) => onChange({ ...settings, systemPrompt: event.currentTarget.value })}
          />
          <span class="field-hint">Put before every conversation. Empty: none.</span>
        </label>
        <TemperatureField settings={settings} onChange={onChange} />
        <label class="field">
          <span class="field-label">Longest answer, in tokens</span>
          <input
            type="number"
            min="1"
            max="100000"
            inputMode="numeric"
            placeholder="No limit"
            value={settings.mostTokens ?? ""}
            onInput={(event) => {
              const value = event.currentTarget.valueAsNumber;
              onChange({ ...settings, mostTokens: value >= 1 ? Math.floor(value) : null });
            }}
          />
          <span class="field-hint">Empty: until the model ends, or the context is full.</span>
        </label>
        <div class="row row-between">
          {onForgetKey
            ? <button type="button" class="button" onClick={onForgetKey}>Forget the API key</button>
            : <span />}
          <button type="submit" class="button button-primary">Done</button>
        </div>
      </form>
    </Dialog>
  );
}

function TemperatureField({ settings, onChange }: {
  settings: ChatSettings;
  onChange: (settings: ChatSettings) => void;
}): VNode {
  const { temperature } = settings;
  return (
    <fieldset class="field">
      <legend class="field-label">Temperature</legend>
      <label class="check">
        <input
          type="checkbox"
          checked={temperature === null}
          onChange={(event) =>
            onChange({ ...settings, temperature: event.currentTarget.checked ? null : 0.7 })}
        />
        As the model suggests
      </label>
      <div class="row">
        <input
          type="range"
          min="0"
          max="2"
          step="0.05"
          aria-label="Temperature"
          disabled={temperature === null}
          value={temperature ?? 0.7}
          onInput={(event) =>
            onChange({ ...settings, temperature: event.currentTarget.valueAsNumber })}
        />
        <output class="figure range-value">
          {temperature === null ? "–" : temperature.toFixed(2)}
        </output>
      </div>
      <span class="field-hint">0 always takes the likeliest word; more is more varied.</span>
    </fieldset>
  );
}
