// Three curves over the last hour or day. What draws them is loaded when they are first shown.
import { signal } from "@preact/signals";
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import {
  availabilityText, devicesText, minutesOf, spanMinutes, tokensText,
} from "./history.ts";
import type { HistoryLevel, SwarmHistory } from "./history.ts";
import type { Curve, drawCurve } from "./drawCurve.ts";

type Draw = typeof drawCurve;

const drawer = signal<Draw | null>(null);

async function loadDrawer(): Promise<void> {
  try {
    drawer.value = (await import("./drawCurve.ts")).drawCurve;
  } catch {
    // The server is gone: the sentences stand without curves.
  }
}

const kSpans = { hour: "Last hour", day: "Last day" } as const;
type Span = keyof typeof kSpans;

export function HistoryCharts({ history }: { history: SwarmHistory }): VNode {
  const [span, setSpan] = useState<Span>("hour");
  useEffect(() => void loadDrawer(), []);
  const level = history[span];
  const isLong = span === "day";
  return (
    <>
      <fieldset class="segments">
        <legend class="visually-hidden">How far back</legend>
        {(Object.keys(kSpans) as Span[]).map((one) => (
          <label key={one}>
            <input type="radio" name="history-span" checked={span === one}
              onChange={() => setSpan(one)} />
            <span>{kSpans[one]}</span>
          </label>
        ))}
      </fieldset>
      <div class="history-charts">
        <Chart name="Tokens per second" text={tokensText(level)} level={level}
          values={level.tokensPerSecond} kind="line" isLong={isLong} />
        <Chart name="Devices" text={devicesText(level)} level={level} values={level.devices}
          kind="steps" isLong={isLong} />
        <Chart name="Availability" text={availabilityText(level)} level={level}
          values={level.up.map((share) => share === null ? null : 100 * share)} kind="percent"
          isLong={isLong} />
      </div>
    </>
  );
}

interface ChartProps {
  name: string;
  text: string;
  level: HistoryLevel;
  values: (number | null)[];
  kind: Curve["kind"];
  isLong: boolean;
}

function Chart({ name, text, level, values, kind, isLong }: ChartProps): VNode {
  const place = useRef<HTMLDivElement>(null);
  const drawn = useRef<ReturnType<Draw> | null>(null);
  const draw = drawer.value;
  const span = spanMinutes(level, isLong);
  const curve: Curve = { minutes: minutesOf(level), values, kind, isLong, span };
  useEffect(() => {
    if (!draw || !place.current) return undefined;
    drawn.current = draw(place.current, curve);
    return () => {
      drawn.current?.end();
      drawn.current = null;
    };
  }, [draw, kind, isLong, span]);
  useEffect(() => drawn.current?.show(curve), [values]);
  return (
    <section class="history-chart" aria-label={name}>
      <h3>{name}</h3>
      <p class="muted">{text}</p>
      <div class="history-canvas" aria-hidden="true" ref={place} />
    </section>
  );
}
