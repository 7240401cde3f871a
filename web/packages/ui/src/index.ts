// What the app uses: components and the pure functions behind them; styles/index.css is their
// looks.
export * from "./chat/announcer.tsx";
export * from "./chat/chatList.tsx";
export * from "./chat/chats.ts";
export * from "./chat/composer.tsx";
export * from "./chat/messages.tsx";
export * from "./chat/settings.tsx";
export * from "./chat/waiting.ts";
export * from "./elements/controls.tsx";
export * from "./elements/dialog.tsx";
export * from "./elements/icons.tsx";
export * from "./elements/keyDialog.tsx";
export * from "./elements/theme.tsx";
export * from "./markdown/markdown.tsx";
export * from "./words/format.ts";
export * from "./join/conditions.ts";
export * from "./join/names.ts";
export * from "./join/offer.ts";
export * from "./swarm/activity.ts";
export * from "./swarm/consentDialog.tsx";
export * from "./swarm/layers.ts";
export * from "./swarm/picture.ts";
export * from "./swarm/sharePanel.tsx";
export * from "./swarm/swarmView.tsx";
