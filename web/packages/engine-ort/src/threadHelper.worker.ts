// A thread that helps to compute the rounds of threadTimer.ts.
import { ThreadRound } from "./threadRound.ts";

export interface HelperStart {
  memory: SharedArrayBuffer;
  thread: number;
  threads: number;
}

self.onmessage = ({ data }: MessageEvent<HelperStart>) => {
  const round = new ThreadRound(data.memory, data.threads);
  self.postMessage("ready");
  round.help(data.thread);
  self.close();
};
