// The body of an answer in pieces of the lengths that its reader asks for. Where the browser can,
// it fills them by itself ("byob"); else what comes is put together here, or handed on as it came.
//
//   what comes   [400 KiB][900 KiB][748 KiB]
//   next(1 MiB)  [       1 MiB][     1 MiB ]

// This is as much of the readers of ReadableStreams as is used.
export interface AnswerReader {
  read(): Promise<{ done: boolean; value?: Uint8Array | undefined }>;
  // Ends the request; nothing more is read.
  cancel(): Promise<void>;
}

export interface AnswerBody {
  getReader(): AnswerReader;
}

// Both reject as the reader does.
export interface Body {
  // So many bytes, which are the caller's; fewer at the end.
  next(byteCount: number): Promise<Uint8Array<ArrayBuffer>>;
  // Nothing more is read. Never rejects.
  end(): Promise<void>;
}

export function readBody(body: AnswerBody): Body {
  if (!(body instanceof ReadableStream)) return new GatheredBody(body.getReader());
  try {
    return new FilledBody(body.getReader({ mode: "byob" }));
  } catch {
    return new GatheredBody(body.getReader()); // it is no stream of bytes
  }
}

class FilledBody implements Body {
  readonly #reader: ReadableStreamBYOBReader;

  constructor(reader: ReadableStreamBYOBReader) {
    this.#reader = reader;
  }

  async next(byteCount: number): Promise<Uint8Array<ArrayBuffer>> {
    let buffer = new ArrayBuffer(byteCount);
    let filled = 0;
    while (filled < byteCount) {
      const { done, value } = await this.#reader.read(new Uint8Array(buffer, filled));
      if (value) {
        buffer = value.buffer; // the old one was taken away
        filled += value.length;
      }
      if (done) break;
    }
    return new Uint8Array(buffer, 0, filled);
  }

  async end(): Promise<void> {
    await this.#reader.cancel().catch(() => undefined);
  }
}

class GatheredBody implements Body {
  readonly #reader: AnswerReader;
  #rest = new Uint8Array(0); // of what came

  constructor(reader: AnswerReader) {
    this.#reader = reader;
  }

  async next(byteCount: number): Promise<Uint8Array<ArrayBuffer>> {
    let gathered: Uint8Array<ArrayBuffer> | null = null;
    let filled = 0;
    while (filled < byteCount) {
      if (this.#rest.length === 0) {
        const { done, value } = await this.#reader.read();
        if (done || !value) break;
        this.#rest = value as Uint8Array<ArrayBuffer>;
      }
      const part = this.#rest.subarray(0, byteCount - filled);
      this.#rest = this.#rest.subarray(part.length);
      if (part.length === byteCount) return part; // it came whole, and is nobody else's
      gathered ??= new Uint8Array(byteCount);
      gathered.set(part, filled);
      filled += part.length;
    }
    return gathered?.subarray(0, filled) ?? new Uint8Array(0);
  }

  async end(): Promise<void> {
    await this.#reader.cancel().catch(() => undefined);
  }
}
