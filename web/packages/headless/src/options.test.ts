// The command line: what a person may write, and what is said of what nobody can use.
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import { hasSecret, parseByteCount, parseOptions, withoutSecrets } from "./options.ts";
import { parseAddress } from "./server/address.ts";

const kFingerprint = "ab".repeat(32);

describe("addresses", () => {
  it.each([
    ["wss://host:8443#token", "https://host:8443", "token"],
    ["ws://127.0.0.1:8080", "http://127.0.0.1:8080", ""],
    ["https://host:8443/join#token", "https://host:8443", "token"],
    ["wss://host#a", "https://host", "a"],
    ["ws://[::1]:80#t", "http://[::1]", "t"],
  ])("%s", (text, origin, joinToken) => {
    expect(parseAddress(text)).toEqual({ origin, joinToken });
  });

  it.each(["host:8443", "ftp://host", "", "wss://", "nonsense"])("'%s' is none", (text) => {
    expect(() => parseAddress(text)).toThrow("expected wss://host:port#token");
  });
});

describe("amounts of memory", () => {
  it.each([
    ["4GiB", 4 * 2 ** 30], ["512M", 512 * 2 ** 20], ["1.5gib", 1.5 * 2 ** 30], ["1GB", 1e9],
    ["1000000", 1e6],
  ])("%s", (text, bytes) => expect(parseByteCount(text)).toBe(bytes));

  it.each(["", "0", "-1", "4 parsecs", "GiB", "1e9", "9999TiB"])("'%s' is none", (text) => {
    expect(() => parseByteCount(text)).toThrow("is no amount of memory");
  });
});

describe("the command line", () => {
  it("has a default for all but the address", () => {
    expect(parseOptions(["wss://host:1#t"], {})).toMatchObject({
      kind: "work", joinToken: "t", memoryBytes: null, adapter: null,
      servers: [{ origin: "https://host:1", fingerprint: "" }],
      isInsecure: false, allowSoftware: false, wantsWhole: false,
    });
  });

  it("takes the token from the option, the address or the environment, in this order", () => {
    const token = (args: string[]): string => {
      const command = parseOptions(args, { WEFT_JOIN_TOKEN: "environment" });
      return command.kind === "work" ? command.joinToken : "";
    };
    expect(token(["wss://host#address", "--token", "option"])).toBe("option");
    expect(token(["wss://host#address"])).toBe("address");
    expect(token(["wss://host"])).toBe("environment");
  });

  it("takes the token from a file, and names one that has none", () => {
    const file = join(mkdtempSync(join(tmpdir(), "weft-token-")), "token");
    writeFileSync(file, "  abc \nmore\n");
    expect(parseOptions(["wss://h#t", "--token-file", file], {}))
      .toMatchObject({ joinToken: "abc" });
    writeFileSync(file, "\n");
    expect(() => parseOptions(["wss://h", "--token-file", file], {}))
      .toThrow("has 0 characters, expected a join token");
    expect(() => parseOptions(["wss://h", "--token-file", `${file}s`], {}))
      .toThrow("cannot be read");
  });

  it("hands no secret on in a command line", () => {
    const args = ["--token", "abc", "--token-file", "f", "--token=abc", "--token-file=f", "--name",
      "#1", "wss://host:1#abc"];
    expect(withoutSecrets(args)).toEqual(["--name", "#1", "wss://host:1"]);
    expect(args.filter(hasSecret)).toEqual(["--token", "--token=abc", "wss://host:1#abc"]);
  });

  it("takes a fingerprint with or without colons", () => {
    const colons = kFingerprint.toUpperCase().replace(/..(?=.)/g, "$&:");
    for (const text of [kFingerprint, colons]) {
      expect(parseOptions(["wss://h", "--fingerprint", text], {}))
        .toMatchObject({ servers: [{ fingerprint: kFingerprint }] });
    }
  });

  it("takes several servers, with a fingerprint for all or one for each", () => {
    const other = "cd".repeat(32);
    const servers = (...args: string[]): unknown =>
      parseOptions(["wss://a#t", "wss://b:1", ...args], {});
    expect(servers()).toMatchObject({
      joinToken: "t", servers: [
        { origin: "https://a", fingerprint: "" }, { origin: "https://b:1", fingerprint: "" },
      ],
    });
    expect(servers("--fingerprint", other)).toMatchObject({
      servers: [{ fingerprint: other }, { fingerprint: other }],
    });
    expect(servers("--fingerprint", kFingerprint, "--fingerprint", other)).toMatchObject({
      servers: [{ fingerprint: kFingerprint }, { fingerprint: other }],
    });
  });

  it("--list needs no address", () => {
    expect(parseOptions(["--list"])).toEqual({ kind: "list", allowSoftware: false });
  });

  it.each([
    [[], "An address is expected"],
    [["ws://a", "--fingerprint", kFingerprint, "--fingerprint", kFingerprint],
      "given 2 times for 1 servers; expected one for all"],
    [["ws://a", "--adapter", "first"], "--adapter is 'first'"],
    [["ws://a", "--fingerprint", "12"], "expected 64 hexadecimal digits"],
    [["ws://a", "--memory", "much"], "is no amount of memory"],
    [["ws://a", "--gpus", "2"], "Unknown option '--gpus'"],
  ])("%j is refused", (args, words) => expect(() => parseOptions(args, {})).toThrow(words));
});
