// What devices that are broken, or lie, say in the place of what an honest worker says: for a
// proxy's `rewrite`. Messages are those of docs/protocol.md.

const kControl = 0x01; // first byte of control messages
const kMeasured = 4, kStepFailed = 8; // fields of WorkerMessage
const kResult = 2; // FrameType

const isResult = (message) =>
  message.length >= 40 && message.toString("latin1", 0, 4) === "WEFT" && message[6] === kResult;

// A step that failed because its numbers are not finite, in the place of every answer.
export function failing(message) {
  if (!isResult(message)) return message;
  const failed = Buffer.concat([
    numberField(1, message.readUInt32LE(12)), numberField(2, message.readUInt32LE(16)),
    numberField(3, message.readUInt16LE(20)), bytesField(4, Buffer.from("invalid_data")),
    bytesField(5, Buffer.from("Layer 3 gave 7 values that are not finite.")),
  ]);
  return Buffer.concat([Buffer.from([kControl]), bytesField(kStepFailed, failed)]);
}

// Rows whose last value is no number.
export function notFinite(message) {
  const rowColumns = isResult(message) ? message.readUInt32LE(28) : 0;
  if (rowColumns > 0) message.writeUInt16LE(0x7fff, message.length - 2);
  return message;
}

// Every step and every measured run takes 2 us.
function fast(message) {
  if (isResult(message)) message.writeUInt32LE(2, 36);
  return inMeasured(message, (field) =>
    field.number === 1 ? changed(field, (each) =>
      each.number === 2 ? { ...each, bytes: Buffer.alloc(each.bytes.length > 0 ? 7 : 0, 2) } : each)
      : field);
}

// Rows that were not computed, where it is asked for some that are compared.
export function wrongRows(message) {
  return inMeasured(message, (field) =>
    field.number === 2 ? changed(field, (each) => ({ ...each, bytes: each.bytes.map(() => 0) }))
      : field);
}

// Both: it has no weights.
export function withoutWeights(message) {
  return wrongRows(fast(message));
}

function inMeasured(message, change) {
  if (message[0] !== kControl) return message;
  const fields = readFields(message.subarray(1)).map((field) =>
    field.number === kMeasured ? changed(field, change) : field);
  return Buffer.concat([Buffer.from([kControl]), writeFields(fields)]);
}

// ---- protobuf: fields of numbers and of bytes

function changed(field, change) {
  return { ...field, bytes: writeFields(readFields(field.bytes).map(change)) };
}

function varint(number) {
  const bytes = [];
  for (let rest = number; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest % 128) | 128);
  }
}

const numberField = (number, value) => Buffer.concat([varint(number * 8), varint(value)]);
const bytesField = (number, bytes) =>
  Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);

// Fields of bytes with what is in them, all others as they stand.
function readFields(bytes) {
  const fields = [];
  let at = 0;
  const number = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const begin = at;
    const tag = number();
    const type = tag % 8;
    if (type === 2) {
      const length = number();
      fields.push({ number: Math.floor(tag / 8), bytes: bytes.subarray(at, at + length) });
      at += length;
      continue;
    }
    if (type === 0) number();
    else at += type === 1 ? 8 : 4;
    fields.push({ number: Math.floor(tag / 8), asItStands: bytes.subarray(begin, at) });
  }
  return fields;
}

function writeFields(fields) {
  return Buffer.concat(fields.map(({ number, bytes, asItStands }) =>
    asItStands ?? bytesField(number, bytes)));
}
