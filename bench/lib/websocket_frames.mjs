// What the relay understands of the bytes that pass it: WebSocket framing (RFC 6455), the heads of
// step frames (src/wire/data_frame.h), PrepareStage and Prepared (src/wire/control.proto). It only
// watches: what it cannot read it ignores.

// As much of a message as is looked at: a head with some runs, a small control message.
const kHeadBytes = 256;

// What has no end of an HTTP head by then is no HTTP: it would be searched again at every piece.
const kLongestHead = 65536;

// Reads one direction of a connection from its first byte. onHttp(head) is told of the HTTP head;
// if that opens a WebSocket (onHttp returns true), onMessage(head) of the first bytes of every
// message behind it.
export class MessageReader {
  #pending = Buffer.alloc(0);
  #mode = "http";
  #skip = 0; // payload bytes of the current frame that are still to come
  #mask = null;
  #masked = 0; // payload bytes of the current frame that have been seen
  #final = true;
  #isData = false;
  #head = []; // bytes of the current message

  constructor(onHttp, onMessage) {
    this.onHttp = onHttp;
    this.onMessage = onMessage;
  }

  push(chunk) {
    if (this.#mode === "ignore") return;
    let bytes = this.#pending.length > 0 ? Buffer.concat([this.#pending, chunk]) : chunk;
    if (this.#mode === "http") {
      const end = bytes.indexOf("\r\n\r\n");
      if (end < 0 && bytes.length <= kLongestHead) {
        this.#pending = bytes;
        return;
      }
      const opened = end >= 0 && this.onHttp(bytes.toString("latin1", 0, end));
      this.#mode = opened ? "frames" : "ignore";
      if (this.#mode === "ignore") {
        this.#pending = Buffer.alloc(0);
        return;
      }
      bytes = bytes.subarray(end + 4);
    }
    this.#pending = Buffer.from(this.#readFrames(bytes));
  }

  // Gives back what is not yet a whole frame head.
  #readFrames(bytes) {
    for (;;) {
      if (this.#skip > 0) {
        const part = bytes.subarray(0, this.#skip);
        this.#take(part);
        bytes = bytes.subarray(part.length);
        if (this.#skip > 0) return bytes;
        this.#endOfFrame();
      }
      const length = headLength(bytes);
      if (length === null || bytes.length < length) return bytes;
      this.#begin(bytes.subarray(0, length));
      bytes = bytes.subarray(length);
      if (this.#skip === 0) this.#endOfFrame();
    }
  }

  #begin(head) {
    const opcode = head[0] & 0x0f;
    const short = head[1] & 0x7f;
    let at = 2;
    this.#skip = short;
    if (short === 126) {
      this.#skip = head.readUInt16BE(2);
      at = 4;
    } else if (short === 127) {
      this.#skip = Number(head.readBigUInt64BE(2));
      at = 10;
    }
    this.#mask = head[1] & 0x80 ? Buffer.from(head.subarray(at, at + 4)) : null;
    this.#masked = 0;
    this.#isData = opcode < 8; // ping, pong and close may stand between a message's frames
    if (this.#isData) this.#final = (head[0] & 0x80) !== 0;
  }

  #take(part) {
    if (this.#isData) {
      const wanted = Math.min(part.length, kHeadBytes - this.#head.length);
      for (let i = 0; i < wanted; ++i) {
        this.#head.push(this.#mask ? part[i] ^ this.#mask[(this.#masked + i) & 3] : part[i]);
      }
    }
    this.#masked += part.length;
    this.#skip -= part.length;
  }

  #endOfFrame() {
    if (!this.#isData || !this.#final) return;
    const head = Buffer.from(this.#head);
    this.#head = [];
    this.onMessage(head);
  }
}

// Bytes of a WebSocket frame's head; null while too few are there to tell.
function headLength(bytes) {
  if (bytes.length < 2) return null;
  const short = bytes[1] & 0x7f;
  return 2 + (short === 126 ? 2 : short === 127 ? 8 : 0) + (bytes[1] & 0x80 ? 4 : 0);
}

// {binding, stage, runs: [{session, first, count}]} of a step frame's head, else null. Runs
// beyond the bytes that were kept are left out.
export function decodeStep(head) {
  if (head.length < 40 || head.toString("latin1", 0, 4) !== "WEFT" || head[6] !== 1) return null;
  const runs = [];
  const count = head.readUInt16LE(22);
  for (let at = 40; runs.length < count && at + 16 <= head.length; at += 16) {
    runs.push({
      session: head.readUInt32LE(at),
      first: head.readUInt32LE(at + 8),
      count: head.readUInt16LE(at + 12),
    });
  }
  return { binding: head.readUInt32LE(16), stage: head.readUInt16LE(20), runs };
}

function varint(bytes, at) {
  let value = 0;
  for (let shift = 0; at < bytes.length; shift += 7) {
    const byte = bytes[at++];
    value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return { value, at };
  }
  return null;
}

// {field: value} of a protobuf message: numbers, or bytes as a Buffer. Repeated fields keep the
// last value, what is cut off is left out.
function protobufFields(bytes) {
  const fields = {};
  let at = 0;
  while (at < bytes.length) {
    const tag = varint(bytes, at);
    if (!tag) break;
    at = tag.at;
    const wire = tag.value & 7;
    const field = Math.floor(tag.value / 8);
    if (wire === 0 || wire === 2) {
      const number = varint(bytes, at);
      if (!number) break;
      at = number.at;
      fields[field] = number.value;
      if (wire === 2) {
        fields[field] = bytes.subarray(at, at + number.value);
        at += number.value;
      }
    } else if (wire === 1) at += 8;
    else if (wire === 5) at += 4;
    else break;
  }
  return fields;
}

// Control messages begin with 0x01; both kinds that are looked at are field 5 of their oneof.
function controlField(head, field) {
  if (head[0] !== 1) return null;
  const inner = protobufFields(head.subarray(1))[field];
  return inner instanceof Uint8Array ? protobufFields(inner) : null;
}

// {binding, first, end} of a PrepareStage, else null.
export function decodePrepareStage(head) {
  const fields = controlField(head, 5);
  if (!fields || !(fields[3] instanceof Uint8Array)) return null;
  const layers = protobufFields(fields[3]);
  return { binding: fields[1] ?? 0, first: layers[1] ?? 0, end: layers[2] ?? 0 };
}

// {binding} of a worker's Prepared, else null.
export function decodePrepared(head) {
  const fields = controlField(head, 5);
  return fields ? { binding: fields[1] ?? 0 } : null;
}
