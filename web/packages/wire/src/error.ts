// What a peer sent does not hold: a sentence naming the field, its value and what was expected.

// The names that control messages carry (ErrorCodeName of src/base/result.h).
export type ErrorCode =
  | "invalid_argument"
  | "invalid_data"
  | "unsupported"
  | "not_found"
  | "already_exists"
  | "out_of_memory"
  | "unavailable"
  | "timeout"
  | "cancelled"
  | "permission_denied"
  | "io";

export class WireError extends Error {
  readonly code: ErrorCode = "invalid_data";

  constructor(message: string) {
    super(message);
    this.name = "WireError";
  }
}
