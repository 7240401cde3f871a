// Which server is tried next, and which ones a server may name.
import { expect, it } from "vitest";

import { ServerList } from "./serverList.ts";
import type { Server } from "./serverList.ts";

const at = (origin: string, fingerprint = ""): Server => ({ origin, fingerprint });
const named = (...urls: string[]): { url: string; fingerprint: string }[] =>
  urls.map((url) => ({ url, fingerprint: "" }));
const order = (list: ServerList): string[] => list.inOrder().map(({ origin }) => origin);
// "http://b!" is tried without a pause.
const tries = (list: ServerList, count: number): string[] =>
  Array.from({ length: count }, () => {
    const isFirst = list.next();
    return list.current.origin + (isFirst ? "!" : "");
  });

it("one server is tried again and again", () => {
  const list = new ServerList([at("http://a")]);
  expect(tries(list, 2)).toEqual(["http://a", "http://a"]);
  list.settle();
  expect(tries(list, 1)).toEqual(["http://a"]);
});

it("each is tried once without a pause", () => {
  const list = new ServerList([at("http://a"), at("http://b")]);
  list.setSuccessors(named("ws://c", "ws://b"));
  expect(order(list)).toEqual(["http://a", "http://b", "http://c"]);
  expect(tries(list, 5)).toEqual(["http://b!", "http://c!", "http://a", "http://b", "http://c"]);
  list.settle();
  expect(tries(list, 4)).toEqual(["http://a!", "http://b!", "http://c", "http://a"]);
});

it("the one that serves stays when it names others", () => {
  const list = new ServerList([at("http://a")]);
  list.setSuccessors(named("ws://b"));
  expect(tries(list, 1)).toEqual(["http://b!"]);
  list.setSuccessors(named("ws://c:8443"));
  expect(order(list)).toEqual(["http://b", "http://c:8443", "http://a"]);
  list.setSuccessors([]);
  expect(order(list)).toEqual(["http://b", "http://a"]);
});

it("nobody is sent from TLS to plain text", () => {
  const list = new ServerList([at("https://a")]);
  list.setSuccessors(named("ws://b", "", "ftp://c", "wss://d", "x".repeat(400)));
  expect(order(list)).toEqual(["https://a", "https://d"]);
  expect(list.nextIs("ws://e"), "as if none had been named").toBe(true);
  expect(list.current.origin).toBe("https://d");
});

it("a fingerprint counts for its address alone", () => {
  const list = new ServerList([at("https://a", "aa")]);
  list.setSuccessors([
    { url: "wss://b", fingerprint: "bb" }, { url: "wss://a", fingerprint: "other" },
    ...named("wss://c"),
  ]);
  expect(list.inOrder()).toEqual([
    at("https://a", "aa"), at("https://b", "bb"), at("https://c"),
  ]);
});

it("the server may name the next one", () => {
  const list = new ServerList([at("http://a"), at("http://b")]);
  expect(list.nextIs("ws://b")).toBe(true);
  expect(list.nextIs("ws://new:1")).toBe(true);
  expect(list.current.origin).toBe("http://new:1");
  expect(list.nextIs("ws://b")).toBe(false);
  expect(list.nextIs(""), "the next one").toBe(false);
  expect(list.current.origin).toBe("http://new:1");
});

it("the server names the certificate of the next one", () => {
  const [known, named, other] = ["a", "b", "c"].map((digit) => digit.repeat(64));
  const list = new ServerList([at("https://a", known)]);
  expect(list.nextIs(`wss://b#${named}`)).toBe(true);
  expect(list.current).toEqual(at("https://b", named));
  list.nextIs(`wss://a#${other}`);
  expect(list.current, "the user's word counts").toEqual(at("https://a", known));
  list.nextIs(`wss://b#${other}`);
  expect(list.current).toEqual(at("https://b", named));
});

it("nobody is followed with half a fingerprint", () => {
  const list = new ServerList([at("https://a", "a".repeat(64))]);
  list.nextIs(`wss://b#${"b".repeat(50)}`);
  list.nextIs("wss://b#");
  list.nextIs(`ws://b#${"b".repeat(64)}`);
  expect(order(list)).toEqual(["https://a"]);
});

it("a server cannot make the list long", () => {
  const list = new ServerList([at("http://a")]);
  const many = (name: string): string[] =>
    Array.from({ length: 100 }, (_, i) => `ws://${name}${i}`);
  list.setSuccessors(named(...many("b")));
  expect(list.inOrder()).toHaveLength(9);
  for (const url of many("c")) list.nextIs(url);
  expect(list.inOrder().length).toBeLessThanOrEqual(10);
});
