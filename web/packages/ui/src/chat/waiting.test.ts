import { describe, expect, it } from "vitest";
import { readPicture } from "../swarm/picture.ts";
import type { SwarmPicture } from "../swarm/picture.ts";
import { accepted, readProgress, startWaiting, waitingText } from "./waiting.ts";

function swarm(state: string): SwarmPicture {
  const picture = readPicture({ state, message: "Two devices load." });
  if (!picture) throw new Error("not a picture");
  return picture;
}

const up = swarm("up");
const waiting = accepted(startWaiting());

describe("the words", () => {
  it("before the server has said anything about the request", () => {
    expect(waitingText(startWaiting(), up)).toBe("Sending");
    expect(waitingText(waiting, up)).toBe("Reading the prompt");
    expect(waitingText(waiting, null)).toBe("Reading the prompt");
  });

  it.each([
    ["progress {\"requests_ahead\":12}", "12 requests ahead of yours"],
    ["progress {\"requests_ahead\":1}", "1 request ahead of yours"],
    ["progress {\"requests_ahead\":0}", "Waiting: yours is the next request"],
    ["progress {\"prompt_tokens\":1200,\"prompt_done\":320}",
      "Reading the prompt, 320 of 1\u202f200 tokens"],
  ])("%s", (comment, words) => {
    expect(waitingText({ ...waiting, progress: readProgress(comment) }, up)).toBe(words);
  });

  it("while devices load its model, whatever the picture is of", () => {
    const text = (comment: string): string =>
      waitingText({ ...waiting, progress: readProgress(comment) }, swarm("preparing"));
    expect(text("progress {\"loading\":\"qwen3-8b\",\"percent\":40}"))
      .toBe("Loading qwen3-8b, 40%");
    expect(text("progress {\"loading\":\"qwen3-8b\"}")).toBe("Loading qwen3-8b");
  });

  it("while it moves to another server, whatever the picture says", () => {
    const progress = readProgress("progress {\"moving\":true}");
    expect(waitingText({ ...waiting, progress }, swarm("preparing")))
      .toBe("Moving to another server");
  });

  it("while the swarm itself is not ready", () => {
    const progress = readProgress("progress {\"requests_ahead\":0}");
    expect(waitingText({ ...waiting, progress }, swarm("preparing")))
      .toBe("Waiting for the swarm. Two devices load.");
  });
});

it.each([
  "", "waiting", "progress", "progress {", "progress 7", "progress null", "progress {}",
  "progress {\"requests_ahead\":-1}", "progress {\"requests_ahead\":\"2\"}",
  "progress {\"prompt_tokens\":5,\"prompt_done\":6}", "progress {\"prompt_tokens\":5}",
  "progress {\"loading\":4}", "progress {\"moving\":1}",
])("is nothing that %j tells", (comment) => {
  expect(readProgress(comment)).toBeNull();
});
