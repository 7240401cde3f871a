// A modal dialog on the browser's own <dialog>: focus stays inside, Escape closes, focus returns.
import type { ComponentChildren, VNode } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { IconButton } from "./controls.tsx";

interface DialogProps {
  title: string;
  isOpen: boolean;
  onClose: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, isOpen, onClose, children }: DialogProps): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  // The browser reports a close later: by then the dialog may be wanted again.
  const closedByUs = useRef(false);
  const titleId = useId();
  // Not after the next frame, as an effect: until then the page behind it would lose what is typed.
  useLayoutEffect(() => {
    const element = dialog.current;
    if (!element || element.open === isOpen) return;
    closedByUs.current = !isOpen;
    if (isOpen) element.showModal();
    else element.close();
  }, [isOpen]);
  return (
    <dialog
      ref={dialog}
      class="dialog"
      aria-labelledby={titleId}
      onClose={() => {
        if (!closedByUs.current && dialog.current?.open !== true) onClose();
      }}
      // A click on the backdrop lands on the dialog itself.
      onClick={(event) => {
        if (event.target === event.currentTarget) onClose();
      }}
    >
      {isOpen && (
        <div class="dialog-body">
          <header class="dialog-head">
            <h2 id={titleId}>{title}</h2>
            <IconButton icon="close" label="Close" onClick={onClose} />
          </header>
          {children}
        </div>
      )}
    </dialog>
  );
}
