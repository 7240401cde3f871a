// A network for benchmarks: members with lines of their own that lose, delay and limit what they
// carry, one process in the middle, and no other program or kernel module. It wants root.
//
//   build/release/lossy_network MEMBERS COMMAND...
//
// A member is a network namespace with one TUN device. Member i has the address 10.77.0.(i + 1):
//
//   member 0, COMMAND     member 1             member 2
//   10.77.0.1             10.77.0.2            10.77.0.3
//        |                     |                    |
//        +------- line 0       + line 1             + line 2
//                 all packets pass through this process
//
// COMMAND runs at member 0, and the exit status is its own. $WEFT_MEMBERS names the namespaces, so
// that `nsenter --net=NAME weft worker ...` runs at another member; a colon stands between two.
// What COMMAND writes to descriptor 3 sets what a line does with each packet that its member sends
// or gets, and holds for those that come later:
//
//   line 2 loss 0.05 delay_us 1000 bits_per_s 1000000000 udp 0
//
// A line that nobody has set loses nothing, delays nothing and has no limit. One with `udp 0` lets
// no datagrams through, as firewalls do. A limited line has a queue of 50 ms, and loses what finds
// it full. Which packets are lost is drawn anew in each run.
//
// Packets have at most 1,500 bytes. Those that a member sends in one go come here as one long one,
// as they come to a network card. Each of them is lost, or takes its time on the line, by itself;
// those that stay side by side are given to the other member in one go, with the last of them:
//
//   sent  1 2 3 4 5, 4 is lost      given  1 2 3, 5
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <queue>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/result.h"

namespace weft {
namespace {

constexpr uint32_t kNetwork = 0x0a4d0000;  // 10.77.0.0
constexpr int kMostMembers = 250;
// Of a long packet with what is in front of it.
constexpr size_t kMostReadBytes = 68 << 10;
constexpr int kControl = 3;  // COMMAND's descriptor
constexpr int kPacketsATurn = 64;
constexpr int64_t kNs = 1'000'000'000;
constexpr int64_t kMostQueuedNs = kNs / 20;
// A process that sleeps may be woken so much too late: it stays awake for so long before a packet
// is due.
constexpr int64_t kAwakeNs = 50'000;

Error Failed(const char* what) {
  return {ErrorCode::kIo, std::string(what) + " failed: " + std::strerror(errno) +
                              ". Networks of its own are for root alone."};
}

int64_t NowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNs + now.tv_nsec;
}

// ---- members ----

sockaddr_in AddressOf(uint32_t host) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(host);
  return address;
}

ifreq RequestFor(const char* device) {
  ifreq request{};
  std::snprintf(request.ifr_name, IFNAMSIZ, "%s", device);
  return request;
}

Status SetUp(const Descriptor& socket, const char* device) {
  ifreq request = RequestFor(device);
  if (ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return Failed("Reading a device's flags");
  request.ifr_flags = static_cast<int16_t>(request.ifr_flags | IFF_UP);
  if (ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) return Failed("Setting a device up");
  return Ok();
}

Status SetAddress(const Descriptor& socket, const char* device, unsigned long what, uint32_t host) {
  ifreq request = RequestFor(device);
  const sockaddr_in address = AddressOf(host);
  std::memcpy(&request.ifr_addr, &address, sizeof(address));
  if (ioctl(socket.get(), what, &request) != 0) return Failed("Setting a device's address");
  return Ok();
}

struct Member {
  Descriptor network;  // its namespace
  Descriptor tun;
};

// Opens a member in a new namespace, in which this thread is from then on.
Result<Member> OpenMember(int index) {
  constexpr const char* kDevice = "line";
  if (unshare(CLONE_NEWNET) != 0) return Failed("Making a network namespace");
  Member member{Descriptor(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC)),
                Descriptor(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC))};
  if (!member.network.is_open()) return Failed("Opening a network namespace");
  if (!member.tun.is_open()) return Failed("Opening /dev/net/tun");
  ifreq request = RequestFor(kDevice);
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  if (ioctl(member.tun.get(), TUNSETIFF, &request) != 0) return Failed("Making a TUN device");
  // Systems from before Linux 6.2 cut datagrams by themselves, and give them one by one.
  constexpr unsigned kTcp = TUN_F_CSUM | TUN_F_TSO4, kUdpToo = 0x60;  // TUN_F_USO4 and TUN_F_USO6
  if (ioctl(member.tun.get(), TUNSETOFFLOAD, kTcp | kUdpToo) != 0 &&
      ioctl(member.tun.get(), TUNSETOFFLOAD, kTcp) != 0)
    return Failed("Asking for long packets");
  const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return Failed("Opening a socket");
  TRY(SetUp(socket, "lo"));
  TRY(SetAddress(socket, kDevice, SIOCSIFADDR, kNetwork + static_cast<uint32_t>(index) + 1));
  TRY(SetAddress(socket, kDevice, SIOCSIFNETMASK, 0xffffff00));
  TRY(SetUp(socket, kDevice));
  return member;
}

