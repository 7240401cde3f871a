// Failures of an engine: a sentence naming the value, the limit and what was expected.

// The names are those of src/base/result.h, as StepFailed and Failed carry them.
export type EngineErrorCode =
  | "invalid_argument"
  | "invalid_data"
  | "unsupported"
  | "not_found"
  | "already_exists"
  | "out_of_memory"
  | "unavailable"
  | "permission_denied"
  | "cancelled"
  | "io";

export class EngineError extends Error {
  readonly code: EngineErrorCode;

  constructor(code: EngineErrorCode, message: string) {
    super(message);
    this.name = "EngineError";
    this.code = code;
  }
}

// The GPU's driver does not take a kernel, nor a simpler one in its place: another engine may
// compute.
export class KernelRefusedError extends EngineError {
  constructor(kernel: string, why: string) {
    super("unavailable", `The GPU's driver refuses kernel '${kernel}': ${why}`);
    this.name = "KernelRefusedError";
  }
}
