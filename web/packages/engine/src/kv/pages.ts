// Which pages hold which positions of which session: numbers only. A page number names the same
// slot in the pool of every layer. Forked sessions share pages; who appends to a shared one gets a
// copy first.
export const kPagePositions = 32;

export interface PageCopy {
  readonly from: number;
  readonly to: number;
}

// Pages that an append needs, reserved. The caller copies and submits its work; then the append may
// count, so that another one can follow. In the end the caller keeps it, or drops it: appends to a
// session that came later are dropped before.
export interface Append {
  readonly pages: ReadonlyMap<number, readonly number[]>; // session -> its pages afterwards
  readonly copies: readonly PageCopy[];
  count(): void; // the sessions have these pages, which drop() still takes back
  keep(): void;
  drop(): void;
}

export class Pages {
  #capacity = 0;
  #free: number[] = [];
  readonly #uses: number[] = [];
  readonly #sessions = new Map<number, number[]>();

  get capacity(): number {
    return this.#capacity;
  }

  of(session: number): readonly number[] {
    return this.#sessions.get(session) ?? [];
  }

  grow(capacity: number): void {
    const added: number[] = [];
    for (let page = this.#capacity; page < capacity; ++page) {
      added.push(page);
      this.#uses[page] = 0;
    }
    this.#free = [...added.reverse(), ...this.#free]; // low numbers are taken first
    this.#capacity = Math.max(capacity, this.#capacity);
  }

  // Pages that an append of these runs takes beyond the free ones.
  missing(runs: readonly { session: number; firstPosition: number; count: number }[]): number {
    let needed = 0;
    for (const run of runs) needed += this.#pagesFor(run).filter(({ isNew }) => isNew).length;
    return Math.max(0, needed - this.#free.length);
  }

  // The pages of the run from its first position on, and whether new ones must be taken for them.
  #pagesFor(run: {
    session: number;
    firstPosition: number;
    count: number;
  }): { index: number; isNew: boolean; copyOf: number }[] {
    const held = this.of(run.session);
    const first = Math.floor(run.firstPosition / kPagePositions);
    const end = Math.ceil((run.firstPosition + run.count) / kPagePositions);
    const touched: { index: number; isNew: boolean; copyOf: number }[] = [];
    for (let index = first; index < end; ++index) {
      const page = held[index];
      const isShared = page !== undefined && this.#uses[page]! > 1;
      touched.push({ index, isNew: page === undefined || isShared, copyOf: page ?? -1 });
    }
    return touched;
  }

  // REQUIRES: missing(runs) is 0, each session at most once.
  begin(runs: readonly { session: number; firstPosition: number; count: number }[]): Append {
    const pages = new Map<number, number[]>();
    const copies: PageCopy[] = [];
    const taken: number[] = [];
    const replaced: number[] = [];
    for (const run of runs) {
      const after = [...this.of(run.session)];
      for (const { index, isNew, copyOf } of this.#pagesFor(run)) {
        if (!isNew) continue;
        const page = this.#free.pop()!;
        this.#uses[page] = 1;
        taken.push(page);
        if (copyOf >= 0) {
          copies.push({ from: copyOf, to: page });
          replaced.push(copyOf);
        }
        after[index] = page;
      }
      pages.set(run.session, after);
    }
    let before: (readonly [number, number[] | undefined])[] | null = null;
    const count = (): void => {
      before ??= runs.map(({ session }) => [session, this.#sessions.get(session)]);
      for (const [session, list] of pages) this.#sessions.set(session, list);
    };
    return {
      pages,
      copies,
      count,
      keep: () => {
        if (!before) count();
        for (const page of replaced) this.#drop(page);
      },
      drop: () => {
        for (const [session, list] of before ?? []) {
          if (list) this.#sessions.set(session, list);
          else this.#sessions.delete(session);
        }
        for (const page of taken) this.#drop(page);
      },
    };
  }

  #drop(page: number): void {
    if (--this.#uses[page]! === 0) this.#free.push(page);
  }

  // Whether `to` can share the pages of `from`'s first `positionCount` positions: a page is of all
  // layers, so what `to` has there already must be the same pages.
  canFork(from: number, to: number, positionCount: number): boolean {
    const source = this.of(from);
    const held = this.of(to).slice(0, Math.ceil(positionCount / kPagePositions));
    return held.every((page, index) => page === source[index]);
  }

  // REQUIRES: canFork().
  fork(from: number, to: number, positionCount: number): void {
    const pages = [...this.of(to)];
    const end = Math.ceil(positionCount / kPagePositions);
    for (const page of this.of(from).slice(pages.length, end)) {
      ++this.#uses[page]!;
      pages.push(page);
    }
    this.#sessions.set(to, pages);
  }

  release(session: number): void {
    for (const page of this.of(session)) this.#drop(page);
    this.#sessions.delete(session);
  }

  releaseAll(): void {
    for (const session of [...this.#sessions.keys()]) this.release(session);
  }
}
