// What every engine shares: the interface, its errors, the session rules, the choice of tokens.
export * from "./error.ts";
export * from "./half.ts";
export * from "./sampling/random.ts";
export * from "./sampling/parameters.ts";
export * from "./sampling/selectRow.ts";
export * from "./sampling/selectTop.ts";
export * from "./sampling/tokenLogit.ts";
export * from "./sessionTable.ts";
export * from "./stageEngine.ts";
