// Machines of servers as network namespaces of Linux: each has an address of its own on a bridge
// that this process has the first address of. Needs the rights of root.
import { execFileSync } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const kBridge = "weftbench";
const kNetwork = "10.219.77";

const ip = (...args) => execFileSync("ip", args, { stdio: "pipe" });

// A certificate for all servers: { certificate, key, fingerprint }, the first two as files.
function makeCertificate(folder, addresses) {
  const [certificate, key] = [join(folder, "certificate.pem"), join(folder, "key.pem")];
  execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt",
    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1", "-subj", "/CN=weft bench",
    "-addext", `subjectAltName=${addresses.map((each) => `IP:${each}`)}`,
    "-keyout", key, "-out", certificate], { stdio: "pipe" });
  const { fingerprint256 } = new X509Certificate(readFileSync(certificate));
  return { certificate, key, fingerprint: fingerprint256.replaceAll(":", "").toLowerCase() };
}

// `names` are letters. Gives { host, tls, place(name), kPower, remove }: this process's address,
// the certificate, a server's address and what its program is started with, how it loses its power
// (kills.mjs).
export function machines(names) {
  const folder = mkdtempSync(join(tmpdir(), "weft-machines-"));
  const addressOf = (name) => `${kNetwork}.${[...names].indexOf(name) + 2}`;
  const of = (name) => `weft-${name}`;
  const line = (name) => `weft${name}`; // the end of its cable at the bridge
  const remove = () => {
    for (const name of names) spawnQuietly("netns", "del", of(name));
    spawnQuietly("link", "del", kBridge);
  };
  remove(); // what an earlier run left
  const tls = makeCertificate(folder, [...names].map(addressOf));
  ip("link", "add", kBridge, "type", "bridge");
  ip("addr", "add", `${kNetwork}.1/24`, "dev", kBridge);
  ip("link", "set", kBridge, "up");
  for (const name of names) {
    ip("netns", "add", of(name));
    ip("link", "add", line(name), "type", "veth", "peer", "name", "eth0", "netns", of(name));
    ip("link", "set", line(name), "master", kBridge, "up");
    ip("-n", of(name), "addr", "add", `${addressOf(name)}/24`, "dev", "eth0");
    ip("-n", of(name), "link", "set", "eth0", "up");
    ip("-n", of(name), "link", "set", "lo", "up");
  }
  return {
    host: `${kNetwork}.1`,
    tls,
    place: (name) => ({
      host: addressOf(name),
      prefix: ["ip", "netns", "exec", of(name)],
    }),
    kPower: {
      lose: ({ name }) => ip("link", "set", line(name), "down"),
      mend: async (cluster, leader) => {
        leader.child.kill("SIGKILL");
        await leader.exited;
        ip("link", "set", line(leader.name), "up");
        return await cluster.startAgain(leader);
      },
    },
    remove: () => {
      remove();
      rmSync(folder, { recursive: true });
    },
  };
}

function spawnQuietly(...args) {
  try {
    ip(...args);
  } catch {
    // There is none.
  }
}
