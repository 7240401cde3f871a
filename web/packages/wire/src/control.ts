// Control messages: one protobuf message behind the byte 0x01 in one WebSocket message.
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";

import { ServerMessageSchema, WorkerMessageSchema } from "../gen/control_pb.ts";
import type { ServerMessage } from "../gen/control_pb.ts";
import { WireError } from "./error.ts";
import { kControlByte } from "./version.ts";

export type {
  Connect,
  HoldExperts,
  Init,
  MeasureSpeed,
  Ping,
  PrepareStage,
  Refused,
  Retire,
  Sampling,
} from "../gen/control_pb.ts";
export type { ServerMessage };

type WorkerKind = NonNullable<MessageInitShape<typeof WorkerMessageSchema>["kind"]>;

function bodyOf(message: Uint8Array): Uint8Array {
  if (message[0] !== kControlByte) {
    throw new WireError(
      `A control message begins with byte ${message[0] ?? "none"}, expected ${kControlByte}.`,
    );
  }
  return message.subarray(1);
}

export function encodeWorkerMessage(kind: WorkerKind): Uint8Array<ArrayBuffer> {
  const body = toBinary(WorkerMessageSchema, create(WorkerMessageSchema, { kind }));
  const message = new Uint8Array(1 + body.length);
  message[0] = kControlByte;
  message.set(body, 1);
  return message;
}

// Throws WireError for bytes that are no such message. A kind that this side does not know has
// `kind.case` undefined.
export function decodeServerMessage(message: Uint8Array): ServerMessage {
  const body = bodyOf(message);
  try {
    return fromBinary(ServerMessageSchema, body);
  } catch {
    throw new WireError(`A control message of ${message.length} bytes cannot be parsed.`);
  }
}
