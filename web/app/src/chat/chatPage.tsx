// "/": the conversation, and beside it (where there is room) the swarm that answers.
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import {
  Announcer, ChatList, Composer, Icon, IconButton, MessageList, ModelMenu, NotServing,
  SettingsDialog, SwarmStrip, loadMarkdown, shownMessages,
} from "@weft/ui";
import { apiKey, setApiKey } from "../api/secrets.ts";
import { feedState, isStale, swarmPicture } from "../api/swarmFeed.ts";
import { share } from "../swarm/share.ts";
import { FeedNotice, SwarmAside } from "../swarm/swarmPage.tsx";
import * as controller from "./controller.ts";
import { models } from "./models.ts";
import { useStickToEnd } from "./stickToEnd.ts";

const kSuggestions = ["What is weft?", "Tell me a short story.", "What is 7 plus 5?"];

export function ChatPage(): VNode {
  const chat = controller.shownChat.value;
  const last = chat ? shownMessages(chat).at(-1) : undefined;
  const scroller = useRef<HTMLDivElement>(null);
  useEffect(loadMarkdown, []);
  const { isAtEnd, toEnd } = useStickToEnd(scroller, chat !== null,
    [chat, controller.waitingWords.value]);
  return (
    <div class="chat-layout">
      <section class="chat" aria-label="Chat">
        <ChatBar />
        <SwarmStrip picture={swarmPicture.value} isStale={isStale.value} href="/swarm" />
        <div class="chat-scroller" ref={scroller} tabIndex={0} role="region" aria-label="Messages">
          <div class="chat-column">
            <FeedNotice />
            {swarmPicture.value && !isStale.value && (
              <NotServing picture={swarmPicture.value} share={share.value} />
            )}
            {!chat ? <Welcome /> : (
              <MessageList
                chat={chat}
                canAsk={!controller.isAnswering.value}
                waitingWords={controller.waitingWords.value}
                onEdit={controller.askAgain}
                onAgain={() => controller.askAgain()}
                onChoose={controller.choose}
                onResults={controller.sendResults}
              />
            )}
          </div>
        </div>
        <div class="chat-foot">
          {chat && !isAtEnd && (
            <button type="button" class="to-end" onClick={toEnd}>
              <Icon name="down" />
              Latest
            </button>
          )}
          <Composer
            text={controller.draft.value}
            onText={controller.changeDraft}
            onSend={() => {
              controller.send();
              toEnd();
            }}
            onStop={controller.stop}
            isAnswering={controller.isAnswering.value}
            blockedBy={blockedBy()}
          />
        </div>
        <Announcer answer={last?.role === "assistant" ? last : null} />
      </section>
      <SwarmAside />
    </div>
  );
}

// While the swarm prepares, questions may wait in its queue; while it is down, nobody knows for how
// long.
function blockedBy(): string {
  const picture = swarmPicture.value;
  if (feedState.value === "lost") return "The server does not answer. What you write is kept.";
  // Another model than the one that is down may answer.
  if (picture?.state !== "down" || models.value.length > 1) return "";
  return "The swarm cannot answer yet: see above what it needs.";
}

function ChatBar(): VNode {
  const [open, setOpen] = useState<"none" | "chats" | "settings">("none");
  const close = (): void => setOpen("none");
  const title = controller.shownChat.value?.title;
  useEffect(() => {
    document.title = title === undefined ? "weft" : `${title} – weft`;
  }, [title]);
  return (
    <div class="chat-bar">
      <IconButton icon="chats" label="Chats" onClick={() => setOpen("chats")} />
      <h1 class="chat-heading">{title ?? "Chat"}</h1>
      <ModelMenu models={models.value} chosen={controller.settings.value.model}
        onChoose={(model) =>
          controller.changeSettings({ ...controller.settings.value, model })} />
      <IconButton icon="settings" label="Settings" onClick={() => setOpen("settings")} />
      <button type="button" class="button button-quiet new-chat" onClick={controller.newChat}>
        <Icon name="plus" />
        <span>New chat</span>
      </button>
      <ChatList
        isOpen={open === "chats"}
        state={controller.chats.value}
        onOpen={(chatId) => {
          controller.dispatch({ kind: "open", chatId });
          close();
        }}
        onRename={(chatId, name) => controller.dispatch({ kind: "rename", chatId, title: name })}
        onDelete={controller.deleteChat}
        onDeleteAll={controller.deleteAllChats}
        onExport={controller.exportChat}
        onExportAll={controller.exportAll}
        onImport={(file) => void controller.importFile(file)}
        notice={controller.listNotice.value}
        onClose={close}
      />
      <SettingsDialog
        isOpen={open === "settings"}
        isOfChat={controller.shownChat.value !== null}
        settings={controller.settings.value}
        onChange={controller.changeSettings}
        onUseForNew={() => controller.useForNewChats(controller.settings.value)}
        onClose={close}
        onForgetKey={apiKey.value === "" ? null : () => setApiKey("")}
      />
    </div>
  );
}

function Welcome(): VNode {
  const model = swarmPicture.value?.model.name ?? "";
  const canAnswer = feedState.value === "live" && blockedBy() === "";
  return (
    <div class="welcome">
      <h2>Ask {model === "" ? "the swarm" : model}</h2>
      <p class="muted">
        The devices of this swarm compute the answer together. Your chats stay in this browser; the
        devices that compute an answer can see what it is about.
      </p>
      <ul class="suggestions" aria-label="Suggestions">
        {kSuggestions.map((text) => (
          <li key={text}>
            <button
              type="button"
              class="suggestion"
              disabled={!canAnswer}
              onClick={() => {
                controller.changeDraft(text);
                controller.send();
              }}
            >
              {text}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}
