// Waiting for something no longer than so long: for calls of the browser that may never come back.
export class LateError extends Error {}

// What comes within `limitMs`; rejects after that (LateError), and what comes late is handed to
// `onLate`.
export function within<T>(
  limitMs: number,
  work: Promise<T>,
  onLate: (value: T) => void,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      reject(new LateError(`nothing came within ${limitMs / 1000} s`));
    }, limitMs);
    work.then(
      (value) => {
        clearTimeout(timer);
        if (isLate) onLate(value);
        else resolve(value);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error instanceof Error ? error : new Error(String(error)));
      },
    );
  });
}
