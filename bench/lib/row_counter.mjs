// How many rows of a request were computed twice: a layer that is asked for a position that it, on
// whatever worker, has computed before recomputes it.

export class RowCounter {
  #seen = new Map(); // session -> positions that each layer has computed
  computed = 0; // rows x layers
  recomputed = 0;

  // Positions of a session begin anew with every request.
  newRequest() {
    this.#seen.clear();
  }

  step({ first: firstLayer, end }, runs) {
    for (const { session, first, count } of runs) {
      const seen = this.#seen.get(session) ?? [];
      this.#seen.set(session, seen);
      for (let layer = firstLayer; layer < end; ++layer) {
        const known = seen[layer] ?? 0;
        this.computed += count;
        this.recomputed += Math.max(0, Math.min(first + count, known) - first);
        seen[layer] = Math.max(known, first + count);
      }
    }
  }
}
