// A formula of an answer: its source until the module that draws formulas has come, or where that
// cannot read it.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { afterFrame } from "./afterFrame.ts";

interface FormulaProps {
  text: string;
  source: string; // with its delimiters
  isDisplay: boolean;
  isOpen: boolean; // its end is not written yet
}

type Draw = (text: string, isDisplay: boolean) => Element | null;

interface Drawn {
  source: string;
  element: Element | null; // null: it cannot be read
}

const drawer = signal<Draw | null>(null);
let isAsked = false;

// Most answers have no formula: the module is loaded with the first one.
function loadedDrawer(): Draw | null {
  if (!isAsked) {
    isAsked = true;
    import("./drawFormula.ts").then(
      ({ drawFormula }) => {
        drawer.value = drawFormula;
      },
      () => {
        isAsked = false; // the server is gone: the next formula asks again
      },
    );
  }
  return drawer.value;
}

export function Formula({ text, source, isDisplay, isOpen }: FormulaProps): VNode {
  const draw = isOpen ? null : loadedDrawer();
  const [drawn, setDrawn] = useState<Drawn | null>(null);
  useEffect(() => {
    if (!draw) return undefined;
    return afterFrame(() => setDrawn({ source, element: draw(text, isDisplay) }));
  }, [draw, text, source, isDisplay]);
  const element = drawn?.source === source ? drawn.element : null;
  const place = (at: HTMLElement | null): void => {
    if (at && element && at.firstChild !== element) at.replaceChildren(element);
  };
  if (!element) return <span key="source" class="math-source">{source}</span>;
  return isDisplay
    ? <span key="block" class="math-display" tabIndex={0} role="group" aria-label="Formula"
        ref={place} />
    : <span key="inline" ref={place} />;
}
