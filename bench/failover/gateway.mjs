// What it costs that another server than the leader has the client: the time between two tokens,
// and the processor's time of that server for a thousand tokens.
import { readFileSync } from "node:fs";

import { streamChat } from "../lib/chat_client.mjs";
import { percentile, rounded } from "../lib/statistics.mjs";

const kTicksPerS = 100; // of /proc/PID/stat

function cpuSeconds(pid) {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / kTicksPerS;
}

// Streams `rounds` answers at once from each of `clients`; the gaps between their pieces, in ms.
async function gapsOf(server, request, clients, rounds) {
  const gaps = [];
  const client = async () => {
    for (let i = 0; i < rounds; ++i) {
      let last = 0;
      const { error } = await streamChat(server.origin, request, (piece, atMs) => {
        if (last > 0) gaps.push(atMs - last);
        last = atMs;
      });
      if (error) throw new Error(error);
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  return gaps;
}

// The leader and another server by turns, so that both meet the same noise.
export async function compareGateway(cluster, request, { clients, rounds, turns }) {
  const { server: leader } = await cluster.settled();
  const gateway = cluster.servers.find((each) => each !== leader);
  const [direct, forwarded] = [[], []];
  let [cpu, seconds] = [0, 0];
  for (let turn = 0; turn < turns; ++turn) {
    direct.push(...await gapsOf(leader, request, clients, rounds));
    const [before, begin] = [cpuSeconds(gateway.child.pid), performance.now()];
    forwarded.push(...await gapsOf(gateway, request, clients, rounds));
    cpu += cpuSeconds(gateway.child.pid) - before;
    seconds += (performance.now() - begin) / 1000;
  }
  const tokens = forwarded.length + turns * rounds * clients;
  return {
    clients, tokens, tokens_per_s: rounded(tokens / seconds, 0),
    direct_p50_ms: rounded(percentile(direct, 50), 3),
    direct_p99_ms: rounded(percentile(direct, 99), 3),
    gateway_p50_ms: rounded(percentile(forwarded, 50), 3),
    gateway_p99_ms: rounded(percentile(forwarded, 99), 3),
    gateway_core_percent_per_1000_tokens_a_s: rounded((100 * cpu * 1000) / tokens, 1),
  };
}
