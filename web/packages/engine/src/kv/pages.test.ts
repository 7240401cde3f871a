import { describe, expect, it } from "vitest";

import { kPagePositions, Pages } from "./pages.ts";

const runOf = (session: number, firstPosition: number, count: number) =>
  ({ session, firstPosition, count });

function pagesOf(capacity: number): Pages {
  const pages = new Pages();
  pages.grow(capacity);
  return pages;
}

// How many more pages an append of so many positions would find.
function freePages(pages: Pages, capacity: number): number {
  return capacity - pages.missing([runOf(99, 0, capacity * kPagePositions)]);
}

describe("Pages", () => {
  it("lets an append follow one that counts, and takes both back from the last on", () => {
    const pages = pagesOf(8);
    pages.begin([runOf(1, 0, 5)]).keep();
    const first = pages.begin([runOf(1, 5, kPagePositions)]);
    first.count();
    const second = pages.begin([runOf(1, 5 + kPagePositions, kPagePositions)]);
    second.count();
    expect(pages.of(1)).toHaveLength(3);
    second.drop();
    expect(pages.of(1)).toHaveLength(2);
    first.drop();
    expect(pages.of(1)).toHaveLength(1);
    expect(freePages(pages, 8)).toBe(7);
  });

  it("lets go of a shared page's old copy only when the append is kept", () => {
    const pages = pagesOf(4);
    pages.begin([runOf(1, 0, 5)]).keep();
    pages.fork(1, 2, 5);
    const shared = pages.of(1);
    const append = pages.begin([runOf(2, 5, 1)]);
    append.count();
    expect(pages.of(2)).not.toEqual(shared);
    append.drop();
    expect(pages.of(2)).toEqual(shared);
    expect(freePages(pages, 4)).toBe(3);
    const again = pages.begin([runOf(2, 5, 1)]);
    again.count();
    again.keep();
    expect(pages.of(2)).not.toEqual(shared);
    pages.release(1);
    pages.release(2);
    expect(freePages(pages, 4)).toBe(4);
  });
});
