// What the owner of a server that never was sees, in the JSON of /api/admin and /api/keys: for
// working on the page without weft, and for the page's tests.
import { Buffer } from "node:buffer";
import { threeDevices } from "./mock_swarm.mjs";

const kMiB = 2 ** 20;

function ownedDevice(device, more = {}) {
  return {
    ...device, model: "weft-tiny", layers: 10, layers_beside: null, layers_ready: [],
    address: "192.168.1.20", is_own: false, connected_s: 4000, silent_s: 0.2, busy_share: 0.34,
    is_leaving: false, aside: null, upload_bytes_per_s: 8e6, ...more,
  };
}

function ownedModel(name, more = {}) {
  return {
    name, state: "on disk", stays: false, weight_bytes: 14_680_064, need_bytes: 90 * kMiB,
    waiting_requests: 0, goes_in_s: null, problem: "", use: null, ...more,
  };
}

function namedKey(name, role, more = {}) {
  return {
    id: 1, name, role, state: "active", models: [], per_minute: null, tokens_per_day: null,
    at_once: null, created: "2027-01-04T09:00:00Z", expires: null, ended: null,
    today: { requests: 0, prompt_tokens: 0, cached_prompt_tokens: 0, completion_tokens: 0 },
    ...more,
  };
}

export class MockAdmin {
  evicted = [];
  orders = []; // "POST /api/admin/devices/evict {...}", as they came
  hasSeveral = true;

  constructor() {
    const [own, tab, phone] = threeDevices();
    this.devices = [
      ownedDevice(own, { is_own: true, address: "in this process" }),
      ownedDevice(tab, { layers_ready: [[7, 10]] }),
      ownedDevice(phone, {
        silent_s: 42, problem: "It gave 7 values that are not finite.",
        aside: { reason: "It failed too often in a row. It gets nothing for a while, longer " +
          "each time.", for_s: 61 },
      }),
    ];
    this.models = [
      ownedModel("qwen3-8b", {
        problem: "There is no memory for 'qwen3-8b' while the devices hold 'weft-tiny'.",
      }),
      ownedModel("weft-tiny", {
        state: "loaded", goes_in_s: 290,
        use: {
          message: "Ready: 3 devices compute the model.", is_up: true, devices: 3,
          active_requests: 2, queued_requests: 1,
          askers: [
            { name: "maths", is_key: true, requests: 2 },
            { name: "192.168.1.7", is_key: false, requests: 1 },
          ],
        },
      }),
    ];
    this.keys = [
      namedKey("maths", "user", {
        per_minute: 60, tokens_per_day: 100_000, models: ["weft-tiny"],
        today: { requests: 12, prompt_tokens: 3000, completion_tokens: 400 },
      }),
      namedKey("class-7b", "helper", { expires: "2027-06-30T18:00:00Z" }),
      namedKey("old", "user", { state: "ended", ended: "2027-01-05T09:00:00Z" }),
    ];
  }

  // Null: the path is another's.
  async answer(pathname, request) {
    if (!/^\/api\/(admin|keys)(\/|$)/.test(pathname)) return null;
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    const text = Buffer.concat(pieces).toString();
    const { method } = request;
    if (method === "GET") return this.#list(pathname);
    this.orders.push(`${method} ${pathname}${text === "" ? "" : ` ${text}`}`);
    return this.#order(method, pathname, text === "" ? {} : JSON.parse(text));
  }

  #list(pathname) {
    if (pathname === "/api/keys") return { object: "list", data: this.keys };
    if (pathname === "/api/admin/models") {
      return { models: this.models, has_several: this.hasSeveral };
    }
    return { devices: this.devices, evicted: this.evicted };
  }

  #order(method, pathname, body) {
    const name = pathname.split("/").at(-1);
    if (pathname === "/api/admin/devices/evict") {
      const gone = this.devices.find(({ id }) => id === body.worker);
      this.devices = this.devices.filter((device) => device !== gone);
      this.evicted.push({
        number: this.evicted.length + 1, name: gone.name, kind: gone.kind,
        address: gone.address, ends_in_s: 3600,
      });
    } else if (pathname.startsWith("/api/admin/evicted/")) {
      this.evicted = this.evicted.filter(({ number }) => number !== Number(name));
    } else if (pathname === "/api/keys") {
      const made = namedKey(body.name, body.role, { expires: body.expires ?? null });
      this.keys.push(made);
      return { ...made, key: `weft-${"a".repeat(32)}` };
    } else if (method === "DELETE") {
      this.keys = this.keys.map((key) => (key.name === decodeURIComponent(name)
        ? { ...key, state: "ended", ended: "2027-01-06T09:00:00Z" } : key));
    } else {
      const state = name === "load" ? "loading" : "unloading";
      this.models = this.models.map((model) =>
        (model.name === body.model ? { ...model, state, problem: "" } : model));
    }
    return {};
  }
}
