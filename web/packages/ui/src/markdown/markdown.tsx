// The text of an answer: as it was written until the module that reads Markdown has come, then as
// markdown/view.tsx draws it.
import { signal } from "@preact/signals";
import type { VNode } from "preact";

const view = signal<((props: { text: string }) => VNode) | null>(null);
let isAsked = false;

// The chat page asks when it is shown, so that the module is there before the first answer.
export function loadMarkdown(): void {
  if (isAsked) return;
  isAsked = true;
  import("./view.tsx").then(
    ({ MarkdownView }) => {
      view.value = MarkdownView;
    },
    () => {
      isAsked = false; // the server is gone: the next answer asks again
    },
  );
}

export function Markdown({ text }: { text: string }): VNode {
  const View = view.value;
  if (View) return <View text={text} />;
  loadMarkdown();
  return <p class="prose-source">{text}</p>;
}
