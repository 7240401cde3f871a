// Which positions each session has in each layer, and who may append where: the rules at the head
// of stageEngine.ts, the same as src/engine/kv_cache.h. Holds numbers only; an engine keeps the
// keys and values beside it.
//
// Every layer of a session has its own length and generation, so that a new plan can replay a
// session through layers that a worker gained while the others stay as they are. Layers without
// attention hold nothing that could be wrong: where a range has layers with KV, those decide; where
// it has none, a session that is unknown may begin anywhere.
import { EngineError } from "../base/error.ts";
import type { LayerRange, Run } from "./stageEngine.ts";

// Positions fit an f32 exactly, which is how rotary embedding uses them.
const kMaxPositions = 1 << 24;

interface LayerState {
  generation: number;
  length: number;
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
  readonly #hasKv = new Map<number, boolean>(); // by layer
  readonly #sessions = new Map<number, Map<number, LayerState>>();

  addLayer(layer: number, hasKv: boolean): void {
    this.#hasKv.set(layer, hasKv);
  }

  removeLayer(layer: number): void {
    this.#hasKv.delete(layer);
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
    const anyKv = this.#indices(layers).some((layer) => this.#hasKv.get(layer) === true);
    for (const layer of this.#indices(layers)) {
      const hasKv = this.#hasKv.get(layer) === true;
      if (anyKv && !hasKv) continue; // the layers with KV decide
      this.#checkLayer(layer, hasKv, run);
    }
  }

  #checkLayer(layer: number, hasKv: boolean, run: Run): void {
    const state = this.#sessions.get(run.session)?.get(layer);
    if (!state) {
      if (run.firstPosition === 0 || !hasKv) return;
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
      ? run.firstPosition <= state.length || !hasKv
      : run.firstPosition === state.length;
    if (fits) return;
    throw refused(
      run.session,
      `holds ${state.length} positions of layer ${layer} in generation ${state.generation}, so ` +
        `${describe(run)} cannot follow.`,
    );
  }

  // Records that the runs were computed. REQUIRES: check() passed.
  commit(layers: LayerRange, runs: readonly Run[]): void {
    for (const run of runs) {
      const session = this.#sessions.get(run.session) ?? new Map<number, LayerState>();
      this.#sessions.set(run.session, session);
      const state = { generation: run.generation, length: run.firstPosition + run.count };
      for (const layer of this.#indices(layers)) session.set(layer, { ...state });
    }
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
    }
  }

  // Session `to` begins as the first `positionCount` positions of `from`, generation 0.
  fork(from: number, to: number, positionCount: number): void {
    const layers = this.#require(from, "forked");
    if (this.#sessions.has(to)) {
      throw new EngineError(
        "already_exists",
        `Session ${to} exists already, so nothing can be forked into it.`,
      );
    }
    this.#requirePositions(from, layers, "forked at", positionCount);
    const copy = new Map<number, LayerState>();
    for (const [layer, state] of layers) {
      copy.set(layer, { generation: 0, length: Math.min(state.length, positionCount) });
    }
    this.#sessions.set(to, copy);
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

  // Positions that every layer with KV of the range (every layer, if none has) holds; 0 if unknown.
  length(session: number, layers: LayerRange): number {
    const known = this.#sessions.get(session);
    if (!known) return 0;
    const indices = this.#indices(layers);
    const withKv = indices.filter((layer) => this.#hasKv.get(layer) === true);
    const deciding = withKv.length > 0 ? withKv : indices;
    return Math.min(...deciding.map((layer) => known.get(layer)?.length ?? 0));
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
    if (position <= longest) return;
    throw refused(session, `cannot be ${verb} ${position} positions; it holds ${longest}.`);
  }

  #indices(layers: LayerRange): number[] {
    return Array.from({ length: layers.end - layers.first }, (_, i) => layers.first + i);
  }
}
