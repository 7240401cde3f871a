// The dispatcher sends the rows of a layer to the holders of its experts, and collects one row for
// every slot. It is a state machine without I/O, clock or threads. Events go in with the time,
// actions come out; the simulator runs it as production does (moex-expert-disaggregation 3.4
// algorithm 1, 4.1, 4.3).
//
//   Begin -> one message a holder, all experts and tokens of the layer in it, all holders at once
//     | result: the first valid one of an expert wins, CANCEL to who else computes it
//     | late:   a copy to another holder, as the hedging says
//     | timeout: another holder; who let it pass is asked after others for a while, and after three
//     |          in a row not at all until its next heartbeat
//     | nobody left: Missing; the layer waits for SetHolders or a heartbeat, nothing is dropped
//   Done when every slot has its row
//
// A batch has one layer under way (the barrier that keeps queues short); two batches may be under
// way. The hub's own experts are a holder like any other, with the hub's own number.
//
// A layer may want sums (neuron groups). Everybody who can be asked then has a share of the
// experts, and answers with one row, the sum of its share. An expert counts once. If a sum holds
// one that is there already, nothing is taken of the sum, and its others are asked again. Nothing
// is copied ahead of a timeout, as shares, unlike experts, are as many as there are holders.
//
// The output head may be in ranges of the vocabulary. Everybody has a share of these, too, and
// answers with the logits of each range in it, or with the two best where no more is wanted. So may
// products inside a layer, such as those of attention.
//
// A layer in groups may lose some of them (LayerWork::may_lose). Holders with a line for datagrams
// are then asked for their sums in fragments (wire/group_sums.h), and nobody waits for a lost
// fragment (dispatcher_lossy.cc). The most critical groups are asked for as always beside these.
//
// Slot rows are unweighted, and the hub sums them in the route's order. So the bits of a layer
// depend neither on who computed what, nor on how many copies were sent.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/slot_kind.h"
#include "dispatch/latency_window.h"
#include "dispatch/layer_forecast.h"
#include "dispatch/loss_guard.h"
#include "dispatch/share_cost.h"
#include "wire/expert_frame.h"
#include "wire/group_sums.h"

