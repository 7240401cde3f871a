import { describe, expect, it } from "vitest";
import { defaultSettings, readSettings, toolsProblem } from "./chatSettings.ts";
import type { Chat, Message } from "./chat.ts";
import { chatMarkdown, chatsFile, readChat, readChats, readChatsFile, searchChats }
  from "./keptChats.ts";
import { readModels } from "./modelMenu.tsx";
import { Replay } from "./replay.ts";

const kHourMs = 3_600_000;

const question: Message = { role: "user", id: "q", parentId: null, text: "Why a **loom**?" };
const answer: Message =
  { role: "assistant", id: "a", parentId: "q", text: "To weave.", phase: "done" };
const chat: Chat =
  { id: "1", title: "Looms", updatedAtMs: 1, messages: [question, answer], leafId: "a" };

describe("readChats", () => {
  it("lets an answer go on that its key still gives, and stops others", () => {
    const open = { ...answer, phase: "streaming", requestKey: "k" };
    const phaseOf = (message: object, nowMs: number): unknown => {
      const last = readChat({ ...chat, messages: [question, message] }, nowMs)?.messages[1];
      return last?.role === "assistant" ? last.phase : null;
    };
    expect(phaseOf(open, kHourMs)).toBe("streaming");
    expect(phaseOf(open, 24 * kHourMs)).toBe("stopped");
    expect(phaseOf({ ...open, requestKey: undefined }, kHourMs)).toBe("stopped");
  });

  it("reads chats of before branches as one path", () => {
    const unlinked = [question, answer].map(({ parentId: _, ...message }) => message);
    const old = { id: "1", title: "Looms", updatedAtMs: 1, messages: unlinked };
    expect(readChats([old], "1", 2)).toEqual({ chats: [chat], currentId: "1" });
  });

  it("leaves out chats that are not ours, newest first", () => {
    const newer = { ...chat, id: "2", updatedAtMs: 2 };
    const changed = (change: object): object =>
      ({ ...chat, messages: [question, { ...answer, ...change }] });
    const read = readChats([chat, { ...chat, messages: [] }, "x", null, 4, [], {}, newer,
      changed({ role: "system" }), changed({ phase: "odd" }), changed({ failure: null }),
      changed({ thoughts: 4 }), changed({ stats: "fast" }), changed({ parentId: "none" }),
      changed({ id: "q" }), changed({ calls: [{ id: "c" }] }), changed({ requestKey: 4 }),
    ], "gone", 3);
    expect(read).toEqual({ chats: [newer, chat], currentId: null });
    expect(readChat({ ...chat, leafId: "none" }, 3)?.leafId).toBe("a");
  });
});

describe("files", () => {
  it("hold what was exported", () => {
    expect(readChatsFile(chatsFile([chat]), 2)).toEqual([chat]);
    expect(chatMarkdown(chat))
      .toBe("# Looms\n\n**You**\n\nWhy a **loom**?\n\n**Answer**\n\nTo weave.\n");
  });

  it.each([
    ["{", /not JSON/], ["[]", /no chats of weft/], ['{"weft_chats": 2, "chats": []}', /no chats/],
    ['{"weft_chats": 1, "chats": [{}]}', /None of the chats/],
  ])("refuses %j with a sentence", (text, sentence) => {
    expect(readChatsFile(text, 2)).toMatch(sentence);
  });
});

it("searches titles and messages for all words", () => {
  const other = { ...chat, id: "2", title: "Ships" };
  const found = (query: string): string[] =>
    searchChats([chat, other], query).map(({ title }) => title);
  expect(found("")).toEqual(["Looms", "Ships"]);
  expect(found("WEAVE ships")).toEqual(["Ships"]);
  expect(found("sails")).toEqual([]);
});

describe("settings", () => {
  it("are read field by field", () => {
    expect(readSettings("x")).toEqual(defaultSettings());
    expect(readSettings({ temperature: 0.5, topP: 2, mostTokens: 1.5, seed: 7, model: 4 }))
      .toEqual({ ...defaultSettings(), temperature: 0.5, seed: 7 });
  });

  it.each([
    ["", ""], ["{", "not JSON"], ["{}", "no list"], ["[4]", "Tool 1 is no function"],
    ['[{"type": "function", "function": {"name": "f"}}, {}]', "Tool 2"],
    ['[{"type": "function", "function": {"name": "f"}}]', ""],
  ])("say of tools %j: %j", (tools, problem) => {
    if (problem === "") expect(toolsProblem(tools)).toBe("");
    else expect(toolsProblem(tools)).toContain(problem);
  });
});

it("lists models that can chat", () => {
  expect(readModels({ data: [
    { id: "a", capabilities: ["completion"] }, { id: "b", capabilities: ["embedding"] },
    { id: "c", state: "loaded" }, { id: 4 }, null,
  ] })).toEqual([{ id: "a", state: "" }, { id: "c", state: "loaded" }]);
  expect(readModels({ data: "x" })).toEqual([]);
});

describe("Replay", () => {
  function replay(written: string, pieces: string[]): unknown[] {
    const told: unknown[] = [];
    const again = new Replay({ text: written, thoughts: "" }, (part) => told.push(part));
    for (const piece of pieces) again.add(piece, "");
    again.finish();
    return told;
  }

  it("tells what is new", () => {
    expect(replay("The wea", ["The", " we", "ath", "er"])).toEqual([
      { kind: "text", text: "th" }, { kind: "text", text: "er" }]);
    expect(replay("", ["a"])).toEqual([{ kind: "text", text: "a" }]);
    expect(replay("done", ["done"])).toEqual([]);
  });

  it("tells that it is another answer", () => {
    expect(replay("The wea", ["A", " b"])).toEqual([
      { kind: "again", text: "A", thoughts: "" }, { kind: "text", text: " b" }]);
    expect(replay("long", ["lo"])).toEqual([{ kind: "again", text: "lo", thoughts: "" }]);
  });
});
