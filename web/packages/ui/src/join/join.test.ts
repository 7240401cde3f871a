import { describe, expect, it } from "vitest";
import { isMeteredConnection, pauseReason } from "./conditions.ts";
import { friendlyName, isPhone, limitName } from "./names.ts";

describe("conditions", () => {
  const none = { battery: false, metered: false };

  it("battery and metered networks want permission, each its own", () => {
    expect(pauseReason({ isOnBattery: false, isMetered: false }, none)).toBe("");
    expect(pauseReason({ isOnBattery: true, isMetered: true }, none)).toContain("battery");
    expect(pauseReason({ isOnBattery: true, isMetered: true }, { ...none, battery: true }))
      .toContain("metered");
    expect(pauseReason({ isOnBattery: true, isMetered: true }, { battery: true, metered: true }))
      .toBe("");
  });

  it.each([
    [{}, false], [{ type: "wifi" }, false], [{ type: "cellular" }, true],
    [{ type: "ethernet", saveData: true }, true],
  ])("%j is metered: %s", (connection, metered) => {
    expect(isMeteredConnection(connection)).toBe(metered);
  });
});

describe("names", () => {
  const chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) " +
    "Chrome/140.0.0.0 Safari/537.36";
  const iphone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 " +
    "(KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1";

  it("say browser and system", () => {
    expect(friendlyName(chrome, 9)).toBe("Heron, Chrome on Linux");
    expect(friendlyName(`${chrome} Edg/140.0`, 41)).toBe("Heron, Edge on Linux");
    expect(friendlyName(iphone, 0)).toBe("Badger, Safari on iPhone");
    expect(friendlyName("curl", 255)).toBe("Wren, a browser");
  });

  it("know phones", () => {
    expect(isPhone(chrome)).toBe(false);
    expect(isPhone(iphone)).toBe(true);
  });

  it("knows an iPad, which says that it is a Mac, by its touch screen", () => {
    const mac = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 " +
      "(KHTML, like Gecko) Version/18.5 Safari/605.1.15";
    expect([isPhone(mac, 0), isPhone(mac, 5)]).toEqual([false, true]);
    expect(friendlyName(mac, 0, 0)).toBe("Badger, Safari on Mac");
    expect(friendlyName(mac, 0, 5)).toBe("Badger, Safari on iPad");
    expect(isPhone(chrome, 10)).toBe(false); // a laptop that can be touched
  });

  it("are cut to 64 bytes between characters", () => {
    expect(limitName("  ok  ")).toBe("ok");
    const long = limitName("ä".repeat(50));
    expect(new TextEncoder().encode(long).length).toBe(64);
    expect(limitName("🦊".repeat(20))).toBe("🦊".repeat(16));
  });
});