namespace weft::dispatch {

enum class CopyTime { kAtOnce, kWhenLate };

struct Options {
  // Fixed hedging asks `copies` holders for an expert, the further ones at once or each when the
  // one before it is late. Adaptive hedging sends a copy, at once or later, up to `copies`. It does
  // so where the layer then ends earlier by more than a share of a round trip (layer_forecast.h).
  bool adaptive = true;
  uint32_t copies = 4;
  CopyTime copy_time = CopyTime::kWhenLate;  // of fixed hedging
  // Late is what took longer than this share of a holder's last round trips.
  double late_share = 0.95;
  Duration first_late = Milliseconds(100);  // before there are any
  // Fixed hedging waits at most this, and adaptive hedging less. Rows of a long batch have time of
  // their own beside it.
  Duration timeout = Milliseconds(500);
  Duration least_timeout = Milliseconds(100);
  Duration demotion = Seconds(5);  // how long a timeout makes a holder one for copies only
  uint32_t timeouts_to_unhealthy = 3;
  uint32_t bad_answers_to_aside = 3;
};

// A holder that can be asked, and what it holds.
struct Holder {
  uint32_t id = 0;
  std::vector<std::pair<uint16_t, uint16_t>> experts;  // layer, expert
  bool sends_steps = false;                            // it knows sums in steps of their grid
  bool takes_integers = false;                         // it knows rows as whole numbers
};

// The work of one layer of a batch. Slot (row, j) is number row * top_k + j.
struct LayerWork {
  uint16_t layer = 0;
  uint32_t top_k = 0;
  uint16_t hidden = 0;                // columns of a row, and of a slot's row but in ranges
  std::span<const float> rows;        // [tokens, hidden], copied
  std::span<const uint32_t> experts;  // [tokens, top_k], each below kAnyExpert
  // As sums one row for each token is wanted, the sum of its slots, whose order does not matter. Of
  // shared kinds every token has the same experts, each once.
  SlotKind kind = SlotKind::kExperts;
  // Of sums, what is lost on the way may be left out.
  bool may_lose = false;
  // How large the groups' outputs for these rows will be, by group; empty: as SetLosses said.
  std::span<const float> norms = {};
  // Of sums: no value of an expert's row is further from 0; 0: that is not known. Who sends more
  // has not computed it.
  float largest_slot = 0;
  uint16_t range_columns = 0;  // in ranges: columns of a slot's row
  float slot_step = 0;         // of sums: all values are whole multiples of it; 0: of none
  // The experts multiply whole numbers (tensor/integer_row.h): the rows may travel as such.
  bool in_integers = false;
  uint16_t slot_hidden() const { return IsInRanges(kind) ? range_columns : hidden; }
};

// Frames for a holder, dispatches or cancels, that fit one shard message.
struct Send {
  uint32_t holder = 0;
  std::vector<wire::ExpertFrame> frames;
};
struct Done {
  uint32_t batch = 0;
  uint16_t layer = 0;
  // [tokens * top_k, slot_hidden()], or the sums [tokens, hidden].
  std::vector<float> slot_rows;
  // Of each token, how many experts are missing in some columns of its sum; empty: none are.
  std::vector<uint32_t> lost;
};
// Nobody who can be asked holds these experts; the batch waits.
struct Missing {
  uint32_t batch = 0;
  uint16_t layer = 0;
  std::vector<uint16_t> experts;
};
// A holder gave its last bad answer; it is not asked again.
struct PutAside {
  uint32_t holder = 0;
  std::string sentence;
};

struct Actions {
  std::vector<Send> sends;
  std::vector<Done> done;
  std::vector<Missing> missing;
  std::vector<PutAside> put_aside;
  // Holders of which no datagram came in several layers, though it was to.
  std::vector<uint32_t> doubted;
  std::optional<Instant> timer;  // when OnTimer is due; replaces the one before
};

// The counts of what a holder did so far.
struct HolderStats {
  uint64_t calls = 0;             // experts asked of it
  uint64_t rows = 0;              // that these were to be computed for
  uint64_t hedges = 0;            // calls for an expert that somebody had been asked for already
  uint64_t wins = 0, losses = 0;  // calls: it answered first; it was cancelled
  uint64_t won_hedges = 0, lost_hedges = 0;  // hedges among them
  uint64_t timeouts = 0, bad_answers = 0, stale_answers = 0;
  uint64_t sent_bytes = 0, received_bytes = 0;  // of rows
  // The groups in sums of one row whose answers say how long they were computed, and how long.
  uint64_t computed_groups = 0, computed_us = 0;
  // Of the last LatencyWindow::kSamples round trips of few rows; 0: there were none.
  Duration p50, p95, slowest;
  Duration queue;  // what waits there, as it said last
  bool is_unhealthy = false, is_aside = false;
};

// The counts of layers that could lose groups, so far.
struct LossStats {
  uint64_t groups = 0, lost = 0;  // of each row
  uint64_t late = 0;              // fragments of layers that did not wait for them any more
  // The fragments by what became of them.
  std::array<uint64_t, wire::kSumsOutcomes> fragments{};
  // Layers whose losses were asked for again, and of the last of them the mean of the norm of what
  // was lost by the norm of the whole sum.
  uint64_t canaries = 0;
  double drift = 0;
};

class Dispatcher {
 public:
  explicit Dispatcher(Options options);

