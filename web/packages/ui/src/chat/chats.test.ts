import { describe, expect, it } from "vitest";
import { shownMessages, versionsOf } from "./branches.ts";
import { defaultSettings } from "./chatSettings.ts";
import { currentChat, noChats, openAnswers, reduceChats } from "./chats.ts";
import type { Chats } from "./chat.ts";
import type { AnswerPart, ChatAction } from "./chats.ts";

function makeIds(): () => string {
  let last = 0;
  return () => `id${(last += 1)}`;
}

const settings = defaultSettings();

function run(state: Chats, ...actions: ChatAction[]): Chats {
  return actions.reduce(reduceChats, state);
}

function ask(state: Chats, text: string, newId: () => string, nowMs = 1): Chats {
  return run(state, { kind: "ask", text, nowMs, newId, settings });
}

function again(state: Chats, newId: () => string, messageId?: string, text?: string): Chats {
  return run(state, {
    kind: "askAgain", nowMs: 9, newId, settings,
    ...(messageId === undefined ? {} : { messageId }), ...(text === undefined ? {} : { text }),
  });
}

function asked(text = "Hello?"): { state: Chats; newId: () => string } {
  const newId = makeIds();
  return { state: ask(noChats(), text, newId), newId };
}

function openOf(state: Chats): { chatId: string; messageId: string } {
  const [open] = openAnswers(state);
  if (!open) throw new Error("no open answer");
  return { chatId: open.chat.id, messageId: open.answer.id };
}

function part(state: Chats, ...parts: AnswerPart[]): Chats {
  const at = openOf(state);
  return run(state, ...parts.map((one): ChatAction => ({ kind: "part", ...at, part: one })));
}

function ended(state: Chats, text: string): Chats {
  const at = openOf(state);
  return run(part(state, { kind: "text", text }), { kind: "end", ...at, end: { phase: "done" } });
}

const texts = (state: Chats): string[] => {
  const chat = currentChat(state);
  return chat ? shownMessages(chat).map((message) => message.text) : [];
};
const idOf = (state: Chats, text: string): string =>
  currentChat(state)?.messages.find((message) => message.text === text)?.id ?? "";

describe("asking", () => {
  it("adds a question and an answer that waits, then streams, then is done", () => {
    const { state } = asked("  Hello?  ");
    expect(texts(state)).toEqual(["Hello?", ""]);
    expect(openAnswers(state)[0]?.answer).toMatchObject({ phase: "waiting", asked: settings });
    const at = openOf(state);
    const streaming = part(state, { kind: "text", text: "Hi " }, { kind: "text", text: "there" });
    expect(openAnswers(streaming)[0]?.answer)
      .toMatchObject({ phase: "streaming", text: "Hi there" });
    const stats = { firstTokenMs: 5, tokens: 2, tokensPerSecond: 7 };
    const done = run(streaming, { kind: "end", ...at, end: { phase: "done", stats } });
    expect(openAnswers(done)).toEqual([]);
    expect(currentChat(done)?.messages[1]).toMatchObject({ phase: "done", stats });
  });

  it("does nothing for blank text, or in a chat that is being answered", () => {
    const { state, newId } = asked();
    expect(ask(state, "More", newId)).toBe(state);
    expect(again(state, newId)).toBe(state);
    expect(ask(noChats(), " \n", newId)).toEqual(noChats());
  });

  it("has answers in several chats at once", () => {
    const { state, newId } = asked("One");
    const both = ask(run(state, { kind: "new" }), "Two", newId);
    expect(openAnswers(both).map(({ chat }) => chat.title)).toEqual(["Two", "One"]);
    expect(ended(both, "2").chats[0]?.messages[1]).toMatchObject({ text: "2", phase: "done" });
  });

  it("ignores what comes after the end, as after a stop", () => {
    const { state } = asked();
    const at = openOf(state);
    const stopped = run(part(state, { kind: "text", text: "Hal" }),
      { kind: "end", ...at, end: { phase: "stopped" } },
      { kind: "part", ...at, part: { kind: "text", text: "lo" } },
      { kind: "end", ...at, end: { phase: "done" } });
    expect(currentChat(stopped)?.messages[1]).toMatchObject({ text: "Hal", phase: "stopped" });
  });

  it("takes thoughts, calls and another beginning", () => {
    const calls = [{ id: "c", name: "add", argumentsText: "{}" }];
    const state = part(asked().state, { kind: "thought", text: "Hm" },
      { kind: "thought", text: "m" }, { kind: "thoughtTime", durationMs: 40 },
      { kind: "calls", calls });
    expect(openAnswers(state)[0]?.answer).toMatchObject({ thoughts: "Hmm", thoughtMs: 40, calls });
    expect(openAnswers(part(state, { kind: "again", text: "A", thoughts: "" }))[0]?.answer)
      .toMatchObject({ text: "A", thoughts: "" });
  });
});

