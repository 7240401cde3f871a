// Which positions each session has in each layer, and who may append where: the rules at the head
// of stageEngine.ts, the same as src/engine/kv_cache.h. Holds numbers only; an engine keeps the
// keys and values beside it.
//
// Every layer of a session has its own length and generation, so that a new plan can replay a
// session through layers that a worker gained while the others stay as they are. Layers with
// neither attention nor recurrent state hold nothing that could be wrong: where a range has layers
// that do, those decide; where it has none, a session that is unknown may begin anywhere.
import { EngineError } from "../base/error.ts";
import { dropMarks, kMaxMarks } from "./marks.ts";
import { kNothingHeld } from "./stageEngine.ts";
import type { HeldSession, LayerRange, Run, SessionFork } from "./stageEngine.ts";

// Positions fit an f32 exactly, which is how rotary embedding uses them.
const kMaxPositions = 1 << 24;

interface LayerState {
  generation: number;
  length: number;
  marks: readonly number[]; // ascending; of layers with recurrent state
}

// What a layer holds for its sessions.
export interface LayerHolds {
  readonly kv: boolean;
  readonly state: boolean;
}

function describe(run: Run): string {
  return (
    `a run of ${run.count} rows at position ${run.firstPosition}, generation ${run.generation}`
  );
}

function refused(session: number, reason: string): EngineError {
  return new EngineError("invalid_argument", `Session ${session} ${reason}`);
}

export class SessionTable {
  readonly #holds = new Map<number, LayerHolds>(); // by layer
  readonly #sessions = new Map<number, Map<number, LayerState>>();

  addLayer(layer: number, holds: LayerHolds): void {
    this.#holds.set(layer, holds);
  }