  // REQUIRES: batch 0 or 1 with nothing under way; at least one row; rows that fit a frame
  // (wire::kMaxFrameTokens, wire::kMaxShardRowBytes).
  Actions Begin(Instant now, uint32_t batch, const LayerWork& work);
  // Drops the batch's layer, which is not wanted any more.
  Actions Abandon(Instant now, uint32_t batch);
  // Asks so many holders for an expert at once in layers that begin from now on. 0 means as the
  // constructor's options say.
  void FixCopies(uint32_t copies);
  // Rows of experts are sent so, and wanted so, in layers that begin from now on. Sums and heads
  // are always in f32.
  void SetRowType(wire::RowType type) { row_type_ = type; }
  // Takes all who can be asked now. A statement that is not newer than the last one's changes
  // nothing.
  Actions SetHolders(Instant now, uint32_t statement, std::vector<Holder> holders);
  // What is known of an answer beside its rows: when it came, where that is not now, and how long
  // its sender computed for it.
  struct AnswerTimes {
    std::optional<Instant> came;
    std::optional<Duration> computed;
  };
  // Of a message with results: a heartbeat behind them says how long they took.
  static AnswerTimes TimesOf(std::span<const wire::ExpertFrame> frames,
                             std::optional<Instant> came = std::nullopt);
  // Takes a decoded result frame. An answer counts against the holder and is refused in three
  // cases. It does not answer a dispatch exactly, it is not finite, or it cannot be the sum of so
  // many experts.
  Actions OnResult(Instant now, uint32_t holder, const wire::ExpertFrame& frame,
                   const AnswerTimes& times);
  Actions OnResult(Instant now, uint32_t holder, const wire::ExpertFrame& frame) {
    return OnResult(now, holder, frame, {});
  }
  // Counts a message of this holder that is no shard message, too.
  Actions OnMalformed(Instant now, uint32_t holder, const std::string& sentence);
  Actions OnHeartbeat(Instant now, uint32_t holder, const wire::Heartbeat& heartbeat);
  Actions OnTimer(Instant now);
  // What this holder was asked may not have come there: it, or another one, is asked again.
  Actions AskAgain(Instant now, uint32_t holder);

  // Of layers that may lose groups: when that is too much, and how large the outputs of each
  // layer's groups are; without, all count alike.
  void SetLosses(double limit, std::map<uint16_t, std::vector<float>> norms);
  // Who may answer in datagrams from now on, and which share of these is lost.
  void SetLines(std::map<uint32_t, double> losses) { lines_ = std::move(losses); }
  // Bodies of wire::DatagramType::kSums and kSent that this holder has sent.
  Actions OnSums(Instant now, uint32_t holder, ByteSpan body);
  Actions OnSent(Instant now, uint32_t holder, ByteSpan body);
  const LossGuard& guard() const { return guard_; }
  const LossStats& losses() const { return losses_; }

  // It waits for an expert that nobody who can be asked holds.
  bool IsMissing(uint32_t batch) const;
  std::vector<uint32_t> HolderIds() const;
  std::optional<HolderStats> StatsOf(uint32_t holder) const;
  // Of rows kept: for dispatches that may be sent again, and of slots.
  size_t HeldBytes() const;

 private:
  // Messages of more rows than this take time for their rows, which says nothing about a round
  // trip.
  static constexpr size_t kShortRows = 16;
  static constexpr uint32_t kMostBackoff =
      8;  // timeouts of what was asked again are so much longer

  // An expert asked of a holder.
  struct Copy {
    uint32_t holder = 0;
    Instant sent, deadline;
    uint32_t sends = 0, answers = 0;
    bool is_timed_out = false;
    bool is_closed = false;  // answered or cancelled: nothing is expected of it
    bool is_hedge = false;   // HolderStats
  };
  struct Task {
    uint16_t expert = 0;
    std::vector<uint32_t> slots;  // rising
    // As sent, one for each slot; as whole numbers where the batch may have them.
    Slice rows, integers;
    std::vector<Copy> copies;  // one a holder at most
    std::optional<Instant> next_copy;
    bool is_done = false, is_missing = false;
  };
  // What a holder was asked to send in datagrams.
  struct Share {
    uint32_t holder = 0;
    wire::GroupSet groups;
    Instant sent, merge_at, last_came;
    bool has_come = false;  // something of it
    bool is_sent = false;   // all of it is on its way
  };
  struct Batch {
    bool is_active = false;
    uint32_t sequence = 0;
    uint16_t layer = 0, hidden = 0, slot_hidden = 0;
    std::vector<Task> tasks;  // by expert
    size_t left = 0;
    SlotKind kind = SlotKind::kExperts;
    wire::RowType row_type = wire::RowType::kF32;
    float largest_slot = 0;            // LayerWork's
    float slot_step = 0;               // LayerWork's, where holders may send steps
    bool is_forecast = false;          // adaptive hedging of few rows
    std::optional<Instant> next_look;  // whether a copy pays by now
    std::vector<float> slot_rows;
    // Where groups may be lost: the sums so far, in the place of slot_rows.
    std::optional<wire::GroupSums> account;
    // Of a canary, which loses nothing in the end: the groups of which something was given up, and
    // their sums that came later, in the columns that were lost.
    bool is_canary = false;
    std::optional<wire::GroupSet> given_up;
    std::vector<float> lost_sums;
    std::vector<Share> shares;
    std::vector<float> norms;  // LayerWork's
  };
  struct HolderState {
    std::set<std::pair<uint16_t, uint16_t>> experts;  // layer, expert
    bool sends_steps = false, takes_integers = false;
    LatencyWindow round_trips;     // of short messages
    std::optional<double> row_us;  // of long ones
    // Of short messages, and of long ones times their rows.
    std::array<ShareCost, 2> sum_costs, range_costs, product_costs;
    uint32_t open = 0;  // copies that are not closed
    Duration queue;     // at its last heartbeat
    uint32_t timeouts_in_a_row = 0, bad_answers = 0;
    std::optional<Instant> last_counted;  // of messages that timed out
    Duration unanswered;                  // how long it was waited for since its last answer
    std::optional<Instant> silent_since;  // the first thing asked of it that it did not answer
    Instant demoted_until;
    bool is_unhealthy = false, is_aside = false;
    std::array<std::optional<uint32_t>, 2> last_sequence;
    // Fragments may overtake each other by so much; the last layer that did not wait for some.
    Duration overtaking = Milliseconds(5);
    std::optional<uint32_t> given_up;
    // Shares of which nothing came, in a row, and when the last of them was asked for.
    uint32_t silent_shares = 0;
    std::optional<Instant> silent_share;
    HolderStats stats;
  };
  using Holders = std::map<uint32_t, HolderState>;

