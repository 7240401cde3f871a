// Code to pieces with classes by lowlight (highlight.js as a tree), in a module that is loaded with
// the first code. Styles give the classes colours (styles/code.css).
import { common, createLowlight } from "lowlight";

export type Piece = string | { classes: string; pieces: Piece[] };

type Node = ReturnType<ReturnType<typeof createLowlight>["highlight"]>["children"][number];

const lowlight = createLowlight(common);

// Gives null for a language that it does not know: "c++" is known, "output" is not.
export function colourCode(language: string, text: string): readonly Piece[] | null {
  if (!lowlight.registered(language)) return null;
  return lowlight.highlight(language, text).children.flatMap(piecesOf);
}

function piecesOf(node: Node): Piece[] {
  if (node.type === "text") return [node.value];
  if (node.type !== "element") return [];
  const { className } = node.properties;
  return [{
    classes: Array.isArray(className) ? className.join(" ") : "",
    pieces: node.children.flatMap(piecesOf),
  }];
}
