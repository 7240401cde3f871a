// Line icons on a 20 x 20 grid. Always decoration: the control around an icon carries the words.
import type { VNode } from "preact";

const kPaths = {
  plus: "M10 4v12M4 10h12",
  send: "M10 16V4M4.5 9.5 10 4l5.5 5.5",
  stop: "M6 6h8v8H6z",
  copy: "M7 7V4.5h8.5V13H13M4.5 7H13v8.5H4.5z",
  check: "m4.5 10.5 4 4 7.5-8.5",
  again: "M15.5 8A6 6 0 1 0 16 11M15.8 4v4.2h-4.2",
  edit: "M4 16v-3l8.5-8.5 3 3L7 16zM11 6l3 3",
  save: "M10 3v9M6 8.5 10 12.5l4-4M4 16.5h12",
  back: "M12 5l-5 5 5 5",
  forward: "M8 5l5 5-5 5",
  settings: "M4 6h6M14 6h2M4 14h2M10 14h6M12 4v4M8 12v4",
  chats: "M4 5h12M4 10h12M4 15h7",
  close: "m5.5 5.5 9 9M14.5 5.5l-9 9",
  trash: "M4 6h12M8 6V4h4v2M5.5 6l.8 10h7.4l.8-10",
  sun: "M10 2.5v2M10 15.5v2M2.5 10h2M15.5 10h2M4.7 4.7l1.4 1.4M13.9 13.9l1.4 1.4" +
    "M15.3 4.7l-1.4 1.4M6.1 13.9l-1.4 1.4M10 6.8a3.2 3.2 0 1 1 0 6.4 3.2 3.2 0 0 1 0-6.4z",
  moon: "M16 11.8A6.5 6.5 0 0 1 8.2 4a6.5 6.5 0 1 0 7.8 7.8z",
  auto: "M10 3.5a6.5 6.5 0 1 0 0 13zM10 3.5a6.5 6.5 0 0 1 0 13",
  down: "M10 4v12M4.5 10.5 10 16l5.5-5.5",
  warning: "M10 3.5 17.5 16.5h-15zM10 8.5v4M10 14.3v.4",
  info: "M10 3a7 7 0 1 1 0 14 7 7 0 0 1 0-14zM10 9v5M10 6.3v.4",
  tab: "M3 4.5h14v11H3zM3 8h14",
  native: "M4 4.5h12v8H4zM7 16h6M10 12.5V16",
  bolt: "M11 2.5 4.5 11.5H10l-1 6 6.5-9H10z",
} as const;

export type IconName = keyof typeof kPaths;

export function Icon({ name }: { name: IconName }): VNode {
  return (
    <svg class="icon" viewBox="0 0 20 20" width="20" height="20" aria-hidden="true">
      <path d={kPaths[name]} />
    </svg>
  );
}

// Threads over and under each other: what the name means.
export function Logo(): VNode {
  return (
    <svg class="logo" viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">
      <path class="logo-warp" d="M6 2v20M12 2v20M18 2v20" />
      <path class="logo-weft" d="M2 7h6M10 7h0M16 7h6M8.5 12h7M2 17h6M16 17h6" />
      <path class="logo-weft" d="M2 7h7.5M14.5 7H22M8 12h8M2 17h7.5M14.5 17H22" />
    </svg>
  );
}