describe("branches", () => {
  it("keep the answers before another one", () => {
    const { state, newId } = asked();
    const two = ended(again(ended(state, "one"), newId), "two");
    expect(texts(two)).toEqual(["Hello?", "two"]);
    const chat = currentChat(two)!;
    expect(versionsOf(chat, shownMessages(chat)[1]!)).toMatchObject({ index: 1 });
    const first = run(two, { kind: "choose", chatId: chat.id, messageId: idOf(two, "one") });
    expect(texts(first)).toEqual(["Hello?", "one"]);
  });

  it("keep what followed a question that was edited", () => {
    const { state, newId } = asked("First question");
    const two = ended(ask(ended(state, "one"), "Second", newId, 2), "two");
    const edited = again(two, newId, idOf(two, "First question"), "Changed");
    expect(texts(edited)).toEqual(["Changed", ""]);
    expect(currentChat(edited)?.title).toBe("Changed");
    const { chatId } = openOf(edited);
    const back = run(ended(edited, "new"),
      { kind: "choose", chatId, messageId: idOf(two, "First question") });
    expect(texts(back)).toEqual(["First question", "one", "Second", "two"]);
    expect(again(two, newId, idOf(two, "Second"), " ")).toBe(two);
  });

  it("a question with the same text is answered once more", () => {
    const { state, newId } = asked();
    const same = again(ended(state, "one"), newId, idOf(state, "Hello?"), "Hello?");
    expect(currentChat(same)?.messages.map(({ role }) => role))
      .toEqual(["user", "assistant", "assistant"]);
  });

  it("go on behind what calls gave", () => {
    const { state, newId } = asked();
    const calls = ["a", "b"].map((id) => ({ id, name: "f", argumentsText: "" }));
    const called = ended(part(state, { kind: "calls", calls }), "");
    const results = run(called,
      { kind: "results", results: { b: "2" }, nowMs: 2, newId, settings });
    expect(shownMessages(currentChat(results)!).map(({ role, text }) => [role, text])).toEqual([
      ["user", "Hello?"], ["assistant", ""], ["tool", ""], ["tool", "2"], ["assistant", ""],
    ]);
  });
});

describe("the list", () => {
  it("puts the chat used last first, opens, renames and deletes", () => {
    const { state: first, newId } = asked("A");
    let state = ended(first, "a");
    const chatA = state.currentId!;
    state = ended(ask(run(state, { kind: "new" }), "B", newId, 2), "b");
    expect(state.chats.map((chat) => chat.title)).toEqual(["B", "A"]);
    state = ended(ask(run(state, { kind: "open", chatId: chatA }), "A2", newId, 3), "a2");
    expect(state.chats.map((chat) => chat.title)).toEqual(["A", "B"]);
    expect(run(state, { kind: "open", chatId: "none" })).toBe(state);
    const renamed = run(state, { kind: "rename", chatId: chatA, title: " New  name " });
    expect(renamed.chats[0]?.title).toBe("New name");
    expect(run(renamed, { kind: "rename", chatId: chatA, title: " " }).chats[0]?.title)
      .toBe("New name");
    expect(run(state, { kind: "delete", chatId: chatA })).toMatchObject({ currentId: null });
    expect(run(state, { kind: "deleteAll" })).toEqual(noChats());
  });

  it("shortens long titles and keeps every chat", () => {
    const newId = makeIds();
    let state = noChats();
    for (let i = 0; i < 60; i += 1) {
      state = ended(ask(run(state, { kind: "new" }), `${i} ${"word ".repeat(40)}`, newId, i), "x");
    }
    expect(state.chats).toHaveLength(60);
    expect([...(state.chats[0]?.title ?? "")].length).toBeLessThanOrEqual(60);
  });

  it("settings belong to a chat", () => {
    const { state } = asked();
    const { chatId } = openOf(state);
    const changed = { ...settings, systemPrompt: "Be brief." };
    expect(run(state, { kind: "settings", chatId, settings: changed }).chats[0]?.settings)
      .toEqual(changed);
  });

  it("imports what is new or newer", () => {
    const state = ended(asked().state, "mine");
    const [chat] = state.chats;
    const old = { ...chat!, title: "Old", updatedAtMs: 0 };
    const other = { ...chat!, id: "other", title: "Other", updatedAtMs: 5 };
    expect(run(state, { kind: "added", chats: [old, other] }).chats.map(({ title }) => title))
      .toEqual(["Other", "Hello?"]);
    expect(run(state, { kind: "added", chats: [{ ...old, updatedAtMs: 7 }] }).chats[0]?.title)
      .toBe("Old");
  });
});

describe("another tab", () => {
  it("adds, changes and deletes chats, but not the answer that this tab writes", () => {
    const { state } = asked();
    const at = openOf(state);
    const theirs = state.chats[0]!;
    const mine = part(state, { kind: "text", text: "Mine" });
    const merged = run(mine, {
      kind: "synced", chatId: at.chatId, chat: { ...theirs, title: "Renamed" },
      ownIds: new Set([at.messageId]),
    });
    expect(merged.chats[0]?.title).toBe("Renamed");
    expect(texts(merged)).toEqual(["Hello?", "Mine"]);
    const none = new Set<string>();
    expect(texts(run(mine, { kind: "synced", chatId: at.chatId, chat: theirs, ownIds: none })))
      .toEqual(["Hello?", ""]);
    expect(run(mine, { kind: "synced", chatId: at.chatId, chat: null, ownIds: none }))
      .toEqual(noChats());
  });
});
