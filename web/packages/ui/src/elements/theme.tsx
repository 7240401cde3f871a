// Light, dark, or as the system says; kept in this browser. CSS follows data-theme of <html>.
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { IconButton } from "./controls.tsx";

export type Theme = "auto" | "light" | "dark";

const kStorageKey = "weft.theme";
const kNext: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
const kLabel: Record<Theme, string> = {
  auto: "Colours: as the system",
  light: "Colours: light",
  dark: "Colours: dark",
};

export function savedTheme(): Theme {
  try {
    const saved = localStorage.getItem(kStorageKey);
    return saved === "light" || saved === "dark" ? saved : "auto";
  } catch {
    return "auto"; // storage is switched off
  }
}

export function applyTheme(theme: Theme): void {
  if (theme === "auto") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

export function ThemeToggle(): VNode {
  const [theme, setTheme] = useState<Theme>(savedTheme);
  useEffect(() => {
    applyTheme(theme);
    try {
      localStorage.setItem(kStorageKey, theme);
    } catch {
      // Kept for this page only.
    }
  }, [theme]);
  const icon = theme === "auto" ? "auto" : theme === "light" ? "sun" : "moon";
  return (
    <IconButton
      icon={icon}
      label={`${kLabel[theme]}. Change`}
      onClick={() => setTheme(kNext[theme])}
    />
  );
}
