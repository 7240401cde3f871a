// What every engine shares: the interface, its errors, the session rules, the choice of tokens.
export * from "./error.ts";
export * from "./half.ts";
export * from "./random.ts";
export * from "./sampling.ts";
export * from "./select.ts";
export * from "./sessionTable.ts";
export * from "./stageEngine.ts";
