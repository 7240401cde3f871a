// A tab of a browser that is driven by W3C WebDriver's commands, however they reach it: scripts,
// clicks and keys. firefox.mjs and webkit.mjs beside this file start one.
import assert from "node:assert/strict";

import { eventually } from "./weft.mjs";

// Of scripts, in ms; the standard's 30 s are little where cores are busy.
export const kTimeouts = { script: 240_000 };
const kElement = "element-6066-11e4-a52e-4f735466cecf"; // of the standard

// `commands`: {navigate(url), executeAsync(script, args), find(css), click(id), type(id, text)},
// each with what the standard answers; `errors()`: the console's errors since the last time, of
// pages that are served from `watched(webRoot)`; `kill()`: ends the browser at once, as a crash;
// `keepsWeights`: whether a worker may write files there.
export class Driven {
  constructor(name, commands, { errors, watched, kill, close, keepsWeights }) {
    this.name = name;
    this.commands = commands;
    this.errors = errors;
    this.watched = watched;
    this.kill = kill;
    this.close = close;
    this.keepsWeights = keepsWeights;
  }

  async goto(url) {
    await this.commands.navigate(url);
  }

  // body: a function of the page, with arguments that JSON can say; it may be async.
  async evaluate(body, ...args) {
    const script = `const done = arguments[arguments.length - 1];
      Promise.resolve().then(() => (${body})(...[...arguments].slice(0, -1))).then(
        (value) => done(JSON.stringify({ value })),
        (error) => done(JSON.stringify({ error: String(error) + (error.stack ?? "") })));`;
    const { value, error } = JSON.parse(await this.commands.executeAsync(script, args));
    assert.equal(error, undefined);
    return value;
  }

  // Waits until body gives something true, and gives that.
  async until(body, ...args) {
    return await eventually(async () => {
      const value = await this.evaluate(body, ...args);
      if (value) return value;
      const text = await this.evaluate(() => document.body.innerText);
      assert.fail(`${this.name}: not yet ${body}; the page says: ${text}`);
    }, 60_000);
  }

  async sees(text) {
    await this.until((wanted) => document.body.innerText.includes(wanted), text);
  }

  async #find(css) {
    return (await this.commands.find(css))[kElement];
  }

  async click(css) {
    await this.commands.click(await this.#find(css));
  }

  // Clicks the first of these elements that says exactly this.
  async clickOn(text, css = "button") {
    const place = await this.until((wanted, selector) => {
      const all = [...document.querySelectorAll(selector)];
      const found = all.find((each) => each.innerText.trim() === wanted);
      if (found) found.dataset.clicked = wanted;
      return found ? `[data-clicked="${wanted}"]` : "";
    }, text, css);
    await this.click(place);
    await this.evaluate((at) => delete document.querySelector(at)?.dataset.clicked, place);
  }

  // "\n" is the Enter key.
  async type(css, text) {
    await this.commands.type(await this.#find(css), text.replaceAll("\n", "\uE007"));
  }
}

// Programs of a browser end with its driver, and their folders may be written to until then.
export const kRemoval = { recursive: true, force: true, maxRetries: 10, retryDelay: 100 };
