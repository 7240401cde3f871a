#include "dispatch/message_line.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace weft::dispatch {
namespace {

using Type = wire::DatagramType;

// An answer that comes within this time confirms its question.
constexpr Duration kReceivedDelay = Milliseconds(1);
constexpr Duration kLeastAnswerTime = Milliseconds(2), kLongestAnswerTime = Milliseconds(200);
constexpr Duration kFirstAnswerTime = Milliseconds(30);
constexpr Duration kLeastOvertaken = Microseconds(200);
// P costs a packet in so many, and is worth it from this loss on; Q costs one more.
constexpr size_t kPacketsOfParity = kMostOfParity;
constexpr double kLossForParity = 0.002, kLossForTwo = 0.015;
constexpr double kLossShare = 1.0 / 64;
constexpr size_t kMostParities = 32;
// Of a PARITY, in front of the lengths and bytes that are combined.
constexpr size_t kParityHeadBytes = 18;

// No line lives to send more, and numbers need no care about their end.
constexpr uint32_t kLastNumber = 0xf0000000u;

// As parities count a packet: its length, then its bytes.
std::vector<uint8_t> LengthAndBytes(const std::vector<uint8_t>& bytes) {
  std::vector<uint8_t> both(sizeof(uint16_t));
  StoreLe<uint16_t>(both.data(), static_cast<uint16_t>(bytes.size()));
  both.insert(both.end(), bytes.begin(), bytes.end());
  return both;
}

}  // namespace

bool MessageLine::HasRoomFor(size_t byte_count) const {
  const size_t packets = (byte_count + kPacketBytes - 1) / kPacketBytes;
  return !is_broken() && under_way_.size() + packets <= kWindow;
}

void MessageLine::Send(Instant now, std::vector<uint8_t> message) {
  CHECK(!message.empty() && HasRoomFor(message.size()));
  const auto count = static_cast<uint16_t>((message.size() + kPacketBytes - 1) / kPacketBytes);
  const uint32_t first = last_number_ + 1;
  for (uint16_t place = 0; place < count; ++place) {
    const size_t begin = place * kPacketBytes;
    const size_t end = std::min(message.size(), begin + kPacketBytes);
    Packet& packet = under_way_.emplace_back();
    packet.number = ++last_number_;
    packet.place = place;
    packet.count = count;
    packet.bytes.assign(message.begin() + static_cast<ptrdiff_t>(begin),
                        message.begin() + static_cast<ptrdiff_t>(end));
    SendPacket(now, packet);
  }
  if (count > 1) QueueParities(first, count);
}

void MessageLine::SendPacket(Instant now, Packet& packet) {
  if (is_broken()) return;
  packet.sent = now;
  packet.order = ++sends_;
  if (packet.sends == 0) {
    packet.first_sent = now;
    NoteLoss(0);
  }
  const bool is_in_vain = ++packet.sends > kMostSends && last_heard_ <= packet.first_sent;
  if (is_in_vain || packet.sends > 4 * kMostSends || packet.number > kLastNumber) is_broken_ = true;
  out_.push_back(packet.number);
}

void MessageLine::NoteLoss(double lost) {
  loss_ += kLossShare * (lost - loss_);
  if (loss_ > kMostLoss) is_broken_ = true;
}

// What the other way loses says something about this one, too: what is made again there is not sent
// again, and so is not seen here.
void MessageLine::QueueParities(uint32_t first, size_t count) {
  const double loss = std::max(loss_, restored_);
  if (loss < kLossForParity) return;
  const size_t parts = (count + kPacketsOfParity - 1) / kPacketsOfParity;
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = part * count / parts, end = (part + 1) * count / parts;
    if (end - begin < 2) continue;
    const auto number = first + static_cast<uint32_t>(begin);
    QueueParity(number, end - begin, ParityKind::kP);
    if (loss >= kLossForTwo) QueueParity(number, end - begin, ParityKind::kQ);
  }
}