  static std::vector<Task> MakeTasks(const LayerWork& work, wire::RowType type, bool in_integers);
  static Slice Packed(const LayerWork& work, std::span<const uint32_t> rows, wire::RowType type);

  // Holders that can be asked for it and are not among its open copies, best first.
  std::vector<uint32_t> Candidates(Instant now, uint16_t layer, const Task& task) const;
  Duration Predicted(const HolderState& holder) const;
  Duration LateAfter(const HolderState& holder, size_t row_count) const;
  static Duration SilenceOf(Instant now, const HolderState& holder);
  Duration BehindOf(const HolderState& holder) const;
  Duration TimeoutOf(const HolderState& holder, size_t row_count, uint32_t sends) const;
  Duration RangeTimeoutOf(const HolderState& holder, size_t row_count, uint32_t sends) const;
  // Few rows: who is asked first for each expert, then copies as long as one pays.
  void DispatchForecast(Instant now, uint32_t batch);
  void SendCopiesThatPay(Instant now, uint32_t batch);
  void DispatchFirst(Instant now, uint32_t batch, Task& task);
  // Sums (dispatcher_sums.cc).
  void DispatchShares(Instant now, uint32_t batch);
  using Costs = std::array<ShareCost, 2>;
  static const Costs& CostsOf(const HolderState& holder, SlotKind kind) {
    if (kind == SlotKind::kProducts) return holder.product_costs;
    return IsOfHead(kind) ? holder.range_costs : holder.sum_costs;
  }
  static Costs& CostsOf(HolderState& holder, SlotKind kind) {
    return const_cast<Costs&>(CostsOf(std::as_const(holder), kind));
  }
  static double WorkOf(const Batch& batch, double parts);
  double ShareUs(const HolderState& holder, SlotKind kind, bool is_long, double count) const;
  void NoteRanges(Instant came, HolderState& holder, const Batch& batch, const Copy& copy,
                  size_t row_count);
  // Sums that may lose some (dispatcher_lossy.cc).
  struct Choice {
    Task* task = nullptr;
    std::vector<uint32_t> ids;  // who could be asked
    uint32_t id = 0;            // who is
  };
  bool MayLose(Instant now, const LayerWork& work, const Batch& batch) const;
  void BeginLossy(const LayerWork& work, Batch& batch);
  float NormOf(const Batch& batch, uint32_t group) const;
  bool KnowsNorms(const Batch& batch) const;
  double LossOf(uint32_t holder) const;
  void PutCriticalFirst(const Batch& batch, std::vector<Choice>& choices) const;
  // REQUIRES: the most critical choices are first.
  void MakeShares(Instant now, Batch& batch, std::span<const Choice> choices) const;
  // The groups that a holder was asked for in one message, whichever way each comes.
  static size_t AskedTogether(const Batch& batch, const Copy& copy);
  static Share* FindShare(Batch& batch, uint32_t holder);
  static bool IsInShare(Batch& batch, const Task& task, uint32_t holder);
  wire::SumsOutcome CountSums(Instant now, uint32_t holder, ByteSpan body);
  Duration MergeMargin(const HolderState& holder) const;
  void NoteCame(Instant now, uint32_t batch, Share& share);
  void EndShare(Instant now, uint32_t batch, uint32_t holder);
  void DropShare(Batch& batch, uint32_t holder);
  void NoteSilence(Batch& batch, uint32_t holder);
  void MergeDue(Instant now);
  static void TakeSum(Batch& batch, const wire::ExpertFrame& frame);
  void NoteLosses(Instant now, const Batch& batch, Done& done);
  void NoteDrift(const Batch& batch);
  // A result with the rows of several experts in it. REQUIRES: of the batch's sequence.
  Status AcceptSum(Instant now, uint32_t holder, const wire::ExpertFrame& frame);
  void Ask(Instant now, uint32_t batch, Task& task, uint32_t holder);
  // After a copy came to nothing: another holder unless one is still computing.
  void Redispatch(Instant now, uint32_t batch, Task& task);
  void RetryMissing(Instant now);
  void Close(Copy& copy);
  static void CountWin(HolderState& holder, const Copy& copy);
  void AvoidWhoIsSilent(Instant now, HolderState& holder);
  void Cancel(Instant now, const Batch& batch, Task& task);
  static bool IsAsked(const Task& task, uint32_t holder);
  bool IsWaitedFor(const Copy& copy) const { return !copy.is_closed && !copy.is_timed_out; }
  void Expire(Instant now, uint32_t batch, Task& task);

