// Server-sent events from a fetch: EventSource can send neither a body nor an Authorization header.
// eventsource-parser reads them; what it holds of an event that does not end is bounded here.
import { createParser } from "eventsource-parser";
import type { EventSourceParser } from "eventsource-parser";

export interface SseEvent {
  event: string; // "message" when the server names none
  data: string;
}

// More than any event of ours; a server that never ends one must not eat the page's memory.
const kMostBufferedCharacters = 8 << 20;

export class SseParser {
  readonly #parser: EventSourceParser;
  readonly #events: SseEvent[] = [];
  #isTooLong = false;

  // `onComment` gets what the standard says to skip: the server's words about a wait.
  constructor(onComment: (text: string) => void = () => undefined) {
    this.#parser = createParser({
      maxBufferSize: kMostBufferedCharacters,
      onEvent: ({ event = "message", data }) => this.#events.push({ event, data }),
      onComment: (text) => onComment(text.trim()),
      onError: ({ type }) => {
        this.#isTooLong ||= type === "max-buffer-size-exceeded";
      },
    });
  }

  // The events that `text` completes. Throws a RangeError when an event does not end.
  push(text: string): SseEvent[] {
    this.#parser.feed(text);
    if (this.#isTooLong) {
      throw new RangeError(
        `The server sent an event of more than ${kMostBufferedCharacters} characters.`,
      );
    }
    return this.#events.splice(0);
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
