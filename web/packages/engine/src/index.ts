// What every engine shares: the interface, its errors, the session rules, the choice of tokens.
export * from "./base/error.ts";
export * from "./base/half.ts";
export * from "./sampling/random.ts";
export * from "./sampling/parameters.ts";
export * from "./stage/selectRow.ts";
export * from "./sampling/selectTop.ts";
export * from "./sampling/tokenLogit.ts";
export * from "./stage/sessionTable.ts";
export * from "./stage/stageEngine.ts";
