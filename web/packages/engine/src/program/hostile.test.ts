// Inputs of the fuzzer of the C++ decoder: whatever the bytes are, a program is read and valid, or
// refused with an EngineError.
import { expect, it } from "vitest";

import { corpusOf, hostileForms } from "../../../wire/src/test/corpus.ts";
import { EngineError } from "../base/error.ts";
import { decodeProgram } from "./decode.ts";
import { validate } from "./validate.ts";

it.each([...corpusOf("program_fuzz")])("hostile forms of %s are read or refused", (_, bytes) => {
  expect(() => decodeProgram(bytes)).not.toThrow();
  for (const form of hostileForms(bytes, 150)) {
    try {
      validate(decodeProgram(form));
    } catch (error) {
      if (!(error instanceof EngineError)) throw error;
    }
  }
});