// The last packet comes first in Q: each one behind it doubles what is there.
void MessageLine::QueueParity(uint32_t first, size_t count, ParityKind kind) {
  Parity parity{first, static_cast<uint8_t>(count), kind, {}};
  for (auto packet = under_way_.rbegin(); packet != under_way_.rend(); ++packet) {
    if (packet->number - first >= count) continue;
    const std::vector<uint8_t> both = LengthAndBytes(packet->bytes);
    if (kind == ParityKind::kP)
      AddTimes(1, both, parity.lengths_and_bytes);
    else
      DoubleAndAdd(both, parity.lengths_and_bytes);
  }
  parities_out_.push_back(std::move(parity));
}

// ---- what was received there ----

// Until its answer comes, or RECEIVED; each further send waits for twice as long.
Duration MessageLine::AnswerTime(const Packet& packet) const {
  Duration time = kFirstAnswerTime;
  if (usual_us_) {
    const double us = *usual_us_ + std::max(500.0, 4 * deviation_us_);
    time = kReceivedDelay + Microseconds(static_cast<int64_t>(us));
  }
  time = std::max(kLeastAnswerTime, time) * (int64_t{1} << std::min(packet.sends - 1, 6u));
  return std::min(kLongestAnswerTime, time);
}

// Of a packet that others overtake: a quarter more than usual.
Duration MessageLine::TimeToCome() const {
  const auto quarter = Microseconds(static_cast<int64_t>(usual_us_.value_or(0) / 4));
  return Microseconds(static_cast<int64_t>(usual_us_.value_or(0))) +
         std::max(kLeastOvertaken, quarter);
}

void MessageLine::SampleAnswer(Duration time) {
  const auto us = static_cast<double>(time.us);
  if (!usual_us_) {
    usual_us_ = us;
    deviation_us_ = us / 2;
    return;
  }
  deviation_us_ += (std::abs(us - *usual_us_) - deviation_us_) / 4;
  *usual_us_ += (us - *usual_us_) / 8;
}

void MessageLine::OnReceived(Instant now, uint32_t below, uint64_t bits) {
  if (below > last_number_ + 1) return;  // what was never sent
  const Packet* newest = nullptr;
  for (Packet& packet : under_way_) {
    const uint32_t behind = packet.number - below - 1;
    const bool has_come =
        packet.number < below || (packet.number > below && behind < 64 && (bits >> behind & 1));
    if (!has_come || packet.has_come) continue;
    packet.has_come = true;
    newest_come_ = std::max(newest_come_, packet.order);
    if (packet.sends == 1) newest = &packet;
  }
  if (newest != nullptr) SampleAnswer(now - newest->sent);
  while (!under_way_.empty() && under_way_.front().has_come) under_way_.pop_front();
  ResendOvertaken(now);
}

void MessageLine::ResendOvertaken(Instant now) {
  for (Packet& packet : under_way_) {
    if (packet.has_come || packet.order >= newest_come_) continue;
    if (now - packet.sent < TimeToCome()) continue;
    NoteLoss(1);
    SendPacket(now, packet);
  }
}

// Where an answer is late, all packets of its question go again, often of a machine that was busy
// for a while: they count as one that was lost.
void MessageLine::OnTimer(Instant now) {
  ResendOvertaken(now);
  bool is_late = false;
  for (Packet& packet : under_way_) {
    if (packet.has_come || now - packet.sent < AnswerTime(packet)) continue;
    if (!std::exchange(is_late, true)) NoteLoss(1);
    SendPacket(now, packet);
  }
  is_received_due_ = is_received_due_ || (owes_received_ && now >= *owes_received_);
}

std::optional<Instant> MessageLine::timer() const {
  std::optional<Instant> due = owes_received_;
  if (is_broken()) return due;
  for (const Packet& packet : under_way_) {
    if (packet.has_come) continue;
    const Duration wait = packet.order < newest_come_ ? std::min(TimeToCome(), AnswerTime(packet))
                                                      : AnswerTime(packet);
    if (!due || packet.sent + wait < *due) due = packet.sent + wait;
  }
  return due;
}

// ---- what comes ----

std::vector<Slice> MessageLine::OnBody(Instant now, Type type, ByteSpan body) {
  if (body.size() < kReceivedBytes) return {};
  last_heard_ = now;
  OnReceived(now, LoadLe<uint32_t>(body.data()), LoadLe<uint64_t>(body.data() + 4));
  if (type == Type::kReceived || body.size() <= kHeadBytes) return {};
  if (type == Type::kPacket) OnPacket(now, body);
  if (type == Type::kParity) OnParity(now, body);
  Restore();
  return Whole();
}