// ---- lines ----

struct Line {
  double loss = 0;
  int64_t delay_ns = 0;
  int64_t bits_per_s = 0;  // 0: as fast as it comes
  bool has_udp = true;
};

// One direction of a line.
class Way {
 public:
  // When a packet that enters now leaves the line, or nullopt: it is lost.
  std::optional<int64_t> Pass(const Line& line, int64_t now_ns, size_t bytes,
                              std::mt19937_64& random) {
    if (line.loss > 0 && std::uniform_real_distribution<>(0, 1)(random) < line.loss)
      return std::nullopt;
    if (line.bits_per_s == 0) return now_ns + line.delay_ns;
    const int64_t begin = std::max(now_ns, free_ns_);
    if (begin - now_ns > kMostQueuedNs) return std::nullopt;
    free_ns_ = begin + static_cast<int64_t>(bytes) * 8 * kNs / line.bits_per_s;
    return free_ns_ + line.delay_ns;
  }

 private:
  int64_t free_ns_ = 0;
};

// ---- packets ----

constexpr uint8_t kUdpProtocol = 17;
constexpr size_t kIpBytes = 20, kUdpBytes = 8;
constexpr uint8_t kTcpFin = 0x01, kTcpPush = 0x08;

// What stands in front of a packet (VirtIO, 5.1.6.1): the system's header for it is C, and no C++.
struct VirtioHeader {
  uint8_t flags = 0;
  uint8_t kind = 0;  // of a packet that stands for several, or 0
  uint16_t header_bytes = 0, part_bytes = 0, sum_begin = 0, sum_at = 0;
};
static_assert(sizeof(VirtioHeader) == 10);

// What a member sent: what VirtIO has in front of a packet, then an IPv4 packet. It may stand for
// several that have `part_bytes` behind their headers (the last one fewer).
class LongPacket {
 public:
  // nullopt: it is nothing that this network carries.
  static std::optional<LongPacket> Of(ByteSpan read) {
    LongPacket packet;
    if (read.size() < sizeof(packet.virtio_) + kIpBytes) return std::nullopt;
    std::memcpy(&packet.virtio_, read.data(), sizeof(packet.virtio_));
    packet.bytes_ = read.subspan(sizeof(packet.virtio_));
    if (packet.bytes_[0] != 0x45) return std::nullopt;  // IPv4 without options
    packet.header_bytes_ = packet.bytes_.size();
    if (packet.virtio_.kind == 0) return packet;  // all of it counts as headers
    const size_t transport_bytes =
        packet.protocol() == kUdpProtocol ? kUdpBytes : size_t{packet.bytes_[32]} >> 4 << 2;
    packet.header_bytes_ = kIpBytes + transport_bytes;
    packet.part_bytes_ = packet.virtio_.part_bytes;
    if (packet.part_bytes_ == 0 || packet.header_bytes_ > packet.bytes_.size()) return std::nullopt;
    return packet;
  }

  uint8_t protocol() const { return bytes_[9]; }
  uint32_t to_host() const {
    uint32_t host = 0;
    std::memcpy(&host, &bytes_[16], sizeof(host));
    return ntohl(host);
  }
  size_t count() const {
    const size_t behind = bytes_.size() - header_bytes_;
    return std::max<size_t>(1, (behind + part_bytes_ - 1) / part_bytes_);
  }
  // Of part `i`, with its headers.
  size_t PacketBytes(size_t i) const {
    return header_bytes_ + std::min(part_bytes_, bytes_.size() - header_bytes_ - i * part_bytes_);
  }

  // Parts [begin, end) as one packet, with what VirtIO wants in front of it.
  std::vector<uint8_t> Parts(size_t begin, size_t end) const {
    VirtioHeader virtio = virtio_;
    const size_t first = begin * part_bytes_;
    const size_t behind = std::min(bytes_.size() - header_bytes_, end * part_bytes_) - first;
    if (end - begin == 1) virtio.kind = 0, virtio.part_bytes = 0;
    std::vector<uint8_t> out(sizeof(virtio) + header_bytes_);
    std::memcpy(out.data(), &virtio, sizeof(virtio));
    std::ranges::copy(bytes_.first(header_bytes_), out.begin() + sizeof(virtio));
    const ByteSpan payload = bytes_.subspan(header_bytes_ + first, behind);
    out.insert(out.end(), payload.begin(), payload.end());
    if (end - begin < count())
      SetHeaders(&out[sizeof(virtio)], first, payload.size(), end < count());
    return out;
  }

