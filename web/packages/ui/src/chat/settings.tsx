// What the questions of a chat are asked with: system prompt, sampling, longest answer, tools.
import type { VNode } from "preact";
import { Dialog } from "../elements/dialog.tsx";
import { toolsProblem } from "./chatSettings.ts";
import type { ChatSettings } from "./chatSettings.ts";

interface SettingsDialogProps {
  isOpen: boolean;
  isOfChat: boolean; // of a chat that has begun; else of the next new one
  settings: ChatSettings;
  onChange: (settings: ChatSettings) => void;
  onUseForNew: () => void; // new chats begin with these
  onClose: () => void;
  onForgetKey: (() => void) | null; // null: no key is kept
}

interface FieldsProps {
  settings: ChatSettings;
  onChange: (settings: ChatSettings) => void;
}

export function SettingsDialog(props: SettingsDialogProps): VNode {
  const { isOpen, isOfChat, settings, onChange, onUseForNew, onClose, onForgetKey } = props;
  return (
    <Dialog title={isOfChat ? "Settings of this chat" : "Settings of new chats"} isOpen={isOpen}
      onClose={onClose}>
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
          <span class="field-hint">Put before the conversation. Empty: none.</span>
        </label>
        <TemperatureField settings={settings} onChange={onChange} />
        <NumberField name="Longest answer, in tokens" placeholder="No limit" isWhole least={1}
          most={1e6} hint="Empty: until the model ends, or the context is full."
          value={settings.mostTokens}
          onValue={(mostTokens) => onChange({ ...settings, mostTokens })} />
        <MoreSettings settings={settings} onChange={onChange} />
        <div class="row row-between">
          <span class="row">
            {isOfChat && (
              <button type="button" class="button" onClick={onUseForNew}>
                Use for new chats
              </button>
            )}
            {onForgetKey && (
              <button type="button" class="button" onClick={onForgetKey}>Forget the API key</button>
            )}
          </span>
          <button type="submit" class="button button-primary">Done</button>
        </div>
      </form>
    </Dialog>
  );
}

function MoreSettings({ settings, onChange }: FieldsProps): VNode {
  const problem = toolsProblem(settings.tools);
  return (
    <details class="advanced">
      <summary>More</summary>
      <div class="stack">
        <NumberField name="Top p" placeholder="The model’s own" least={0} most={1}
          hint="Only the likeliest tokens whose shares add up to it are drawn."
          value={settings.topP} onValue={(topP) => onChange({ ...settings, topP })} />
        <NumberField name="Seed" placeholder="Another one each time" isWhole least={0} most={1e15}
          hint="The same seed and conversation give the same answer."
          value={settings.seed} onValue={(seed) => onChange({ ...settings, seed })} />
        <label class="field">
          <span class="field-label">Tools, as JSON</span>
          <textarea rows={4} class="code-field" spellcheck={false}
            aria-invalid={problem !== ""} value={settings.tools}
            onInput={(event) => onChange({ ...settings, tools: event.currentTarget.value })} />
          {problem === ""
            ? <span class="field-hint">
                Functions that the model may call. The page shows its calls, and you write what they
                gave.
              </span>
            : <span class="field-error" role="status">{problem}</span>}
        </label>
      </div>
    </details>
  );
}

interface NumberFieldProps {
  name: string;
  hint: string;
  placeholder: string;
  least: number;
  most: number;
  isWhole?: boolean;
  value: number | null;
  onValue: (value: number | null) => void;
}

function NumberField(props: NumberFieldProps): VNode {
  const { name, hint, placeholder, least, most, isWhole, value, onValue } = props;
  return (
    <label class="field">
      <span class="field-label">{name}</span>
      <input
        type="number"
        min={least}
        max={most}
        step={isWhole ? 1 : 0.05}
        inputMode={isWhole ? "numeric" : "decimal"}
        placeholder={placeholder}
        value={value ?? ""}
        onInput={(event) => {
          const typed = event.currentTarget.valueAsNumber;
          const isRight = typed >= least && typed <= most;
          onValue(isRight ? (isWhole ? Math.floor(typed) : typed) : null);
        }}
      />
      <span class="field-hint">{hint}</span>
    </label>
  );
}

function TemperatureField({ settings, onChange }: FieldsProps): VNode {
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