void MessageLine::OnPacket(Instant now, ByteSpan body) {
  const auto number = LoadLe<uint32_t>(body.data() + 12);
  const auto place = LoadLe<uint16_t>(body.data() + 16);
  const auto count = LoadLe<uint16_t>(body.data() + 18);
  const ByteSpan bytes = body.subspan(kHeadBytes);
  const bool is_new = Add(number, {place, count, {bytes.begin(), bytes.end()}});
  if (is_new) restored_ -= kLossShare * restored_;
  // What came already was sent again because nothing said that it had come.
  OweReceived(now, !is_new || (HasGap() && place + 1 == count) ? Duration{} : kReceivedDelay);
}

void MessageLine::OnParity(Instant now, ByteSpan body) {
  Parity parity;
  parity.first = LoadLe<uint32_t>(body.data() + 12);
  parity.count = body[16];
  parity.kind = static_cast<ParityKind>(body[17]);
  parity.lengths_and_bytes.assign(body.begin() + kParityHeadBytes, body.end());
  if (body[17] > static_cast<uint8_t>(ParityKind::kQ) || parity.count < 2 ||
      parity.count > kPacketsOfParity || parity.first > next_ + kWindow)
    return;
  if (parities_.size() >= kMostParities) parities_.erase(parities_.begin());
  parities_.push_back(std::move(parity));
  OweReceived(now, kReceivedDelay);
}

// Whether it is new; what is further ahead than a line sends is nobody's packet.
bool MessageLine::Add(uint32_t number, Came packet) {
  if (packet.place >= packet.count || packet.count > kWindow || packet.bytes.empty()) return false;
  if (number < next_ || number - next_ >= kWindow) return false;
  const bool is_new = came_.emplace(number, std::move(packet)).second;
  while (came_.contains(next_)) ++next_;
  return is_new;
}

// P and Q of the same packets are looked at together, and others have other packets: each parity is
// looked at once.
void MessageLine::Restore() {
  for (const Parity& parity : parities_) RestoreBy(parity);
  // Nothing is missing, or its packets are given away.
  std::erase_if(parities_, [this](const Parity& parity) {
    return next_ >= parity.end() || parity.first < next_message_;
  });
}

// One packet that is missing, or two where the other parity of these packets is there, too.
void MessageLine::RestoreBy(const Parity& parity) {
  if (next_ >= parity.end() || parity.first < next_message_) return;
  const auto other = std::ranges::find_if(parities_, [&parity](const Parity& each) {
    return each.first == parity.first && each.count == parity.count && each.kind != parity.kind;
  });
  const size_t most = other == parities_.end() ? 1 : 2;
  std::vector<uint32_t> missing;
  std::optional<uint32_t> beside;
  for (uint32_t number = parity.first; number != parity.end(); ++number) {
    if (came_.contains(number))
      beside = number;
    else
      missing.push_back(number);
  }
  if (missing.empty() || missing.size() > most || !beside) return;
  std::vector<uint8_t> sum = parity.lengths_and_bytes, other_sum;
  if (missing.size() == 2) other_sum = other->lengths_and_bytes;
  for (uint32_t number = parity.first; number != parity.end(); ++number) {
    const auto found = came_.find(number);
    if (found == came_.end()) continue;
    const std::vector<uint8_t> both = LengthAndBytes(found->second.bytes);
    AddTimes(parity.FactorOf(number), both, sum);
    if (missing.size() == 2) AddTimes(other->FactorOf(number), both, other_sum);
  }
  const uint8_t factor = parity.FactorOf(missing[0]);
  std::vector<uint8_t> first;
  if (missing.size() == 1) {
    AddTimes(InverseInField(factor), sum, first);
    return AddRestored(missing[0], first, *beside);
  }
  // a x + b y = sum and c x + d y = other_sum, so (a d + b c) x = d sum + b other_sum.
  const uint8_t b = parity.FactorOf(missing[1]), c = other->FactorOf(missing[0]);
  const uint8_t d = other->FactorOf(missing[1]);
  const auto both = static_cast<uint8_t>(TimesInField(factor, d) ^ TimesInField(b, c));
  AddTimes(TimesInField(d, InverseInField(both)), sum, first);
  AddTimes(TimesInField(b, InverseInField(both)), other_sum, first);
  AddTimes(factor, first, sum);
  std::vector<uint8_t> second;
  AddTimes(InverseInField(b), sum, second);
  AddRestored(missing[0], first, *beside);
  AddRestored(missing[1], second, *beside);
}

