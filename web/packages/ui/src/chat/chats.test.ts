import { describe, expect, it } from "vitest";
import { currentChat, noChats, openAnswer, readChats, reduceChats } from "./chats.ts";
import type { ChatAction, Chats } from "./chats.ts";

function makeIds(): () => string {
  let last = 0;
  return () => `id${(last += 1)}`;
}

function run(state: Chats, ...actions: ChatAction[]): Chats {
  return actions.reduce(reduceChats, state);
}

function asked(text = "Hello?"): { state: Chats; newId: () => string } {
  const newId = makeIds();
  return { state: run(noChats(), { kind: "ask", text, nowMs: 1, newId }), newId };
}

function ended(state: Chats, text: string): Chats {
  const open = openAnswer(state);
  if (!open) throw new Error("no open answer");
  const at = { chatId: open.chat.id, messageId: open.answer.id };
  return run(state, { kind: "part", ...at, text }, { kind: "end", ...at, end: { phase: "done" } });
}

const texts = (state: Chats): string[] =>
  currentChat(state)?.messages.map((message) => message.text) ?? [];

describe("asking", () => {
  it("adds a question and an answer that waits, then streams, then is done", () => {
    const { state } = asked("  Hello?  ");
    expect(texts(state)).toEqual(["Hello?", ""]);
    expect(openAnswer(state)?.answer.phase).toBe("waiting");
    const open = openAnswer(state)!;
    const at = { chatId: open.chat.id, messageId: open.answer.id };
    const streaming = run(state, { kind: "part", ...at, text: "Hi " },
      { kind: "part", ...at, text: "there" });
    expect(openAnswer(streaming)?.answer).toMatchObject({ phase: "streaming", text: "Hi there" });
    const stats = { firstTokenMs: 5, tokens: 2, tokensPerSecond: 7 };
    const done = run(streaming, { kind: "end", ...at, end: { phase: "done", stats } });
    expect(openAnswer(done)).toBeNull();
    expect(currentChat(done)?.messages[1]).toMatchObject({ phase: "done", stats });
  });

  it("does nothing for blank text or while an answer is open", () => {
    const { state, newId } = asked();
    expect(run(state, { kind: "ask", text: "More", nowMs: 2, newId })).toBe(state);
    expect(run(noChats(), { kind: "ask", text: " \n", nowMs: 2, newId })).toEqual(noChats());
  });

  it("ignores what comes after the end, as after a stop", () => {
    const { state } = asked();
    const open = openAnswer(state)!;
    const at = { chatId: open.chat.id, messageId: open.answer.id };
    const stopped = run(state, { kind: "part", ...at, text: "Hal" },
      { kind: "end", ...at, end: { phase: "stopped" } },
      { kind: "part", ...at, text: "lo" }, { kind: "end", ...at, end: { phase: "done" } });
    expect(currentChat(stopped)?.messages[1]).toMatchObject({ text: "Hal", phase: "stopped" });
  });

  it("keeps streaming into its own chat when another one is opened", () => {
    const { state } = asked();
    const elsewhere = run(state, { kind: "new" });
    expect(currentChat(elsewhere)).toBeNull();
    const done = ended(elsewhere, "late");
    expect(done.chats[0]?.messages[1]?.text).toBe("late");
  });
});

describe("asking again", () => {
  it("replaces the last answer", () => {
    const { state, newId } = asked();
    const again = run(ended(state, "one"), { kind: "askAgain", nowMs: 2, newId });
    expect(texts(again)).toEqual(["Hello?", ""]);
    expect(openAnswer(again)).not.toBeNull();
  });

  it("with another text drops what followed, and renames a chat by its first question", () => {
    const { state, newId } = asked("First question");
    const two = ended(run(ended(state, "one"), { kind: "ask", text: "Second", nowMs: 2, newId }),
      "two");
    expect(texts(two)).toEqual(["First question", "one", "Second", "two"]);
    const firstId = currentChat(two)?.messages[0]?.id ?? "";
    const edited = run(two,
      { kind: "askAgain", messageId: firstId, text: "Changed", nowMs: 3, newId });
    expect(texts(edited)).toEqual(["Changed", ""]);
    expect(currentChat(edited)?.title).toBe("Changed");
    const blank = run(two, { kind: "askAgain", messageId: firstId, text: " ", nowMs: 3, newId });
    expect(blank).toBe(two);
  });
});

