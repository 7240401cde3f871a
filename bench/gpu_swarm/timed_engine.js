// A GPU that takes time and computes nothing: what is left of a swarm's figures is the server, the
// line, JavaScript and how conversations are placed, on a machine without a GPU. Its times are
// those of an NVIDIA H200 with 1.7B in q4; token ids count up.
//
//   rows of a step, one of each conversation    1     2    4    8     16   32
//   ms, all layers                              1.46  2.2  2.7  3.56  4.8  7.5
//   a step of a prompt                          9 ms, and 0.1 for each row
//
// It works as the real engine does: steps and batches of tokens one after the other, the next one
// handed over while one runs (docs/webgpu.md).
const kPoints = [[1, 1.46], [2, 2.2], [4, 2.7], [8, 3.56], [16, 4.8], [32, 7.5]];
const kStepMs = 0.3; // of each step, whatever layers it runs
const kPromptMs = 9;
const kPromptRowMs = 0.1;
const kBatchTokens = 512;
const kFirstToken = 300; // whatever it stands for, it is no special token of our models
const kTokens = 90;

function togetherMs(rows) {
  const at = kPoints.findIndex(([most]) => rows <= most);
  if (at < 0) return (rows * kPoints.at(-1)[1]) / kPoints.at(-1)[0];
  if (at === 0) return kPoints[0][1];
  const [[fromRows, fromMs], [toRows, toMs]] = [kPoints[at - 1], kPoints[at]];
  return fromMs + ((rows - fromRows) / (toRows - fromRows)) * (toMs - fromMs);
}

const tokenAt = (position) => kFirstToken + (position % kTokens);

export class TimedEngine {
  name = "webgpu";
  kvFactor = 1;
  copiesKv = false;
  packs = null;
  #layerCount;
  #columns;
  #layers = new Set();
  #lengths = new Map(); // of sessions, in all layers alike
  #freeAt = 0; // when the GPU has done all that it was given
  #last = Promise.resolve();

  constructor({ layers, hiddenColumns }) {
    this.#layerCount = layers.length;
    this.#columns = hiddenColumns;
  }

  async #busy(ms) {
    const now = performance.now();
    this.#freeAt = Math.max(now, this.#freeAt) + ms;
    const leftMs = this.#freeAt - now;
    if (leftMs > 0) await new Promise((resolve) => setTimeout(resolve, leftMs));
  }

  async load({ first, end }, source) {
    for (let layer = first; layer < end; ++layer) {
      if (this.#layers.has(layer)) continue;
      this.#layers.add(layer);
      await source.loaded(layer);
    }
  }

  async unload({ first, end }) {
    for (let layer = first; layer < end; ++layer) this.#layers.delete(layer);
  }

  isLoaded({ first, end }) {
    for (let layer = first; layer < end; ++layer) if (!this.#layers.has(layer)) return false;
    return true;
  }

  async step({ layers, runs }) {
    const rows = runs.reduce((sum, { count }) => sum + count, 0);
    const decodes = runs.every(({ count }) => count === 1);
    const allMs = decodes ? togetherMs(rows) : kPromptMs + kPromptRowMs * rows;
    const share = (layers.end - layers.first) / this.#layerCount;
    const before = this.#last;
    const done = this.#busy(kStepMs + share * Math.max(0, allMs - kStepMs));
    this.#last = before.then(() => done);
    await this.#last;
    for (const { session, firstPosition, count } of runs) {
      this.#lengths.set(session, firstPosition + count);
    }
    const kindOf = ({ output }) => output.kind;
    const given = runs.filter((run) => kindOf(run) === "hidden");
    const hiddenRows = given.reduce((sum, { count }) => sum + count, 0);
    const selections = runs.filter((run) => !["none", "hidden"].includes(kindOf(run)))
      .map(({ firstPosition, count }) => {
        const tokenId = tokenAt(firstPosition + count);
        return { candidates: [{ tokenId, logit: 1 }, { tokenId: 0, logit: 0 }], logsumexp: 2 };
      });
    return { hidden: new Float32Array(hiddenRows * this.#columns), selections,
      logits: new Float32Array(0) };
  }

  async generateAll(_layers, source) {
    let seated = [];
    const pending = [];
    let since = performance.now();
    for (let count = 0; ; ++count) {
      const goesOn = count === 0 || !source.pauses();
      if (goesOn) {
        for (const request of source.take()) seated.push({ request, submitted: 0, told: 0 });
      }
      const ready = goesOn ? seated.filter((it) => it.submitted < it.request.count) : [];
      if (ready.length > 0) pending.push(this.#submit(ready));
      const [oldest] = pending;
      if (!oldest) return;
      if (pending.length <= (ready.length > 0 ? 1 : 0)) continue;
      pending.shift();
      await oldest.done;
      const ms = performance.now() - since;
      since = performance.now();
      const told = oldest.batch.filter((it) => seated.includes(it));
      const over = told.filter((it) => this.#tell(it, oldest.steps, ms));
      seated = seated.filter((it) => !over.includes(it));
    }
  }

  // As many steps as the real one takes at once: few of who has just come.
  #submit(batch) {
    const steps = Math.min(
      Math.floor(kBatchTokens / batch.length),
      ...batch.map(({ request, submitted }) =>
        Math.min(request.interval, Math.max(1, submitted), request.count - submitted)),
    );
    for (const each of batch) each.submitted += steps;
    return { batch, steps, done: this.#busy(steps * togetherMs(batch.length)) };
  }

  // Whether it was the last of it.
  #tell(each, steps, ms) {
    const { session, firstPosition, count, onTokens } = each.request;
    const from = firstPosition + each.told + 1;
    each.told += steps;
    this.#lengths.set(session, firstPosition + each.told);
    const isLast = each.told === count;
    const tokens = Array.from({ length: steps }, (_, i) => tokenAt(from + i));
    const isWanted = onTokens(tokens, isLast, ms);
    return isLast || !isWanted;
  }

  async fork(_layers, { to, positionCount }) {
    this.#lengths.set(to, positionCount);
  }

  release(session) {
    this.#lengths.delete(session);
  }

  releaseAll() {
    this.#lengths.clear();
  }

  sessionLength(session) {
    return this.#lengths.get(session) ?? 0;
  }

  memory() {
    return { weightBytes: 1e6 * this.#layers.size, kvBytes: 0, scratchBytes: 0 };
  }

  async dispose() {}
}
