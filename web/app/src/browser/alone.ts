// Of all tabs of this browser one at a time does something; the others wait for their turn.

// Runs `body` when its turn comes. Resolves without it where `signal` is aborted before. Pages on
// plain http from another machine have no locks: there each tab runs it.
export async function alone(
  name: string, signal: AbortSignal, body: () => Promise<void>,
): Promise<void> {
  const locks = (navigator as Partial<Navigator>).locks;
  if (!locks) return body();
  try {
    await locks.request(name, { signal }, body);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
