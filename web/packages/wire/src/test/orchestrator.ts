// The orchestrator's half of the control messages, for tests that play it.
import { create, fromBinary, fromJson, toBinary, toJson } from "@bufbuild/protobuf";
import type { JsonValue, MessageInitShape } from "@bufbuild/protobuf";

import { ServerMessageSchema, WorkerMessageSchema } from "../../gen/control_pb.ts";
import type { WorkerMessage } from "../../gen/control_pb.ts";
import { kControlByte } from "../version.ts";

export type { JsonValue, WorkerMessage };
export type ServerKind = NonNullable<MessageInitShape<typeof ServerMessageSchema>["kind"]>;

export function encodeServerMessage(kind: ServerKind): Uint8Array<ArrayBuffer> {
  const body = toBinary(ServerMessageSchema, create(ServerMessageSchema, { kind }));
  const message = new Uint8Array(1 + body.length);
  message[0] = kControlByte;
  message.set(body, 1);
  return message;
}

// From protobuf's JSON form. Throws for what is none.
export function serverMessageOf(json: JsonValue): Uint8Array<ArrayBuffer> {
  const body = toBinary(ServerMessageSchema, fromJson(ServerMessageSchema, json));
  return new Uint8Array([kControlByte, ...body]);
}

// To protobuf's JSON form.
export function workerJson(
  kind: NonNullable<MessageInitShape<typeof WorkerMessageSchema>["kind"]>,
): JsonValue {
  return toJson(WorkerMessageSchema, create(WorkerMessageSchema, { kind }));
}

// REQUIRES: bytes of encodeWorkerMessage.
export function decodeWorkerMessage(message: Uint8Array): WorkerMessage {
  return fromBinary(WorkerMessageSchema, message.subarray(1));
}
