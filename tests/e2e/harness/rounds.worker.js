// Times the known kernel of web/packages/engine-ort on numbers of threads, one after another.
import { timeRound } from "../../../web/packages/engine-ort/src/threadTimer.ts";

self.onmessage = async ({ data: counts }) => {
  const times = [];
  for (const count of counts) times.push(await timeRound(count));
  self.postMessage(times);
};
