// Where the question is written. Enter sends, Shift+Enter makes a new line, and Enter that ends an
// input method's composition only does that.
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../elements/icons.tsx";

interface ComposerProps {
  text: string;
  onText: (text: string) => void;
  onSend: () => void;
  onStop: () => void;
  isAnswering: boolean;
  // Why nothing can be sent now, in words; "" when it can.
  blockedBy: string;
}

export function Composer(props: ComposerProps): VNode {
  const { text, onText, onSend, onStop, isAnswering, blockedBy } = props;
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => fitHeight(area.current), [text]);
  // Ready to type where a keyboard is at hand; on phones the keyboard would cover the page.
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) area.current?.focus();
  }, []);
  const canSend = !isAnswering && blockedBy === "" && text.trim() !== "";
  const send = (): void => {
    if (!canSend) return;
    onSend();
    area.current?.focus();
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <label class="visually-hidden" for="composer-text">Message</label>
      <textarea
        ref={area}
        id="composer-text"
        rows={1}
        placeholder="Write a message"
        aria-describedby="composer-hint"
        enterkeyhint="send"
        value={text}
        onInput={(event) => onText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (!isSendKey(event)) return;
          event.preventDefault();
          send();
        }}
      />
      {isAnswering ? (
        <button type="button" class="round-button" aria-label="Stop" title="Stop" onClick={onStop}>
          <Icon name="stop" />
        </button>
      ) : (
        <button type="submit" class="round-button" aria-label="Send" title="Send"
          disabled={!canSend}>
          <Icon name="send" />
        </button>
      )}
      <p id="composer-hint" class={`composer-hint ${blockedBy === "" ? "is-help" : ""}`}>
        {blockedBy || "Enter sends, Shift+Enter starts a new line."}
      </p>
    </form>
  );
}

// keyCode 229 is what Safari reports for the Enter that closes a composition.
export function isSendKey(event: {
  key: string; shiftKey: boolean; isComposing: boolean; keyCode: number;
}): boolean {
  return event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229;
}

function fitHeight(area: HTMLTextAreaElement | null): void {
  if (!area) return;
  area.style.blockSize = "auto";
  area.style.blockSize = `${area.scrollHeight}px`; // CSS limits it
}