  Status Accept(Instant now, uint32_t holder, const wire::ExpertFrame& frame);
  static Task* FindTask(Batch& batch, uint16_t expert);
  // The copy of this expert, of which the frame is an answer that is owed.
  Result<Copy*> AskedFor(uint32_t holder, const wire::ExpertFrame& frame, uint16_t expert);
  // Reads the frame's rows into values_, too.
  Status CheckRows(const Batch& batch, const Task& task, const wire::ExpertFrame& frame);
  void Take(Instant now, uint32_t batch, Task& task, Copy& copy, const wire::ExpertFrame& frame);
  void NoteAnswer(Instant came, HolderState& holder, const Copy& copy, size_t row_count,
                  size_t shares);
  void NoteComputed(HolderState& holder, size_t row_count, size_t groups) const;
  // REQUIRES: CheckRows of this frame was ok.
  void TakeRows(Batch& batch, const Task& task, const wire::ExpertFrame& frame) const;
  void End(Instant now, Batch& batch, Task& task);
  void EndIfDone(Instant now, uint32_t batch);
  void Sample(HolderState& holder, Duration round_trip, size_t row_count);
  void CountBad(Instant now, uint32_t holder, const std::string& sentence);
  void Drop(Instant now, uint32_t holder);

  // What was queued since the event came, as actions.
  Actions Finish(Instant now);
  std::vector<uint32_t> SendingOrder() const;
  // A task's dispatch to a holder, but for whether it repeats rows.
  static wire::ExpertFrame FrameFor(uint32_t id, const HolderState& holder, Batch& batch,
                                    const Task& task);
  void FlushSends(Instant now);
  void SetTimer();

  Options first_options_;
  Options options_;
  wire::RowType row_type_ = wire::RowType::kF32;
  uint32_t statement_ = 0;
  Holders holders_;
  std::array<Batch, 2> batches_;
  std::array<uint32_t, 2> counters_{};
  LossGuard guard_;
  LossStats losses_;
  uint64_t lossy_layers_ = 0;
  std::map<uint16_t, std::vector<float>> norms_;  // by layer
  std::map<uint32_t, double> lines_;              // by holder
  struct Queued {
    uint32_t batch = 0;
    Task* task = nullptr;
  };
  std::map<uint32_t, std::vector<Queued>> outbox_;
  std::map<uint32_t, std::vector<wire::ExpertFrame>> cancels_;
  AnswerTimes times_;          // of the result that is taken
  std::vector<float> values_;  // its rows'
  Actions actions_;
};

}  // namespace weft::dispatch