describe("the list", () => {
  it("puts the chat used last first, opens and deletes", () => {
    const newId = makeIds();
    let state = ended(run(noChats(), { kind: "ask", text: "A", nowMs: 1, newId }), "a");
    const chatA = state.currentId!;
    state = run(state, { kind: "new" }, { kind: "ask", text: "B", nowMs: 2, newId });
    state = ended(state, "b");
    expect(state.chats.map((chat) => chat.title)).toEqual(["B", "A"]);
    state = run(state, { kind: "open", chatId: chatA });
    state = ended(run(state, { kind: "ask", text: "A2", nowMs: 3, newId }), "a2");
    expect(state.chats.map((chat) => chat.title)).toEqual(["A", "B"]);
    expect(run(state, { kind: "open", chatId: "none" })).toBe(state);
    expect(run(state, { kind: "delete", chatId: chatA })).toMatchObject({ currentId: null });
    expect(run(state, { kind: "deleteAll" })).toEqual(noChats());
  });

  it("shortens long titles and keeps at most 50 chats", () => {
    const newId = makeIds();
    let state = noChats();
    for (let i = 0; i < 60; i += 1) {
      const text = `${i} ${"word ".repeat(40)}`;
      state = ended(run(state, { kind: "new" }, { kind: "ask", text, nowMs: i, newId }), "x");
    }
    expect(state.chats).toHaveLength(50);
    expect([...(state.chats[0]?.title ?? "")].length).toBeLessThanOrEqual(60);
  });
});

describe("thoughts", () => {
  it("stand beside the text of the answer that is being written", () => {
    const { state } = asked();
    const open = openAnswer(state)!;
    const at = { chatId: open.chat.id, messageId: open.answer.id };
    const thought = run(state, { kind: "thought", ...at, text: "Hm" },
      { kind: "thought", ...at, text: "m." });
    expect(openAnswer(thought)?.answer).toMatchObject(
      { phase: "streaming", thoughts: "Hmm.", text: "" });
    const done = ended(thought, "Hi");
    expect(texts(done)).toEqual(["Hello?", "Hi"]);
    expect(run(done, { kind: "thought", ...at, text: "more" })).toEqual(done);
  });
});

describe("readChats", () => {
  it("reads what was saved and stops what was being written", () => {
    const { state } = asked();
    const saved = JSON.parse(JSON.stringify(state.chats)) as unknown[];
    const read = readChats(saved, state.currentId);
    expect(currentChat(read)?.messages[1]).toMatchObject({ phase: "stopped" });
  });

  it("leaves out chats that are not ours, newest first", () => {
    const good = {
      id: "1", title: "t", updatedAtMs: 1, messages: [{ id: "m", role: "user", text: "x" }],
    };
    const newer = { ...good, id: "2", updatedAtMs: 2 };
    const answer = { id: "m", role: "assistant", text: "x", phase: "done" };
    const read = readChats([good, { ...good, messages: [] }, "x", null, 4, [], {}, newer,
      { ...good, messages: [{ id: "m", role: "system", text: "x" }] },
      { ...good, messages: [{ ...answer, phase: "odd" }] },
      { ...good, messages: [{ ...answer, failure: null }] },
      { ...good, messages: [{ ...answer, thoughts: 4 }] },
      { ...good, messages: [{ ...answer, stats: "fast" }] }], "gone");
    expect(read).toEqual({ chats: [newer, good], currentId: null });
  });
});
