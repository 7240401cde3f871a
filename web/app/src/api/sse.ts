// Server-sent events from a fetch: EventSource can send neither a body nor an Authorization header.
// Parsing follows the HTML standard, section 9.2.6.

export interface SseEvent {
  event: string; // "message" when the server names none
  data: string;
}

// More than any event of ours; a server that never ends a line must not eat the page's memory.
const kMostBufferedCharacters = 8 << 20;

export class SseParser {
  readonly #onComment: (text: string) => void;
  #buffer = "";
  #isStart = true;
  #event = "";
  #data: string[] = [];

  // `onComment` gets what the standard says to skip: the server's words about a wait.
  constructor(onComment: (text: string) => void = () => undefined) {
    this.#onComment = onComment;
  }

  // The events that `text` completes. Throws a RangeError when a line does not end.
  push(text: string): SseEvent[] {
    let added = text;
    if (this.#isStart && text !== "") {
      this.#isStart = false;
      if (added.startsWith("\uFEFF")) added = added.slice(1);
    }
    this.#buffer += added;
    const events: SseEvent[] = [];
    for (let line = this.#takeLine(); line !== null; line = this.#takeLine()) {
      const event = this.#readLine(line);
      if (event) events.push(event);
    }
    if (this.#buffer.length > kMostBufferedCharacters) {
      throw new RangeError(`The server sent a line of more than ${kMostBufferedCharacters} bytes.`);
    }
    return events;
  }

  // A line ends with \n, \r\n or \r; a \r at the end of the buffer may be half of \r\n.
  #takeLine(): string | null {
    const end = this.#buffer.search(/[\r\n]/);
    if (end < 0) return null;
    const isReturn = this.#buffer.charAt(end) === "\r";
    if (isReturn && end + 1 === this.#buffer.length) return null;
    const line = this.#buffer.slice(0, end);
    const width = isReturn && this.#buffer.charAt(end + 1) === "\n" ? 2 : 1;
    this.#buffer = this.#buffer.slice(end + width);
    return line;
  }

  #readLine(line: string): SseEvent | null {
    if (line === "") return this.#takeEvent();
    const colon = line.indexOf(":");
    if (colon === 0) {
      this.#onComment(line.slice(1).trim());
      return null;
    }
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    return null;
  }

  #takeEvent(): SseEvent | null {
    const event = this.#event || "message";
    const data = this.#data;
    this.#event = "";
    this.#data = [];
    return data.length === 0 ? null : { event, data: data.join("\n") };
  }
}

// The events of a response until it ends. Throws what the network throws.
export async function* readEvents(
  response: Response, onComment?: (text: string) => void,
): AsyncGenerator<SseEvent> {
  if (!response.body) return;
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const parser = new SseParser(onComment);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    // Nobody reads on: let the server know.
    reader.cancel().catch(() => undefined);
  }
}
