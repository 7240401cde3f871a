// The wire as the rest of the web code sees it.
export * from "./control.ts";
export * from "./dataFrame.ts";
export * from "./dtype.ts";
export * from "./error.ts";
export * from "./expertFrame.ts";
export * from "./expertSets.ts";
export * from "./forkFrame.ts";
export * from "./integerRow.ts";
export * from "./wholeFrame.ts";
export * from "./probeRows.ts";
export * from "./version.ts";
