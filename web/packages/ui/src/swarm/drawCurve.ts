// A curve over time by uPlot, in a module of its own. It takes its colours from the styles of the
// place, so that themes and forced colours are followed, and its width from the place.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Curve {
  minutes: number[]; // rising, the last one 0
  values: (number | null)[];
  kind: "line" | "steps" | "percent";
  isLong: boolean; // its axis counts hours
  span: number; // minutes of its axis
}

interface Drawn {
  show: (curve: Curve) => void;
  end: () => void;
}

const kHeight = 120;
const kNarrow = 300; // pixels, with room for three times at the axis

export function drawCurve(place: HTMLElement, first: Curve): Drawn {
  const plot = new uPlot(optionsOf(place, first), dataOf(first), place);
  const size = new ResizeObserver(() => {
    if (place.clientWidth > 0) plot.setSize({ width: place.clientWidth, height: kHeight });
  });
  size.observe(place);
  // Colours are read when the canvas is drawn: another theme draws it again.
  const theme = new MutationObserver(() => plot.redraw(false));
  theme.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  const schemes = ["(prefers-color-scheme: dark)", "(forced-colors: active)"]
    .map((query) => matchMedia(query));
  const redraw = (): void => plot.redraw(false);
  for (const scheme of schemes) scheme.addEventListener("change", redraw);
  return {
    show: (curve) => plot.setData(dataOf(curve)),
    end: () => {
      size.disconnect();
      theme.disconnect();
      for (const scheme of schemes) scheme.removeEventListener("change", redraw);
      plot.destroy();
    },
  };
}

function dataOf({ minutes, values }: Curve): uPlot.AlignedData {
  return [minutes, values];
}

function optionsOf(place: HTMLElement, { kind, isLong, span }: Curve): uPlot.Options {
  const style = getComputedStyle(place);
  const ink = (): string => style.color;
  const line = (): string => style.outlineColor;
  const grid = { stroke: () => style.borderTopColor, width: 1 };
  const axis = { stroke: ink, font: `12px ${style.fontFamily}`, grid, ticks: { show: false } };
  const steps = uPlot.paths.stepped?.({ align: 1 });
  return {
    width: Math.max(place.clientWidth, 100),
    height: kHeight,
    legend: { show: false },
    cursor: { show: false },
    padding: [8, 12, 0, 0],
    scales: {
      x: { time: false, range: () => [-span, 0] },
      y: {
        range: (_plot, _least, most) =>
          [0, kind === "percent" ? 100 : Math.max(1, Math.ceil((most || 0) * 1.1))],
      },
    },
    axes: [
      {
        ...axis, size: 26,
        splits: (plot) => {
          const parts = plot.width < kNarrow ? 2 : 4;
          return Array.from({ length: parts + 1 }, (_, at) => (span * at) / parts - span);
        },
        values: (_plot, splits) => splits.map((minutes) => agoText(minutes, isLong)),
      },
      {
        ...axis, size: 40, space: 34,
        values: (_plot, splits) => splits.map((value) =>
          Number.isInteger(value) ? `${value}${kind === "percent" ? "%" : ""}` : ""),
      },
    ],
    series: [
      {},
      {
        stroke: line, width: 2, points: { show: false },
        ...(kind === "line" || !steps ? {} : { paths: steps }),
      },
    ],
  };
}

function agoText(minutes: number, isLong: boolean): string {
  if (minutes === 0) return "now";
  return isLong ? `−${-minutes / 60} h` : `−${-minutes} min`;
}
