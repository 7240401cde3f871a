// Counts what a device creates: tests only.
type Counts = Record<string, number>;

// Counts every create* call until stop().
export function countCreations(device: GPUDevice): { stop: () => Counts } {
  const counts: Counts = {};
  const names = Object.getOwnPropertyNames(Object.getPrototypeOf(device)).filter((name) =>
    name.startsWith("create"),
  );
  const target = device as unknown as Record<string, (...args: unknown[]) => unknown>;
  for (const name of names) {
    const original = target[name]!.bind(device);
    target[name] = (...args) => {
      counts[name] = (counts[name] ?? 0) + 1;
      return original(...args);
    };
  }
  return {
    stop: () => {
      for (const name of names) delete (device as unknown as Record<string, unknown>)[name];
      return counts;
    },
  };
}
