// The frame around every page: who we are, where one can go, the key dialog.
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { KeyDialog, Logo, ThemeToggle } from "@weft/ui";
import { closeKeyDialog, keyWanted, saveKey } from "./api/http.ts";
import { apiKey, joinToken } from "./api/secrets.ts";
import { followSwarm } from "./api/swarmFeed.ts";
import type { FeedMode } from "./api/swarmFeed.ts";
import { AdminPage } from "./admin/adminPage.tsx";
import { ChatPage } from "./chat/chatPage.tsx";
import { isWanted } from "./join/helper.ts";
import { JoinPage } from "./join/joinPage.tsx";
import { CertificatePage } from "./join/certificatePage.tsx";
import { route } from "./route.ts";
import type { Route } from "./route.ts";
import { SwarmPage } from "./swarm/swarmPage.tsx";

const kTitles: Record<Route, string> = {
  "/": "weft",
  "/swarm": "Swarm – weft",
  "/join": "Help compute – weft",
  "/certificate": "Certificate – weft",
  "/admin": "Administration – weft",
};

export function App(): VNode {
  const shown = route.value;
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  useEffect(() => {
    // The chat names itself after the conversation.
    if (shown !== "/") document.title = kTitles[shown];
    followSwarm(feedMode(shown));
    if (!isFirst.current && shown !== "/") main.current?.focus();
    isFirst.current = false;
  }, [shown]);
  return (
    <>
      <a class="skip-link" href="#main">To the content</a>
      <Header shown={shown} />
      <main id="main" ref={main} tabIndex={-1} class={shown === "/" ? "main-chat" : ""}>
        {shown === "/" && <ChatPage />}
        {shown === "/swarm" && <SwarmPage />}
        {shown === "/join" && <JoinPage />}
        {shown === "/certificate" && <CertificatePage />}
        {shown === "/admin" && <AdminPage />}
      </main>
      <KeyDialog
        isOpen={keyWanted.value !== "no"}
        wasRefused={keyWanted.value === "refused"}
        onSave={saveKey}
        onClose={closeKeyDialog}
      />
    </>
  );
}

// A helping page needs its connections for weights; where there is a join token, the picture wants
// an API key.
function feedMode(shown: Route): FeedMode {
  if (shown === "/certificate" || shown === "/admin") return "off";
  if (shown !== "/join") return "events";
  return apiKey.peek() === "" && joinToken.peek() !== "" ? "off" : "poll";
}

function Header({ shown }: { shown: Route }): VNode {
  const link = (href: Route, words: string, isBusy = false): VNode => (
    <a href={href} aria-current={shown === href ? "page" : undefined}>
      {words}
      {isBusy && <i class="busy-dot"><span class="visually-hidden"> (helping now)</span></i>}
    </a>
  );
  return (
    <header class="header">
      <a class="brand" href="/">
        <Logo />
        weft
      </a>
      <nav aria-label="Pages">
        {link("/", "Chat")}
        {link("/swarm", "Swarm")}
        {link("/join", "Help", isWanted.value)}
      </nav>
      <ThemeToggle />
    </header>
  );
}
