// Work that may come after the frame that shows an answer: colours of code, formulas, and what is
// out of view. It runs some milliseconds in each task, so that no click or frame waits for it.

const kTaskMs = 10;

type Work = () => void;

let waiting: Work[] = [];
// Unlike timers, messages to oneself come at once, in hidden tabs too.
let channel: MessageChannel | null = null;

// Behind what waits already, or before it. Returns what takes the work back.
export function afterFrame(work: Work, isNext = false): () => void {
  const mine = (): void => work(); // the same work may wait twice
  if (waiting.length === 0) wake();
  if (isNext) waiting.unshift(mine);
  else waiting.push(mine);
  return () => {
    waiting = waiting.filter((other) => other !== mine);
  };
}

function wake(): void {
  if (!channel) {
    channel = new MessageChannel();
    channel.port1.onmessage = runSome;
  }
  channel.port2.postMessage(null);
}

function runSome(): void {
  const endMs = performance.now() + kTaskMs;
  do waiting.shift()?.();
  while (waiting.length > 0 && performance.now() < endMs);
  if (waiting.length > 0) wake();
}
