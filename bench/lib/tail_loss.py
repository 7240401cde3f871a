"""One row of ./dev bench tail-loss, in a network namespace of its own: round trips of 1,500
requests over TCP, and what the kernel counted. Arguments: per cent lost, bytes a write, and which
packets (full or any)."""
import os
import socket
import statistics
import subprocess
import sys
import threading
import time

ROUNDS, REQUEST, ANSWER, PORT = 1500, 600, 4137, 9999
COUNTERS = {"TcpOutSegs": "segments", "TcpRetransSegs": "again", "TcpExtTCPFastRetrans": "fast",
            "TcpExtTCPLossProbes": "probes", "TcpExtTCPTimeouts": "timeouts"}


def counted():
    said = subprocess.run(["nstat", "-az"], capture_output=True, text=True, check=True).stdout
    lines = map(str.split, said.splitlines())
    return {fields[0]: int(fields[1]) for fields in lines if fields[0] in COUNTERS}


def lose(per_cent, full_only):
    link = ["ip", "link", "set", "lo", "up", "mtu", "1500", "gso_max_segs", "1"]
    subprocess.run(link, check=True)
    if per_cent == 0:
        return
    which = "ip length 1500 " if full_only else ""
    rules = ("table ip loss { chain input { type filter hook input priority 0; "
             f"tcp sport {PORT} {which}numgen random mod 1000 < {per_cent * 10:.0f} drop\n}}\n}}\n")
    subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)


def receive(connection, count):
    while count > 0:
        part = connection.recv(count)
        if not part:
            return False
        count -= len(part)
    return True


def answer(listener, piece):
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    message = bytes(ANSWER)
    while receive(connection, REQUEST):
        for at in range(0, ANSWER, piece):
            connection.sendall(message[at:at + piece])


def main():
    per_cent, piece, which = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    lose(per_cent, which == "full")
    listener = socket.create_server(("127.0.0.1", PORT))
    threading.Thread(target=answer, args=(listener, piece), daemon=True).start()
    times_ms = []
    with socket.create_connection(("127.0.0.1", PORT)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        before = counted()
        for _ in range(ROUNDS):
            began = time.monotonic()
            connection.sendall(bytes(REQUEST))
            receive(connection, ANSWER)
            times_ms.append(1000 * (time.monotonic() - began))
        after = counted()
    times_ms.sort()
    counts = ", ".join(f"{after[key] - before[key]} {name}" for key, name in COUNTERS.items())
    print(f"{per_cent:g}% of {which} packets, writes of {piece}: "
          f"mean {statistics.mean(times_ms):.2f} ms, p50 {times_ms[ROUNDS // 2]:.3f}, "
          f"p99 {times_ms[ROUNDS * 99 // 100]:.1f}; {counts}", flush=True)


if __name__ == "__main__":
    main()
