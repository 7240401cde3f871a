// Loops that are written out before WGSL is compiled: drivers keep arrays that loops index in
// memory and not in registers. Lines between `//* each m of kName` and `//* end` stand once for
// every m below the constant, with $m for the number. Inner ones first.
const kLoop = /^\/\/\* each (\w) of (\w+)\n((?:(?!\/\/\* each)[^])*?)^\/\/\* end\n/gm;

export function repeated(text: string, constants: Record<string, number | boolean>): string {
  const once = text.replace(kLoop, (_, letter: string, name: string, body: string) => {
    const count = constants[name];
    if (typeof count !== "number") throw new Error(`no constant ${name} to repeat lines by`);
    const lines = Array.from({ length: count }, (__, i) => body.replaceAll(`$${letter}`, `${i}`));
    return lines.join("");
  });
  return once === text ? text : repeated(once, constants);
}
