import { expect, it } from "vitest";
import { readPicture } from "../swarm/picture.ts";
import type { SwarmPicture } from "../swarm/picture.ts";
import { accepted, seePicture, startWaiting, waitingText } from "./waiting.ts";

function queue(queued: number, state = "up"): SwarmPicture {
  const picture = readPicture({ state, message: "Two devices load.", queued_requests: queued });
  if (!picture) throw new Error("not a picture");
  return picture;
}

it("counts down and never up", () => {
  let waiting = seePicture(startWaiting(0), queue(7));
  expect(waitingText(waiting, queue(7))).toBe("Sending");
  waiting = accepted(waiting);
  const heard: string[] = [];
  for (const queued of [3, 5, 2, 1, 4, 0, 6]) {
    waiting = seePicture(waiting, queue(queued));
    heard.push(waitingText(waiting, queue(queued)));
  }
  expect(heard).toEqual([
    "Waiting: 2 before you", "Waiting: 2 before you", "Waiting: 1 before you",
    "Waiting: you are next", "Waiting: you are next", "Reading the prompt", "Reading the prompt",
  ]);
});

it("says when the swarm itself is not ready", () => {
  expect(waitingText(accepted(startWaiting(0)), queue(1, "preparing")))
    .toBe("Waiting for the swarm. Two devices load.");
  expect(waitingText(accepted(startWaiting(0)), null)).toBe("Reading the prompt");
});