 private:
  // Of a packet with `behind` bytes from `first` on; others follow, or none. Checksums of what is
  // inside are left to the system, which takes them for right (VIRTIO_NET_HDR_F_NEEDS_CSUM).
  void SetHeaders(uint8_t* ip, size_t first, size_t behind, bool others_follow) const {
    uint8_t* transport = ip + kIpBytes;
    StoreBe(ip + 2, static_cast<uint16_t>(header_bytes_ + behind));
    if (protocol() == kUdpProtocol) {
      StoreBe(transport + 4, static_cast<uint16_t>(kUdpBytes + behind));
    } else {
      uint32_t sequence = 0;
      std::memcpy(&sequence, transport + 4, sizeof(sequence));
      sequence = htonl(ntohl(sequence) + static_cast<uint32_t>(first));
      std::memcpy(transport + 4, &sequence, sizeof(sequence));
      if (others_follow) transport[13] &= static_cast<uint8_t>(~(kTcpFin | kTcpPush));
    }
    StoreBe(ip + 10, 0);
    uint32_t sum = 0;
    for (size_t i = 0; i < kIpBytes; i += 2) sum += uint32_t{ip[i]} << 8 | ip[i + 1];
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    StoreBe(ip + 10, static_cast<uint16_t>(~sum));
  }
  static void StoreBe(uint8_t* out, uint16_t value) {
    out[0] = static_cast<uint8_t>(value >> 8);
    out[1] = static_cast<uint8_t>(value);
  }

  VirtioHeader virtio_;
  ByteSpan bytes_;
  size_t header_bytes_ = 0, part_bytes_ = 1;
};

struct Packet {
  int64_t due_ns = 0;
  uint64_t number = 0;  // of two that are due at once the one that came first goes first
  size_t to = 0;
  std::vector<uint8_t> bytes;  // as LongPacket::Parts gives them
  bool operator<(const Packet& other) const {
    return std::tie(other.due_ns, other.number) < std::tie(due_ns, number);
  }
};

class Network {
 public:
  explicit Network(std::vector<Member> members)
      : members_(std::move(members)),
        lines_(members_.size()),
        up_(members_.size()),
        down_(members_.size()) {}

  // Carries packets until the process behind `pidfd` ends. `control`: what it writes.
  Status Run(const Descriptor& pidfd, const Descriptor& control) {
    std::vector<pollfd> polled;
    for (const Member& member : members_) polled.push_back({member.tun.get(), POLLIN, 0});
    polled.push_back({control.get(), POLLIN, 0});
    polled.push_back({pidfd.get(), POLLIN, 0});
    const size_t control_at = members_.size(), pid_at = control_at + 1;
    while ((polled[pid_at].revents & POLLIN) == 0) {
      SendDue();
      timespec wait{};
      const int64_t wait_ns =
          queue_.empty() ? kNs : std::max<int64_t>(NextDue() - NowNs() - kAwakeNs, 0);
      wait.tv_sec = wait_ns / kNs;
      wait.tv_nsec = wait_ns % kNs;
      if (ppoll(polled.data(), polled.size(), &wait, nullptr) < 0) {
        if (errno != EINTR) return Failed("Waiting for packets");
        continue;
      }
      for (size_t i = 0; i < members_.size(); ++i)
        if ((polled[i].revents & POLLIN) != 0) Take(i);
      if ((polled[control_at].revents & POLLIN) != 0) TRY(ReadControl(control));
      if ((polled[control_at].revents & POLLHUP) != 0) polled[control_at].fd = -1;
    }
    return Ok();
  }

 private:
  int64_t NextDue() const { return queue_.top().due_ns; }

  void SendDue() {
    for (const int64_t now = NowNs(); !queue_.empty() && NextDue() <= now; queue_.pop())
      Send(queue_.top().to, queue_.top().bytes);
  }

  // A device whose queue is full loses the packet, as a line does.
  void Send(size_t to, const std::vector<uint8_t>& bytes) {
    [[maybe_unused]] const ssize_t ignored =
        write(members_[to].tun.get(), bytes.data(), bytes.size());
  }

  // Takes what a member sends. Packets for nobody here are dropped.
  void Take(size_t from) {
    for (int i = 0; i < kPacketsATurn; ++i) {
      const ssize_t bytes = read(members_[from].tun.get(), buffer_.data(), buffer_.size());
      if (bytes <= 0) return;
      const auto packet = LongPacket::Of(ByteSpan(buffer_).first(static_cast<size_t>(bytes)));
      if (!packet) continue;
      const uint64_t to = uint64_t{packet->to_host()} - kNetwork - 1;
      if (to >= members_.size()) continue;
      if (packet->protocol() == kUdpProtocol && !(lines_[from].has_udp && lines_[to].has_udp))
        continue;
      Pass(*packet, from, to);
    }
  }

