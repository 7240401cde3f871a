// TeX to MathML by Temml, in a module that is loaded with the first formula.
import temml from "temml";
import "temml/dist/Temml-Local.css";

const kMostCharacters = 10_000;

// Gives null for what Temml cannot read. `trust` is off: no formula links or loads anything.
export function drawFormula(text: string, isDisplay: boolean): Element | null {
  if (text.length > kMostCharacters) return null;
  const place = document.createElement("span");
  try {
    temml.render(text, place, {
      displayMode: isDisplay, throwOnError: true, trust: false, maxSize: [20, 40], maxExpand: 500,
    });
  } catch {
    return null;
  }
  return place.firstElementChild;
}
