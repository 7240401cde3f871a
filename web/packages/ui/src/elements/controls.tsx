// Buttons, copy fields, progress: small controls that pages share.
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { copyText } from "./clipboard.ts";
import { Icon } from "./icons.tsx";
import type { IconName } from "./icons.tsx";

interface IconButtonProps {
  icon: IconName;
  label: string; // read out and shown as a tooltip
  onClick: () => void;
  disabled?: boolean;
  isPressed?: boolean;
}

export function IconButton({ icon, label, onClick, disabled, isPressed }: IconButtonProps): VNode {
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={label}
      title={label}
      aria-pressed={isPressed}
      disabled={disabled}
      onClick={onClick}
    >
      <Icon name={icon} />
    </button>
  );
}

const kCopiedMs = 2000;

// Copies on click and says so for a moment, or that it could not: the text can be copied by hand.
function useCopy(text: string): { state: "idle" | "copied" | "failed"; copy: () => void } {
  const [state, setState] = useState<"idle" | "copied" | "failed">("idle");
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  const show = (next: "copied" | "failed"): void => {
    setState(next);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setState("idle"), kCopiedMs);
  };
  const copy = (): void => {
    copyText(text).then(() => show("copied"), () => show("failed"));
  };
  return { state, copy };
}

export function CopyIconButton({ text, label }: { text: string; label: string }): VNode {
  const { state, copy } = useCopy(text);
  const words = state === "copied" ? "Copied" : state === "failed" ? "Copying failed" : label;
  return <IconButton icon={state === "copied" ? "check" : "copy"} label={words} onClick={copy} />;
}

// A text to be copied (an address, say) with its button.
export function CopyField({ label, text }: { label: string; text: string }): VNode {
  const { state, copy } = useCopy(text);
  const words = { idle: "Copy", copied: "Copied", failed: "Select it and copy by hand" }[state];
  return (
    <div class="copy-field">
      <input
        type="text"
        readOnly
        aria-label={label}
        value={text}
        onFocus={(event) => event.currentTarget.select()}
      />
      <button type="button" class="button" onClick={copy}>
        <Icon name={state === "copied" ? "check" : "copy"} />
        <span aria-live="polite">{words}</span>
      </button>
    </div>
  );
}

interface ProgressProps {
  label: string;
  done: number;
  total: number;
  text: string; // beside the bar: "12 of 40 MB"
}

export function ProgressBar({ label, done, total, text }: ProgressProps): VNode {
  return (
    <div class="progress">
      <div class="progress-text">
        <span>{label}</span>
        <span class="figure">{text}</span>
      </div>
      <progress aria-label={label} max={Math.max(1, total)} value={Math.min(done, total)} />
    </div>
  );
}

interface NoticeProps {
  kind: "info" | "warning" | "error";
  title?: string;
  isAlert?: boolean; // read out at once
  children: ComponentChildren;
}

export function Notice({ kind, title, isAlert, children }: NoticeProps): VNode {
  return (
    <div class={`notice notice-${kind}`} role={isAlert ? "alert" : "note"}>
      <Icon name={kind === "info" ? "info" : "warning"} />
      <div class="notice-body">
        {title !== undefined && <p class="notice-title">{title}</p>}
        {children}
      </div>
    </div>
  );
}

// One figure with its name: "18.3 tokens/s" over "speed".
export function Figure({ name, value, isWide }: {
  name: string;
  value: string;
  isWide?: boolean; // takes the whole row
}): VNode {
  return (
    <div class={isWide ? "figure-box figure-box-wide" : "figure-box"}>
      <dt>{name}</dt>
      <dd class="figure">{value}</dd>
    </div>
  );
}
