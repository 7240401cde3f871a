// Asks before something is done that others notice.
import type { ComponentChildren, VNode } from "preact";
import { Dialog } from "../elements/dialog.tsx";

interface ConfirmDialogProps {
  title: string;
  isOpen: boolean;
  action: string; // what the button says
  onConfirm: () => void;
  onClose: () => void;
  children: ComponentChildren;
}

export function ConfirmDialog(props: ConfirmDialogProps): VNode {
  return (
    <Dialog title={props.title} isOpen={props.isOpen} onClose={props.onClose}>
      <div class="stack">
        {props.children}
        <div class="row row-end">
          <button type="button" class="button" onClick={props.onClose}>Cancel</button>
          <button type="button" class="button button-stop" onClick={props.onConfirm}>
            {props.action}
          </button>
        </div>
      </div>
    </Dialog>
  );
}
