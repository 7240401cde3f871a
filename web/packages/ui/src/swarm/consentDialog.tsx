// Asks the swarm's owner whether a device may compute the whole model alone.
import type { VNode } from "preact";
import { Dialog } from "../elements/dialog.tsx";
import type { Device } from "./picture.ts";

interface ConsentDialogProps {
  device: Device | null; // null: nobody asks
  onAnswer: (device: Device, isAllowed: boolean) => void;
}

export function ConsentDialog({ device, onAnswer }: ConsentDialogProps): VNode {
  const answer = (isAllowed: boolean) => (): void => {
    if (device) onAnswer(device, isAllowed);
  };
  return (
    <Dialog title="Run it all on one device?" isOpen={device !== null} onClose={answer(false)}>
      <div class="stack">
        <p>
          The user of <strong>{device?.name}</strong> wants it to compute the whole model alone. It
          then sees every prompt and writes every answer, and the other devices rest.
        </p>
        <p class="muted">Without an answer within half a minute the server says no.</p>
        <div class="row row-end">
          <button type="button" class="button" onClick={answer(false)}>No</button>
          <button type="button" class="button button-primary" onClick={answer(true)}>
            Allow it
          </button>
        </div>
      </div>
    </Dialog>
  );
}
