// Where this worker keeps what it keeps: the folders of the native worker (src/apps/http_source.h,
// src/registry/registry_settings.h).
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";

export function cacheFolder(): string {
  const { XDG_CACHE_HOME: base, LOCALAPPDATA: local } = process.env;
  if (isFolder(base)) return join(base, "weft");
  if (process.platform === "win32" && local !== undefined) return join(local, "weft", "cache");
  return join(homedir(), ".cache", "weft");
}

// Where the line that installs Dawn puts it.
export function dataFolder(): string {
  const { WEFT_HOME: own, XDG_DATA_HOME: base } = process.env;
  if (own !== undefined && own !== "") return own;
  if (isFolder(base)) return join(base, "weft");
  return join(homedir(), ".local", "share", "weft");
}

// XDG's specification: a relative path counts as none.
function isFolder(base: string | undefined): base is string {
  return base !== undefined && isAbsolute(base);
}