  // Each part goes its way over both lines, and those that come side by side are one packet again.
  void Pass(const LongPacket& packet, size_t from, size_t to) {
    const int64_t now_ns = NowNs();
    size_t begin = 0;
    std::optional<int64_t> last_due;
    const auto queue = [&](size_t end) {
      if (last_due) queue_.push({*last_due, ++last_number_, to, packet.Parts(begin, end)});
      last_due.reset();
      begin = end + 1;
    };
    for (size_t i = 0; i < packet.count(); ++i) {
      const auto through = up_[from].Pass(lines_[from], now_ns, packet.PacketBytes(i), random_);
      const auto due = through
                           ? down_[to].Pass(lines_[to], *through, packet.PacketBytes(i), random_)
                           : std::nullopt;
      due ? void(last_due = due) : queue(i);
    }
    queue(packet.count());
  }

  Status ReadControl(const Descriptor& control) {
    std::array<char, 4096> buffer;
    const ssize_t bytes = read(control.get(), buffer.data(), buffer.size());
    if (bytes > 0) pending_.append(buffer.data(), static_cast<size_t>(bytes));
    for (size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n')) {
      TRY(SetLine(pending_.substr(0, end)));
      pending_.erase(0, end + 1);
    }
    return Ok();
  }

  Status SetLine(const std::string& text) {
    std::istringstream words(text);
    std::string word;
    size_t index = 0;
    if (!(words >> word >> index) || word != "line" || index >= lines_.size())
      return Error(ErrorCode::kInvalidArgument,
                   "'" + text + "' is no line of this network: 'line 1 loss 0.05' sets one of " +
                       std::to_string(lines_.size()) + ".");
    Line line = lines_[index];
    for (double value = 0; words >> word >> value;) {
      if (word == "loss") {
        line.loss = value;
      } else if (word == "delay_us") {
        line.delay_ns = static_cast<int64_t>(1000 * value);
      } else if (word == "bits_per_s") {
        line.bits_per_s = static_cast<int64_t>(value);
      } else if (word == "udp") {
        line.has_udp = value != 0;
      } else {
        return Error(ErrorCode::kInvalidArgument,
                     "'" + word + "' is nothing that a line has: loss, delay_us, bits_per_s, udp.");
      }
    }
    lines_[index] = line;
    return Ok();
  }

  const std::vector<Member> members_;
  std::vector<Line> lines_;
  std::vector<Way> up_, down_;  // from a member, and to it
  std::priority_queue<Packet> queue_;
  uint64_t last_number_ = 0;
  std::array<uint8_t, kMostReadBytes> buffer_;
  std::string pending_;  // of a line of control that has not ended
  std::mt19937_64 random_{std::random_device()()};
};

// ---- the command ----

std::string NamesOf(const std::vector<Member>& members) {
  std::string names;
  for (const Member& member : members)
    names += (names.empty() ? "" : ":") + std::string("/proc/") + std::to_string(getpid()) +
             "/fd/" + std::to_string(member.network.get());
  return names;
}

// Runs in the new process; returns only where the command cannot be started.
void BecomeCommand(const Member& place, int control, char** command) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const bool is_there = setns(place.network.get(), CLONE_NEWNET) == 0;
  if (is_there && dup2(control, kControl) == kControl) execvp(command[0], command);
  std::fprintf(stderr, "lossy_network: '%s' cannot be run: %s\n", command[0], std::strerror(errno));
  _exit(127);
}

Result<int> RunNetwork(int count, char** command) {
  std::vector<Member> members;
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(Member member, OpenMember(i));
    members.push_back(std::move(member));
  }
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return Failed("Making a pipe");
  const Descriptor control(ends[0]);
  Descriptor command_end(ends[1]);
  setenv("WEFT_MEMBERS", NamesOf(members).c_str(), 1);
  const pid_t pid = fork();
  if (pid < 0) return Failed("Starting the command");
  if (pid == 0) BecomeCommand(members.front(), command_end.get(), command);
  command_end = {};
  const Descriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.is_open()) return Failed("Watching the command");
  prctl(PR_SET_TIMERSLACK, 1);
  Network network(std::move(members));
  TRY(network.Run(pidfd, control));
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int Main(int argc, char** argv) {
  int members = 0;
  const std::string_view count = argc > 1 ? argv[1] : "";
  std::from_chars(count.data(), count.data() + count.size(), members);
  if (argc < 3 || members < 1 || members > kMostMembers) {
    std::fprintf(stderr, "usage: lossy_network MEMBERS COMMAND..., with 1 to %d members\n",
                 kMostMembers);
    return 2;
  }
  const Result<int> status = RunNetwork(members, argv + 2);
  if (status.ok()) return *status;
  std::fprintf(stderr, "lossy_network: %s\n", status.error().message().c_str());
  return 1;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  return weft::Main(argc, argv);
}
