// What an Init must say before anything else is done about it.
import { kOldestProgramVersion, kProgramVersion } from "@weft/engine/program/ir.ts";
import { kOldestPackageFormat, kPackageFormat, kProtocolVersion } from "@weft/wire";
import type { Init } from "@weft/wire";

import type { Ending } from "./events.ts";

const kDigestBytes = 32;

// Null when this side reads the server's versions, and the package has a name.
export function problemOf(init: Init): Ending | null {
  const versions: [string, number, number, number][] = [
    ["protocol", init.protocolVersion, kProtocolVersion, kProtocolVersion],
    ["program", init.programVersion, kOldestProgramVersion, kProgramVersion],
    ["package format", init.packageFormat, kOldestPackageFormat, kPackageFormat],
  ];
  for (const [what, theirs, oldest, ours] of versions) {
    if (theirs >= oldest && theirs <= ours) continue;
    const message =
      `The server speaks ${what} version ${theirs}, this worker version ${ours}: ` +
      "reload the page, or update weft on " +
      (theirs > ours ? "this device." : "the server.");
    return { kind: "refused", message };
  }
  const { length } = init.packageDigest;
  if (length === kDigestBytes) return null;
  const message =
    `The server's package digest has ${length} bytes, expected ${kDigestBytes}.`;
  return { kind: "retry", message };
}

// The same for the package that it names, once its manifest is here.
export function packageProblemOf({ layerCount }: Init, layers: number): Ending | null {
  if (layers === layerCount) return null;
  const message = `The package has ${layers} layers, the server announced ${layerCount}.`;
  return { kind: "retry", message };
}
