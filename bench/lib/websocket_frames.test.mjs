// What the relay reads from passing bytes, however they are cut, and which rows count twice.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { RowCounter } from "./row_counter.mjs";
import {
  MessageReader, decodePrepareStage, decodePrepared, decodeStep,
} from "./websocket_frames.mjs";

const golden = (name) => Buffer.from(readFileSync(
  new URL(`../../tests/golden/${name}.hex`, import.meta.url), "utf8").replace(/\s/g, ""), "hex");

function frame(payload, { opcode = 2, final = true, mask = null } = {}) {
  const length = payload.length;
  const head = length < 126 ? Buffer.from([0, length])
    : length < 65536 ? Buffer.from([0, 126, length >> 8, length & 255])
      : Buffer.concat([Buffer.from([0, 127, 0, 0, 0, 0]), Buffer.alloc(4)]);
  if (length >= 65536) head.writeUInt32BE(length, 6);
  head[0] = (final ? 0x80 : 0) | opcode;
  if (!mask) return Buffer.concat([head, payload]);
  head[1] |= 0x80;
  return Buffer.concat([head, mask, payload.map((byte, i) => byte ^ mask[i & 3])]);
}

const kHead = Buffer.from("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n");

function messagesOf(bytes, pieceBytes) {
  const messages = [];
  const reader = new MessageReader((head) => head.includes("101"), (head) => messages.push(head));
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    reader.push(bytes.subarray(at, at + pieceBytes));
  }
  return messages;
}

test("messages are found in frames of every length, cut anywhere", () => {
  const payloads = [5, 125, 126, 300, 70_000].map((length, i) => Buffer.alloc(length, i + 1));
  const mask = Buffer.from([1, 2, 3, 4]);
  const bytes = Buffer.concat([
    kHead, ...payloads.map((payload, i) => frame(payload, { mask: i % 2 ? mask : null })),
  ]);
  for (const pieceBytes of [1, 7, 1000, bytes.length]) {
    const heads = messagesOf(bytes, pieceBytes);
    assert.deepEqual(heads.map((head) => head.length), [5, 125, 126, 256, 256]);
    heads.forEach((head, i) => assert.ok(head.equals(payloads[i].subarray(0, 256)), `${i}`));
  }
});

test("a message in several frames is one, also with a ping between them", () => {
  const bytes = Buffer.concat([kHead, frame(Buffer.from("ab"), { final: false }),
    frame(Buffer.from("ping"), { opcode: 9 }), frame(Buffer.from("cd"), { opcode: 0 }),
    frame(Buffer.from("ef"))]);
  assert.deepEqual(messagesOf(bytes, 3).map(String), ["abcd", "ef"]);
});

test("what is no HTTP is given up after 64 KiB, so that long streams cost no search", () => {
  let asked = 0;
  const reader = new MessageReader(() => ++asked, () => {});
  for (let i = 0; i < 3; ++i) reader.push(Buffer.alloc(30_000));
  reader.push(kHead);
  assert.equal(asked, 0);
});

test("what is not a WebSocket is not looked into", () => {
  const bytes = Buffer.concat([Buffer.from("HTTP/1.1 200 OK\r\n\r\n"), frame(Buffer.from("ab"))]);
  assert.deepEqual(messagesOf(bytes, 4), []);
});

test("the head of a step frame", () => {
  const { frames } = JSON.parse(readFileSync(
    new URL("../../tests/golden/frames.json", import.meta.url), "utf8"));
  const steps = frames.filter(({ type }) => type === "step");
  assert.ok(steps.some(({ runs }) => runs.length > 1));
  for (const { name, binding, stage, runs } of steps) {
    const step = decodeStep(golden(name));
    assert.deepEqual(step.runs, runs.map(({ session, first_position: first, count }) =>
      ({ session, first, count })), name);
    assert.deepEqual([step.binding, step.stage], [binding, stage], name);
  }
  assert.equal(decodeStep(golden("result_argmax")), null);
  assert.equal(decodeStep(Buffer.from("WEFT")), null);
});

test("PrepareStage and Prepared", () => {
  // ServerMessage.prepare_stage (5) = {binding (1): 300, stage (2): 1, layers (3): {2, 6}}
  const prepare = Buffer.from(
    [1, 0x2a, 11, 0x08, 0xac, 0x02, 0x10, 1, 0x1a, 4, 0x08, 2, 0x10, 6]);
  assert.deepEqual(decodePrepareStage(prepare), { binding: 300, first: 2, end: 6 });
  // The first layer is 0, which protobuf leaves out.
  const first = Buffer.from([1, 0x2a, 6, 0x08, 9, 0x1a, 2, 0x10, 6]);
  assert.deepEqual(decodePrepareStage(first), { binding: 9, first: 0, end: 6 });
  // WorkerMessage.prepared (5) = {binding: 9, weight_factor (2): 1.0, used_bytes (3): 5}
  const prepared = Buffer.from(
    [1, 0x2a, 13, 0x08, 9, 0x11, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0x18, 5]);
  assert.deepEqual(decodePrepared(prepared), { binding: 9 });
  const ping = Buffer.from([1, 0x52, 2, 0x08, 7]);
  assert.equal(decodePrepareStage(ping), null);
  assert.equal(decodePrepared(ping), null);
});

test("a row counts twice where its layer had computed its position before", () => {
  const counter = new RowCounter();
  counter.step({ first: 0, end: 4 }, [{ session: 1, first: 0, count: 10 }]);
  counter.step({ first: 4, end: 8 }, [{ session: 1, first: 0, count: 10 }]);
  counter.step({ first: 0, end: 4 }, [{ session: 1, first: 10, count: 1 }]);
  assert.deepEqual([counter.computed, counter.recomputed], [84, 0]);
  // Another worker takes layers 2 and 3 over: 11 positions, of which the last 2 come with new ones.
  counter.step({ first: 2, end: 4 }, [{ session: 1, first: 0, count: 9 }]);
  counter.step({ first: 2, end: 4 }, [{ session: 1, first: 9, count: 4 }]);
  assert.equal(counter.recomputed, 2 * 11);
  counter.newRequest();
  counter.step({ first: 0, end: 8 }, [{ session: 1, first: 4, count: 9 }]);
  assert.equal(counter.recomputed, 2 * 11);
});
