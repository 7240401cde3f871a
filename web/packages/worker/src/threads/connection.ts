// One connection: a socket, and the notice that nothing comes over it any more.
import { kTryElsewhere } from "./hostParts.ts";
import type { HostParts, Socket, SocketEvents } from "./hostParts.ts";
import { SilenceWatch } from "./silence.ts";
import type { Line } from "./tabWorker.ts";

export interface ConnectionEvents {
  readonly onOpen: () => void;
  readonly onMessage: (message: Uint8Array) => void;
  // It is over, with a sentence for people; one of these is called, once, and not after close().
  // `isUnexplained`: it never opened, and nobody knows why.
  readonly onEnd: (message: string, isUnexplained: boolean) => void;
  // The same where the server cannot lead now: the URL of one that can, or "".
  readonly onElsewhere: (url: string) => void;
  // The same where another attempt would end in the same way.
  readonly onRefused: (message: string) => void;
  // Whether the server waits for this side, and has nothing to say.
  readonly isExcused: () => boolean;
}

export class Connection implements Line {
  readonly #events: ConnectionEvents;
  readonly #silence: SilenceWatch;
  readonly #socket: Socket;
  #isOpen = false;
  #isOver = false;

  // `swarm`: that was helped last, in hex. A server of several models gives the same one again.
  constructor(
    parts: Pick<HostParts, "openSocket">,
    origin: string,
    swarm: string,
    events: ConnectionEvents,
  ) {
    this.#events = events;
    this.#silence = new SilenceWatch(
      () => events.isExcused(),
      (ms) => this.#end(`The server has not been heard for ${ms / 1000} s.`),
    );
    this.#silence.start();
    let everOpen = false;
    const query = swarm === "" ? "" : `?swarm=${swarm}`;
    this.#socket = socketTo(parts, `${origin.replace(/^http/, "ws")}/worker${query}`, {
      onOpen: () => {
        if (this.#isOver) return;
        this.#isOpen = everOpen = true;
        this.#silence.heard();
        events.onOpen();
      },
      onMessage: (message) => {
        if (this.#isOver) return; // what was on its way
        this.#silence.heard();
        events.onMessage(message);
      },
      onClose: (failure, frame) => {
        if (frame?.code === kTryElsewhere) return this.#goElsewhere(frame.reason);
        const known = failure?.message ?? "The server does not answer, or refuses this worker.";
        const message = everOpen ? "The connection to the server was lost." : known;
        if (failure?.isFinal === true && !everOpen) this.#refuse(message);
        else this.#end(message, !failure && !everOpen);
      },
    });
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  send(message: Uint8Array<ArrayBuffer>): void {
    if (this.#isOpen) this.#socket.send(message);
  }

  limitSilence(ms: number): void {
    this.#silence.limit(ms);
  }

  close(): void {
    this.#isOver = true;
    this.#isOpen = false;
    this.#silence.stop();
    this.#socket.close();
  }

  #end(message: string, isUnexplained = false): void {
    if (this.#isOver) return;
    this.close();
    this.#events.onEnd(message, isUnexplained);
  }

  #goElsewhere(url: string): void {
    if (this.#isOver) return;
    this.close();
    this.#events.onElsewhere(url);
  }

  #refuse(message: string): void {
    if (this.#isOver) return;
    this.close();
    this.#events.onRefused(message);
  }
}

// A socket that throws instead of closing (WebKit, for an address that a policy forbids) is one
// that closes at once.
function socketTo(
  parts: Pick<HostParts, "openSocket">,
  url: string,
  events: SocketEvents,
): Socket {
  try {
    return parts.openSocket(url, events);
  } catch (error) {
    const message = `This browser opens no connection to ${url}: ${String(error)}.`;
    queueMicrotask(() => events.onClose({ message, isFinal: false }));
    return { send: () => undefined, close: () => undefined };
  }
}
