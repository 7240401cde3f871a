// Code of an answer, with its language, a button that copies it, and colours. The colours come a
// moment after the code (afterFrame.ts): a long answer must not wait for them.
import { signal } from "@preact/signals";
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { CopyIconButton } from "../elements/controls.tsx";
import { afterFrame } from "./afterFrame.ts";
import type { Piece } from "./colourCode.ts";

type Colour = (language: string, text: string) => readonly Piece[] | null;

interface Coloured {
  text: string;
  nodes: ComponentChildren;
}

// Longer code stays in one colour: reading it takes longer than a frame may.
const kMostCharacters = 20_000;
const kSettleMs = 300;

const colourer = signal<Colour | null>(null);
let isAsked = false;

function loadedColourer(): Colour | null {
  if (!isAsked) {
    isAsked = true;
    import("./colourCode.ts").then(
      ({ colourCode }) => {
        colourer.value = colourCode;
      },
      () => {
        isAsked = false; // the server is gone: the next code asks again
      },
    );
  }
  return colourer.value;
}

export function CodeBlock({ language, text }: { language: string; text: string }): VNode {
  return (
    <div class="code-block">
      <div class="code-head">
        <span>{language || "code"}</span>
        <CopyIconButton text={text} label="Copy this code" />
      </div>
      <pre tabIndex={0} aria-label={`${language} code`.trim()}>
        <code>{useColours(language, text)}</code>
      </pre>
    </div>
  );
}

// While code grows, what is new of it has no colours until it is a quarter of what has.
function useColours(language: string, text: string): ComponentChildren {
  const [coloured, setColoured] = useState<Coloured>({ text: "", nodes: null });
  const colour = language === "" || text.length > kMostCharacters ? null : loadedColourer();
  const isPrefix = text.startsWith(coloured.text);
  useEffect(() => {
    if (!colour || text === coloured.text) return undefined;
    const grown = text.length - coloured.text.length;
    const settles = isPrefix && 4 * grown < coloured.text.length;
    const draw = (): void => {
      const pieces = colour(language, text);
      if (pieces) setColoured({ text, nodes: pieces.map(nodeOf) });
    };
    if (!settles) return afterFrame(draw);
    const timer = setTimeout(draw, kSettleMs);
    return () => clearTimeout(timer);
  }, [colour, language, text, coloured]);
  if (!isPrefix || coloured.text === "") return text;
  return <>{coloured.nodes}{text.slice(coloured.text.length)}</>;
}

function nodeOf(piece: Piece): ComponentChildren {
  return typeof piece === "string" ? piece
    : <span class={piece.classes}>{piece.pieces.map(nodeOf)}</span>;
}
