// Hostile holders and datagrams: whatever they answer, in whatever order, the dispatcher neither
// crashes nor hangs, a layer ends once and with as many numbers as it was begun for, and what is
// kept is bounded. Honest answers are among the things that can happen.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "dispatch/dispatcher.h"
#include "dispatch/holder_channels.h"
#include "dispatch/hub_channel.h"
#include "script.h"

namespace {

using namespace weft;
using namespace weft::dispatch;

constexpr size_t kMaxScriptEvents = 120;
constexpr uint32_t kHolders = 4;
constexpr uint16_t kExperts = 4;
constexpr uint16_t kMostColumns = 300;  // two fragments
constexpr size_t kMostRows = 3;
constexpr DatagramAddress kHub{{1}, 7}, kStranger{{2}, 9};

Options OptionsOf(uint8_t byte) {
  Options options;
  options.adaptive = (byte & 1) != 0;
  options.copies = 1 + (byte >> 1 & 3);
  options.copy_time = (byte & 8) != 0 ? CopyTime::kAtOnce : CopyTime::kWhenLate;
  return options;
}

class Hostility {
 public:
  explicit Hostility(Script script)
      : script_(script),
        dispatcher_(OptionsOf(script_.Byte())),
        channels_({{kHub},
                   [this](MutableByteSpan out) {
                     for (uint8_t& byte : out) byte = ++random_;
                   },
                   125'000}) {}

  void Run() {
    for (size_t i = 0; i < kMaxScriptEvents && !script_.done(); ++i) Next(script_.Byte());
    CHECK(dispatcher_.HeldBytes() <= 2 * 2 * kMostRows * kExperts * kMostColumns * sizeof(float));
    for (const uint32_t id : dispatcher_.HolderIds()) (void)dispatcher_.StatsOf(id);
    // What is due is done: timers lie ahead of it, sooner or later.
    for (int turn = 0; timer_ && *timer_ <= now_; ++turn) {
      CHECK(turn < 100, "the timer is due again and again");
      Do(dispatcher_.OnTimer(now_));
    }
  }

 private:
  struct Begun {
    size_t rows = 0;
    uint32_t top_k = 0;
    uint16_t hidden = 0;
    bool sums = false;
  };

  void Next(uint8_t what) {
    const uint32_t batch = what >> 4 & 1;
    const uint32_t holder = 1 + (what >> 4) % kHolders;
    switch (what % 16) {
      case 0:
        return Begin(batch);
      case 1:
        return SetHolders();
      case 2:
        return Answer(holder, false);
      case 3:
        return Answer(holder, true);
      case 4:
        return Shards(holder);
      case 5:
        return Do(dispatcher_.OnMalformed(now_, holder, "It is no message."));
      case 6: {
        const uint32_t waiting = script_.Word();
        return Do(dispatcher_.OnHeartbeat(now_, holder, {waiting, script_.Word(), 0, 0}));
      }
      case 7:
        if (timer_) now_ = std::max(now_, *timer_);
        return Do(dispatcher_.OnTimer(now_));
      case 8:
        now_ = now_ + Microseconds(script_.Byte() * int64_t{1000});
        return;
      case 9:
        begun_[batch].reset();
        return Do(dispatcher_.Abandon(now_, batch));
      case 10:
        return Lines();
      case 11:
        return Sums(holder, false);
      case 12:
        return Sums(holder, true);
      case 13:
        return Sent(holder);
      case 14:
        return dispatcher_.FixCopies(script_.Byte() % 5);
      default:
        return Channels(holder);
    }
  }

  void Begin(uint32_t batch) {
    if (begun_[batch]) return;
    const uint8_t shape = script_.Byte();
    Begun begun;
    begun.rows = 1 + shape % kMostRows;
    begun.sums = (shape & 4) != 0;
    begun.hidden = (shape & 8) != 0 ? kMostColumns : 2;
    begun.top_k = begun.sums ? kExperts : 1 + (shape >> 4) % 2;
    const std::vector<float> rows(begun.rows * begun.hidden, 0.5f);
    std::vector<uint32_t> experts;
    for (size_t row = 0; row < begun.rows; ++row) {
      const uint32_t first = begun.sums ? 0 : script_.Byte();
      for (uint32_t j = 0; j < begun.top_k; ++j) experts.push_back((first + j) % kExperts);
    }
    const uint16_t layer = shape >> 6 & 1;
    begun_[batch] = begun;
    const SlotKind all = (shape & 16) != 0 ? SlotKind::kRanges : SlotKind::kSums;
    LayerWork work{layer, begun.top_k, begun.hidden,
                   rows,  experts,     begun.sums ? all : SlotKind::kExperts};
    work.range_columns = begun.hidden;
    if (work.kind == SlotKind::kRanges) begun_[batch]->sums = false;
    work.may_lose = work.kind == SlotKind::kSums && (shape & 32) != 0;
    Do(dispatcher_.Begin(now_, batch, work));
  }

  void SetHolders() {
    std::vector<Holder> holders;
    const uint8_t who = script_.Byte();
    for (uint32_t id = 1; id <= kHolders; ++id) {
      if ((who >> id & 1) == 0) continue;
      Holder holder{id, {}};
      const uint8_t held = script_.Byte();
      for (uint16_t i = 0; i < 2 * kExperts; ++i)
        if ((held >> i & 1) != 0) holder.experts.emplace_back(i / kExperts, i % kExperts);
      holders.push_back(std::move(holder));
    }
    Do(dispatcher_.SetHolders(now_, script_.Byte() == 0 ? statement_ : ++statement_,
                              std::move(holders)));
  }

  // To what this holder was asked, or nearly.
  void Answer(uint32_t holder, bool hostile) {
    std::vector<wire::ExpertFrame>& asked = asked_[holder];
    if (asked.empty()) return;
    const size_t place = script_.Byte() % asked.size();
    wire::ExpertFrame frame = asked[place];
    if (!hostile) asked.erase(asked.begin() + static_cast<ptrdiff_t>(place));
    frame.type = wire::ExpertFrameType::kResult;
    frame.same_rows = frame.may_sum = false;
    std::vector<uint8_t> rows(size_t{frame.tokens} * frame.hidden * sizeof(float));
    const auto value = hostile ? script_.Word() : 0x3f800000u;
    for (size_t i = 0; i < rows.size(); i += sizeof(float)) StoreLe<uint32_t>(&rows[i], value);
    frame.rows = Slice(std::move(rows));
    if (hostile) Change(frame);
    Do(dispatcher_.OnResult(now_, holder, frame));
  }

  void Change(wire::ExpertFrame& frame) {
    const uint8_t what = script_.Byte();
    const uint8_t by = script_.Byte();
    if (what == 0) frame.sequence ^= by;
    if (what == 1) frame.sequence ^= wire::kBatchBit;
    if (what == 2) frame.layer = by;
    if (what == 3) frame.expert = by;
    if (what == 4) frame.tokens ^= by;
    if (what == 5) frame.hidden ^= by;
    if (what == 6) frame = wire::FailedResult(frame, "no");
    if (what == 7)
      for (uint16_t expert = 0; expert < 8; ++expert)
        if ((by >> expert & 1) != 0 && expert > frame.expert) frame.added.push_back(expert);
    if (what == 8) frame.rows = frame.rows.Sub(0, frame.rows.byte_count() - 1);
    if (what == 9) frame.type = wire::ExpertFrameType::kDispatch;
    if (what == 10) frame.may_lose = !frame.may_lose;
  }

  void Shards(uint32_t holder) {
    const std::vector<uint8_t> bytes = script_.Bytes();
    const auto message = wire::DecodeShardMessage(Slice(bytes));
    if (!message.ok()) return;
    for (const wire::ExpertFrame& frame : message->frames)
      Do(dispatcher_.OnResult(now_, holder, frame));
  }

  void Lines() {
    std::map<uint32_t, double> lines;
    const uint8_t who = script_.Byte();
    for (uint32_t id = 1; id <= kHolders; ++id)
      if ((who >> id & 1) != 0) lines[id] = script_.Byte() / 256.0;
    dispatcher_.SetLines(std::move(lines));
    std::vector<float> norms(script_.Byte() % 6, 1.0f);
    dispatcher_.SetLosses(0.25 * (who >> 6), {{0, std::move(norms)}});
  }

  std::optional<wire::ExpertFrame> LastAsked(uint32_t holder) const {
    const auto asked = asked_.find(holder);
    if (asked == asked_.end() || asked->second.empty()) return std::nullopt;
    return asked->second.back();
  }

  void Sums(uint32_t holder, bool hostile) {
    const auto asked = LastAsked(holder);
    if (!asked) return Do(dispatcher_.OnSums(now_, holder, script_.Bytes()));
    wire::GroupSet groups(kExperts);
    const uint8_t which = script_.Byte();
    for (uint16_t group = 0; group < kExperts; ++group)
      if ((which >> group & 1) != 0) groups.Add(group);
    const std::vector<float> values(asked->hidden, 1.0f);
    const wire::SumsOf of{asked->sequence, asked->layer, wire::kMlpBlock};
    auto bodies = wire::SumsBodies(of, which >> 4, groups, values);
    for (std::vector<uint8_t>& body : bodies) {
      if (hostile && !body.empty()) body[script_.Byte() % body.size()] ^= script_.Byte();
      Do(dispatcher_.OnSums(now_, holder, body));
    }
  }

  void Sent(uint32_t holder) {
    const auto asked = LastAsked(holder);
    if (!asked || script_.Byte() % 4 == 0)
      return Do(dispatcher_.OnSent(now_, holder, script_.Bytes()));
    const auto body = wire::SentBody({asked->sequence, asked->layer, wire::kMlpBlock});
    Do(dispatcher_.OnSent(now_, holder, body));
  }

  // Both ends of the channels, and a line between them that anybody may write to.
  void Channels(uint32_t holder) {
    const uint8_t what = script_.Byte();
    if (what % 4 == 0) {
      std::map<uint32_t, bool> ids;
      for (uint32_t id = 1; id <= kHolders; ++id)
        if ((what >> (2 + id) & 1) != 0) ids[id] = (what & 128) != 0;
      channels_.SetHolders(now_, ids);
      for (auto& [id, channel] : channels_.TakeAgreements()) {
        const auto read = wire::ReadChannel(wire::ChannelFrame(channel));
        CHECK(read.ok() && *read == channel);
        senders_.erase(id);
        senders_.emplace(id, HubChannel(now_, channel));
      }
    }
    const auto sender = senders_.find(holder);
    std::vector<OutgoingDatagram> sent;
    if (what % 4 == 1 && sender != senders_.end()) {
      sender->second.OnTimer(now_);
      sent = sender->second.TakeDatagrams();
      if (const auto ready = sender->second.TakeAnswer())
        channels_.OnReady(now_, holder, {sender->second.key_epoch(), *ready});
    }
    if (what % 4 == 2) sent.push_back({kStranger, script_.Bytes()});
    if (what % 4 == 3) channels_.OnTimer(now_);
    for (OutgoingDatagram& datagram : sent) {
      if ((what & 128) != 0 && !datagram.bytes.empty())
        datagram.bytes[script_.Byte() % datagram.bytes.size()] ^= script_.Byte();
      const auto heard = channels_.OnDatagram(now_, kStranger, datagram.bytes);
      size_t answered = 0;
      for (const OutgoingDatagram& out : channels_.TakeDatagrams()) {
        answered += out.bytes.size();
        if (sender != senders_.end()) sender->second.OnDatagram(now_, kHub, out.bytes);
      }
      CHECK(answered <= datagram.bytes.size(), "an answer is longer than what asked for it");
      if (heard && heard->type == wire::DatagramType::kSums)
        Do(dispatcher_.OnSums(now_, heard->holder, heard->body));
    }
  }

  void Do(const Actions& actions) {
    timer_ = actions.timer;
    for (const Send& send : actions.sends) {
      CHECK(!send.frames.empty() && send.frames.size() <= wire::kMaxShardFrames);
      for (const wire::ExpertFrame& frame : send.frames)
        if (frame.type == wire::ExpertFrameType::kDispatch) asked_[send.holder].push_back(frame);
    }
    for (const Done& done : actions.done) {
      std::optional<Begun>& begun = begun_[done.batch];
      CHECK(begun, "a layer ended twice");
      const size_t slots = begun->rows * (begun->sums ? 1 : begun->top_k);
      CHECK(done.slot_rows.size() == slots * begun->hidden);
      CHECK(done.lost.empty() || done.lost.size() == begun->rows);
      // The sum of finite rows need not be; the engine looks at what goes on.
      CHECK(begun->sums || std::all_of(done.slot_rows.begin(), done.slot_rows.end(),
                                       [](float value) { return std::isfinite(value); }));
      begun.reset();
    }
  }

  Script script_;
  uint8_t random_ = 0;
  Dispatcher dispatcher_;
  HolderChannels channels_;
  std::map<uint32_t, HubChannel> senders_;
  Instant now_{1'000'000};
  std::optional<Instant> timer_;
  uint32_t statement_ = 0;
  std::optional<Begun> begun_[2];
  std::map<uint32_t, std::vector<wire::ExpertFrame>> asked_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  Hostility(Script(data, byte_count)).Run();
  return 0;
}