// `beside` is a packet of the same message that came.
void MessageLine::AddRestored(uint32_t number, const std::vector<uint8_t>& lengths_and_bytes,
                              uint32_t beside) {
  const auto length = LoadLe<uint16_t>(lengths_and_bytes.data());
  if (length == 0 || length > lengths_and_bytes.size() - sizeof(length)) return;
  const Came& known = came_.at(beside);
  const auto place = static_cast<uint16_t>(known.place + (number - beside));
  const auto begin = lengths_and_bytes.begin() + sizeof(length);
  if (Add(number, {place, known.count, {begin, begin + length}}))
    restored_ += kLossShare * (1 - restored_);
}

bool MessageLine::HasGap() const {
  return !came_.empty() && next_ < came_.rbegin()->first;
}

void MessageLine::OweReceived(Instant now, Duration at_most) {
  const Instant due = now + at_most;
  if (!owes_received_ || due < *owes_received_) owes_received_ = due;
  is_received_due_ = is_received_due_ || now >= due;
}

// The other end has the keys, and may send what fits nowhere all the same: that ends the line.
std::vector<Slice> MessageLine::Whole() {
  std::vector<Slice> whole;
  while (next_message_ < next_ && !is_wrong_) {
    const auto first = came_.find(next_message_);
    const uint16_t count = first->second.count;
    if (next_ - next_message_ < count) break;
    std::vector<uint8_t> message;
    auto packet = first;
    for (uint16_t place = 0; place < count; ++place, packet = came_.erase(packet)) {
      if (packet->second.place != place || packet->second.count != count) is_wrong_ = true;
      message.insert(message.end(), packet->second.bytes.begin(), packet->second.bytes.end());
    }
    next_message_ += count;
    if (!is_wrong_) whole.emplace_back(std::move(message));
  }
  return whole;
}

// ---- bodies ----

void MessageLine::StoreReceived(uint8_t* out) const {
  uint64_t bits = 0;
  for (const auto& [number, packet] : came_)
    if (number > next_ && number - next_ <= 64) bits |= uint64_t{1} << (number - next_ - 1);
  StoreLe<uint32_t>(out, next_);
  StoreLe<uint64_t>(out + 4, bits);
}

std::vector<uint8_t> MessageLine::HeadOf(const Packet& packet) const {
  std::vector<uint8_t> body(kHeadBytes + packet.bytes.size());
  StoreReceived(body.data());
  StoreLe<uint32_t>(&body[12], packet.number);
  StoreLe<uint16_t>(&body[16], packet.place);
  StoreLe<uint16_t>(&body[18], packet.count);
  std::copy(packet.bytes.begin(), packet.bytes.end(), body.begin() + kHeadBytes);
  return body;
}

std::vector<MessageLine::Body> MessageLine::TakeBodies() {
  std::vector<Body> bodies;
  for (const uint32_t number : std::exchange(out_, {}))
    for (const Packet& packet : under_way_)
      if (packet.number == number) bodies.push_back({Type::kPacket, HeadOf(packet)});
  for (const Parity& parity : std::exchange(parities_out_, {})) {
    Body& body = bodies.emplace_back(Body{Type::kParity, {}});
    body.bytes.resize(kParityHeadBytes + parity.lengths_and_bytes.size());
    StoreReceived(body.bytes.data());
    StoreLe<uint32_t>(&body.bytes[12], parity.first);
    body.bytes[16] = parity.count;
    body.bytes[17] = static_cast<uint8_t>(parity.kind);
    std::ranges::copy(parity.lengths_and_bytes, body.bytes.begin() + kParityHeadBytes);
  }
  if (bodies.empty() && is_received_due_) {
    bodies.push_back({Type::kReceived, std::vector<uint8_t>(kReceivedBytes)});
    StoreReceived(bodies.back().bytes.data());
  }
  if (!bodies.empty()) owes_received_.reset(), is_received_due_ = false;
  return bodies;
}

}  // namespace weft::dispatch
