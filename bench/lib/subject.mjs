// A process that is measured: it does what each line of its input says, and answers with a line of
// JSON. Its first line says what it is.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

export class Subject {
  #child;
  #lines;

  static async start(name, command, args) {
    const subject = new Subject();
    subject.name = name;
    subject.#child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
    subject.#lines = createInterface({ input: subject.#child.stdout })[Symbol.asyncIterator]();
    subject.about = await subject.#answer();
    return subject;
  }

  async #answer() {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(`${this.name} ended before it answered.`);
    return JSON.parse(value);
  }

  async ask(line) {
    this.#child.stdin.write(`${line}\n`);
    return this.#answer();
  }

  async ms(line) {
    return (await this.ask(line)).ms;
  }

  async end() {
    this.#child.stdin.end();
    await new Promise((resolve) => this.#child.once("exit", resolve));
  }
}
