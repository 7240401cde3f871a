// What it costs that another server than the leader has the client: the time between two tokens,
// and the processor's time of both servers for a thousand tokens.
//
// A server has two parts of the work where the leader has the client: it leads, and it speaks HTTP
// and makes text. Where another server has the client, that one does the second part, and a link
// lies between. So what the link adds is (leader + other server) - (leader alone), for each token.
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

const noRun = () => ({ gaps: [], leaderS: 0, gatewayS: 0, seconds: 0 });

// The leader and another server by turns, so that both meet the same noise.
export async function compareGateway(cluster, request, { clients, rounds, turns }) {
  const { server: leader } = await cluster.settled();
  const gateway = cluster.servers.find((each) => each !== leader);
  const runs = { direct: noRun(), forwarded: noRun() };
  for (let turn = 0; turn < turns; ++turn)
    for (const [way, server] of [["direct", leader], ["forwarded", gateway]]) {
      const run = runs[way];
      const cpuOf = () => [leader, gateway].map(({ child }) => cpuSeconds(child.pid));
      const [before, begin] = [cpuOf(), performance.now()];
      run.gaps.push(...await gapsOf(server, request, clients, rounds));
      const after = cpuOf();
      run.leaderS += after[0] - before[0];
      run.gatewayS += after[1] - before[1];
      run.seconds += (performance.now() - begin) / 1000;
    }
  const { direct, forwarded } = runs;
  const tokens = forwarded.gaps.length + turns * rounds * clients;
  const percent = (cpuS) => rounded((100 * cpuS * 1000) / tokens, 1);
  return {
    clients, tokens, tokens_per_s: rounded(tokens / forwarded.seconds, 0),
    direct_p50_ms: rounded(percentile(direct.gaps, 50), 3),
    direct_p99_ms: rounded(percentile(direct.gaps, 99), 3),
    gateway_p50_ms: rounded(percentile(forwarded.gaps, 50), 3),
    gateway_p99_ms: rounded(percentile(forwarded.gaps, 99), 3),
    // Of a core, for 1,000 tokens a second.
    leader_alone_percent: percent(direct.leaderS),
    leader_percent: percent(forwarded.leaderS),
    gateway_percent: percent(forwarded.gatewayS),
    link_adds_percent: percent(forwarded.leaderS + forwarded.gatewayS - direct.leaderS
      - direct.gatewayS),
  };
}
