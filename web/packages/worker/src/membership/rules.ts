// What is the same for every worker of a tab.
import type { ServerMessage } from "@weft/wire";

import type { Work } from "./events.ts";

export const kMaxMeasureRuns = 64;
// Work that takes its time: where tokens are made they have their turn behind it.
export const kLong: readonly Work["kind"][] =
  ["runStep", "installLayers", "installExperts", "measureSpeed"];
// Bytes of a pong, whatever a ping asks for.
export const kMostPadding = 32 * 1024;
// Of no use to a worker that goes.
export const kLoading: readonly ServerMessage["kind"]["case"][] =
  ["downloadLayers", "measureSpeed", "prepareStage", "holdExperts"];
