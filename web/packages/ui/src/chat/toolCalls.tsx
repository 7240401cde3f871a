// The functions that an answer wants called. This page calls nothing by itself: whoever reads it
// writes what each call gave, and the model goes on with that.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { ToolCall } from "./chat.ts";

export function ToolCalls({ calls, onResults }: {
  calls: readonly ToolCall[];
  onResults: ((results: Record<string, string>) => void) | null; // null: not now
}): VNode {
  const [results, setResults] = useState<Record<string, string>>({});
  return (
    <form class="tool-calls" onSubmit={(event) => {
      event.preventDefault();
      onResults?.(results);
    }}>
      {calls.map((call) => (
        <div class="tool-call" key={call.id}>
          <p>Calls <code>{call.name}</code></p>
          <pre tabIndex={0} aria-label={`Arguments of ${call.name}`}>
            <code>{argumentsText(call)}</code>
          </pre>
          {onResults && (
            <label class="field">
              <span class="field-label">What {call.name} gave</span>
              <textarea rows={2} class="code-field" value={results[call.id] ?? ""}
                onInput={(event) =>
                  setResults({ ...results, [call.id]: event.currentTarget.value })} />
            </label>
          )}
        </div>
      ))}
      {onResults && (
        <div class="row row-end">
          <button type="submit" class="button button-primary">Go on with this</button>
        </div>
      )}
    </form>
  );
}

// One argument a line, where they are JSON: a call that is being written is not, yet.
export function argumentsText({ argumentsText: text }: ToolCall): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
