// "2 of 3" with a button to either side, where a message was edited or made again.
import type { VNode } from "preact";
import { IconButton } from "../elements/controls.tsx";
import type { Versions } from "./branches.ts";

export function VersionSwitch({ what, versions, onChoose }: {
  what: "question" | "answer";
  versions: Versions;
  onChoose: (messageId: string) => void;
}): VNode | null {
  const { index, ids } = versions;
  if (ids.length < 2) return null;
  const choose = (to: number): void => {
    const id = ids[to];
    if (id !== undefined) onChoose(id);
  };
  return (
    <span class="versions" role="group" aria-label={`Versions of the ${what}`}>
      <IconButton icon="back" label={`Earlier version of the ${what}`} disabled={index === 0}
        onClick={() => choose(index - 1)} />
      <span class="figure">{index + 1} of {ids.length}</span>
      <IconButton icon="forward" label={`Later version of the ${what}`}
        disabled={index === ids.length - 1} onClick={() => choose(index + 1)} />
    </span>
  );
}
