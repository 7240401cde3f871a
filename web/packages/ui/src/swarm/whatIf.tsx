// "What if": what the swarm would do with one more device.
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { formatBytes, formatMemory, formatRate } from "../words/format.ts";
import { layersText } from "./layers.ts";

export interface PlanOutlook {
  runs: boolean;
  missingMemoryBytes: number;
  usPerToken: number; // predicted; 0: it does not run
}

export interface WhatIfAnswer {
  now: PlanOutlook;
  with: PlanOutlook & { firstLayer: number; endLayer: number }; // -1: the new device gets none
}

// Gives null for what is no answer of GET /api/swarm/what-if.
export function readWhatIf(json: unknown): WhatIfAnswer | null {
  if (typeof json !== "object" || json === null || !("now" in json && "with" in json)) return null;
  const [now, added] = [readOutlook(json.now), readOutlook(json.with)];
  if (!now || !added) return null;
  const layers = json.with as Partial<Record<string, unknown>>;
  const layer = (key: string): number => {
    const value = layers[key];
    return typeof value === "number" ? value : -1;
  };
  return {
    now, with: { ...added, firstLayer: layer("first_layer"), endLayer: layer("end_layer") },
  };
}

function readOutlook(value: unknown): PlanOutlook | null {
  if (typeof value !== "object" || value === null) return null;
  const outlook = value as Partial<Record<string, unknown>>;
  const number = (key: string): number => {
    const read = outlook[key];
    return typeof read === "number" && read > 0 ? read : 0;
  };
  return {
    runs: outlook["runs"] === true, missingMemoryBytes: number("missing_memory_bytes"),
    usPerToken: number("predicted_us_per_token"),
  };
}

// What would change, in sentences.
export function whatIfText({ now, with: added }: WhatIfAnswer, layerCount: number): string {
  if (!added.runs) {
    return added.missingMemoryBytes > 0
      ? `The model would still not run: ${formatBytes(added.missingMemoryBytes)} of memory ` +
        "would be missing."
      : "The model would still not run.";
  }
  const rate = (outlook: PlanOutlook): string => formatRate(1e6 / outlook.usPerToken, "tokens");
  const part = added.firstLayer >= 0 && added.endLayer > added.firstLayer
    ? ` It would run ${layersText(added.firstLayer, added.endLayer, layerCount)}.` : "";
  if (!now.runs) return `The model would run, at about ${rate(added)}.${part}`;
  if (part === "") {
    return "Nothing would get faster: a new device would stand by and take over when another " +
      "one goes.";
  }
  const isFaster = added.usPerToken < 0.98 * now.usPerToken;
  return isFaster
    ? `One answer would get faster: about ${rate(added)} instead of ${rate(now)}.${part}`
    : `One answer would be about as fast as now, ${rate(added)}.${part}`;
}

const kSizesGiB = [2, 4, 8, 16, 32, 64] as const;
const kGiB = 2 ** 30;

interface WhatIfFormProps {
  layerCount: number;
  // Rejects with an Error whose message is a sentence.
  ask: (memoryBytes: number) => Promise<WhatIfAnswer>;
}

export function WhatIfForm({ layerCount, ask }: WhatIfFormProps): VNode {
  const [sizeGiB, setSizeGiB] = useState<number>(8);
  const [words, setWords] = useState("");
  const [isAsking, setIsAsking] = useState(false);
  const find = async (): Promise<void> => {
    setIsAsking(true);
    try {
      setWords(whatIfText(await ask(sizeGiB * kGiB), layerCount));
    } catch (error) {
      setWords(error instanceof Error ? error.message : String(error));
    }
    setIsAsking(false);
  };
  return (
    <form class="what-if" onSubmit={(event) => {
      event.preventDefault();
      void find();
    }}>
      <label for="what-if-memory">A laptop that lends</label>
      <select id="what-if-memory" value={sizeGiB} onChange={(event) => {
        setSizeGiB(Number(event.currentTarget.value));
        setWords("");
      }}>
        {kSizesGiB.map((size) => (
          <option key={size} value={size}>{formatMemory(size * kGiB)}</option>
        ))}
      </select>
      <button type="submit" class="button" disabled={isAsking}>What would change?</button>
      <p role="status" class="what-if-answer">{words}</p>
    </form>
  );
}