  #holdsAny(layer: number): boolean {
    const holds = this.#holds.get(layer);
    return holds !== undefined && (holds.kv || holds.state);
  }

  #hasState(layer: number): boolean {
    return this.#holds.get(layer)?.state === true;
  }

  removeLayer(layer: number): void {
    this.#holds.delete(layer);
    for (const [session, layers] of this.#sessions) {
      layers.delete(layer);
      if (layers.size === 0) this.#sessions.delete(session);
    }
  }

  // Throws unless every run may append in all layers of the range, which are all added.
  check(layers: LayerRange, runs: readonly Run[]): void {
    for (const run of runs) this.#checkRun(layers, run);
  }

  #checkRun(layers: LayerRange, run: Run): void {
    const fits = run.count >= 1 && run.firstPosition + run.count <= kMaxPositions;
    if (!fits) {
      throw refused(
        run.session,
        `was given ${describe(run)}; expected 1 or more rows below position ${kMaxPositions}.`,
      );
    }
    if ((run.marks ?? 0) > kMaxMarks) {
      throw refused(
        run.session,
        `was asked to hold ${run.marks} marks; expected at most ${kMaxMarks}.`,
      );
    }
    const anyHolds = this.#indices(layers).some((layer) => this.#holdsAny(layer));
    for (const layer of this.#indices(layers)) {
      const holds = this.#holdsAny(layer);
      if (anyHolds && !holds) continue; // the layers that hold something decide
      this.#checkLayer(layer, holds, run);
    }
  }

  #checkLayer(layer: number, holds: boolean, run: Run): void {
    const state = this.#sessions.get(run.session)?.get(layer);
    if (!state) {
      if (run.firstPosition === 0 || !holds) return;
      throw refused(
        run.session,
        `is unknown in layer ${layer}, so ${describe(run)} cannot follow; it must begin at ` +
          `position 0.`,
      );
    }
    if (run.generation < state.generation) {
      throw refused(
        run.session,
        `was given ${describe(run)}, but layer ${layer} is in generation ${state.generation}.`,
      );
    }
    const mayTruncate = run.generation > state.generation;
    const fits = mayTruncate
      ? run.firstPosition <= state.length || !holds
      : run.firstPosition === state.length;
    if (!fits) {
      throw refused(
        run.session,
        `holds ${state.length} positions of layer ${layer} in generation ${state.generation}, so ` +
          `${describe(run)} cannot follow.`,
      );
    }
    const missing = this.#missingState(layer, state, run.firstPosition);
    if (missing) throw refused(run.session, `${missing}, so ${describe(run)} cannot follow.`);
  }

  // Why the layer cannot be cut back to `position`; "" when it can.
  #missingState(layer: number, state: LayerState, position: number): string {
    if (!this.#hasState(layer) || position === 0 || position >= state.length) return "";
    if (state.marks.includes(position)) return "";
    const marks = state.marks.length > 0 ? `the marks ${state.marks.join(" ")}` : "no mark";
    return (
      `holds the recurrent state of layer ${layer} at position ${state.length} and at ${marks}, ` +
      `not at ${position}`
    );
  }

  // Records that the runs were computed. REQUIRES: check() passed. Returns what takes that back, as
  // long as nothing else has changed these sessions, or has been taken back.
  commit(layers: LayerRange, runs: readonly Run[]): () => void {
    const before = runs.map(({ session }) => [session, this.#sessions.get(session)] as const);
    for (const run of runs) {
      const session = new Map(this.#sessions.get(run.session));
      this.#sessions.set(run.session, session);
      const length = run.firstPosition + run.count;
      for (const layer of this.#indices(layers)) {
        const kept = session.get(layer)?.marks.filter((mark) => mark <= run.firstPosition) ?? [];
        const marks = this.#hasState(layer) && run.marks ? [...kept, length] : kept;
        if (run.marks) dropMarks(marks, run.marks);
        session.set(layer, { generation: run.generation, length, marks });
      }
    }
    return () => {
      for (const [session, layersBefore] of before) {
        if (layersBefore) this.#sessions.set(session, layersBefore);
        else this.#sessions.delete(session);
      }
    };
  }

  // Forgets positions >= `position` in every layer.
  truncate(session: number, generation: number, position: number): void {
    const layers = this.#require(session, "truncated");
    for (const state of layers.values()) {
      if (generation > state.generation) continue;
      throw refused(
        session,
        `cannot be truncated in generation ${generation}; a truncation must raise the ` +
          `generation, which is ${state.generation}.`,
      );
    }
    this.#requirePositions(session, layers, "truncated to", position);
    for (const state of layers.values()) {
      state.generation = generation;
      state.length = Math.min(state.length, position);
      state.marks = state.marks.filter((mark) => mark <= position);
    }
  }

  // Throws unless the fork may be made in all layers of the range, which are all added.
  checkFork(layers: LayerRange, fork: SessionFork): void {
    const { from, to, generation, positionCount } = fork;
    if (from === to || positionCount < 1) {
      throw refused(
        from,
        `cannot be forked at position ${positionCount} into session ${to}; expected another ` +
          `session and at least 1 position.`,
      );
    }
    const what = `so it cannot be forked at position ${positionCount} into session ${to}.`;
    for (const layer of this.#deciding(layers)) {
      const state = this.#sessions.get(from)?.get(layer);
      if (!state || state.length < positionCount) {
        throw refused(
          from,
          `holds ${state?.length ?? 0} positions of layer ${layer}, ${what}`,
        );
      }
      const missing = this.#missingState(layer, state, positionCount);
      if (missing) throw refused(from, `${missing}, ${what}`);
      const old = this.#sessions.get(to)?.get(layer);
      if (!old || generation > old.generation) continue;
      throw refused(
        to,
        `is in generation ${old.generation} of layer ${layer}, so a fork in generation ` +
          `${generation} cannot take its place.`,
      );
    }
  }

  // Records that it was made. REQUIRES: checkFork() passed.
  fork(layers: LayerRange, { from, to, generation, positionCount }: SessionFork): void {
    const session = this.#sessions.get(to) ?? new Map<number, LayerState>();
    this.#sessions.set(to, session);
    // Layers that hold nothing take whatever comes from a session that they do not know.
    for (const layer of this.#indices(layers)) session.delete(layer);
    for (const layer of this.#deciding(layers)) {
      const held = this.#sessions.get(from)!.get(layer)!.marks;
      const marks = held.filter((mark) => mark <= positionCount);
      session.set(layer, { generation, length: positionCount, marks });
    }
  }

  // Positions of one layer; 0 when unknown.
  layerLength(session: number, layer: number): number {
    return this.#sessions.get(session)?.get(layer)?.length ?? 0;
  }

  release(session: number): void {
    this.#sessions.delete(session);
  }

  releaseAll(): void {
    this.#sessions.clear();
  }

  // Layers that hold nothing do not count, unless all of them are such.
  held(session: number, layers: LayerRange): HeldSession {
    const known = this.#sessions.get(session);
    const deciding = this.#deciding(layers);
    const states = deciding.flatMap((layer) => known?.get(layer) ?? []);
    const positions = Math.min(...states.map(({ length }) => length));
    if (states.length < deciding.length || states.length === 0 || positions === 0)
      return kNothingHeld;
    const { generation } = states[0]!;
    const marked = states.filter((_, i) => this.#hasState(deciding[i]!));
    return {
      generation: states.every((each) => each.generation === generation) ? generation : 0,
      positions,
      marks: (marked[0]?.marks ?? []).filter((mark) =>
        marked.every(({ marks }) => marks.includes(mark))),
    };
  }

  #require(session: number, verb: string): Map<number, LayerState> {
    const layers = this.#sessions.get(session);
    if (layers) return layers;
    throw new EngineError(
      "not_found",
      `Session ${session} is unknown, so it cannot be ${verb}.`,
    );
  }

  #requirePositions(
    session: number,
    layers: Map<number, LayerState>,
    verb: string,
    position: number,
  ): void {
    const longest = Math.max(0, ...[...layers.values()].map((state) => state.length));
    if (position > longest) {
      throw refused(session, `cannot be ${verb} ${position} positions; it holds ${longest}.`);
    }
    for (const [layer, state] of layers) {
      const missing = this.#missingState(layer, state, position);
      if (missing) throw refused(session, `${missing}, so it cannot be ${verb} it.`);
    }
  }

  // The layers that decide what may follow: those that hold something, all where none does.
  #deciding(layers: LayerRange): number[] {
    const indices = this.#indices(layers);
    const holding = indices.filter((layer) => this.#holdsAny(layer));
    return holding.length > 0 ? holding : indices;
  }

  #indices(layers: LayerRange): number[] {
    return Array.from({ length: layers.end - layers.first }, (_, i) => layers.first + i);
  }
}
