// The workers of a cell, each behind a link of its own that can be cut: native processes, or tabs
// of headless Chromium. Both fail and return in the ways that schedule.mjs names.
import { linkCache, startWorker } from "../lib/weft_processes.mjs";

// What the processes and tabs of a cell have in common.
class Member {
  constructor(index, link, relays) {
    Object.assign(this, { index, link, relays, name: `w${index}`, healthy: true });
  }

  async fail(kind) {
    this.healthy = false;
    if (kind === "cut") await this.relays.cut(this.index);
    else if (kind === "silent") await this.relays.silence(this.index);
    else await this.failItself(kind);
  }

  async recover(kind) {
    if (kind === "cut" || kind === "silent") await this.relays.heal(this.index);
    else await this.recoverItself(kind);
    this.healthy = true;
  }
}

export class NativeMember extends Member {
  unexpectedEnds = 0;

  // `blobs`: a folder of a cache that holds the whole model, as if it had been downloaded before.
  constructor(index, link, relays, { weft, offerBytes, threads, folder, blobs }) {
    super(index, link, relays);
    Object.assign(this, { weft, offerBytes, threads, folder });
    linkCache(blobs, folder);
  }

  start() {
    const args = ["--memory", String(this.offerBytes), "--threads", String(this.threads),
      "--cache", this.folder, "--name", this.name];
    const child = startWorker(this.weft, this.link, args);
    this.process = child;
    child.ended.then(() => {
      if (this.process !== child || this.ending || !this.healthy) return;
      ++this.unexpectedEnds;
      console.error(`${this.name} ended by itself: ${child.lines.slice(-5).join("\n")}`);
      this.start();
    });
  }

  async recover(kind) {
    if (kind !== "kill" && this.process.exited) {
      ++this.unexpectedEnds;
      this.start();
    }
    await super.recover(kind);
  }

  async failItself(kind) {
    this.process.signal(kind === "kill" ? "SIGKILL" : "SIGSTOP");
  }

  async recoverItself(kind) {
    if (kind === "kill") this.start();
    else this.process.signal("SIGCONT");
  }

  async end() {
    this.ending = true;
    await this.process.end();
  }
}

// A tab is killed by closing it, which its worker learns no sooner than the server does.
export class TabMember extends Member {
  unexpectedEnds = 0;

  constructor(index, link, relays, { tabs, context, offerBytes }) {
    super(index, link, relays);
    Object.assign(this, { tabs, context, offerBytes });
  }

  async start() {
    this.tab = await this.tabs.Tab.open(this.context, this.link);
    await this.tab.start({ name: this.name, memoryBytes: this.offerBytes });
  }

  async failItself() {
    await this.tab.close();
  }

  async recoverItself() {
    await this.start();
  }

  async end() {
    await this.context.close();
  }
}

