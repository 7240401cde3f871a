// Asks for the API key when the server wants one.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { Dialog } from "./dialog.tsx";

interface KeyDialogProps {
  isOpen: boolean;
  wasRefused: boolean; // a key was sent and was not right
  onSave: (key: string) => void;
  onClose: () => void;
}

export function KeyDialog({ isOpen, wasRefused, onSave, onClose }: KeyDialogProps): VNode {
  const [key, setKey] = useState("");
  const save = (event: Event): void => {
    event.preventDefault();
    if (key.trim() === "") return;
    onSave(key.trim());
    setKey("");
  };
  return (
    <Dialog title="This swarm asks for its API key" isOpen={isOpen} onClose={onClose}>
      <form class="stack" onSubmit={save}>
        <p>
          <code>weft serve</code> printed the key, and a chat link that carries it, when it started.
          The key stays in this browser and is sent to this server only.
        </p>
        {wasRefused && (
          <p class="field-error" role="alert">
            The server did not accept that key. Check that it is complete and from the latest start.
          </p>
        )}
        <label class="field">
          <span class="field-label">API key</span>
          <input
            type="password"
            autocomplete="off"
            spellcheck={false}
            autofocus
            value={key}
            onInput={(event) => setKey(event.currentTarget.value)}
          />
        </label>
        <div class="row row-end">
          <button type="button" class="button" onClick={onClose}>Not now</button>
          <button type="submit" class="button button-primary" disabled={key.trim() === ""}>
            Use this key
          </button>
        </div>
      </form>
    </Dialog>
  );
}
