#include "server/swarm_history.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace weft::server {
namespace json = boost::json;

namespace {

// The last hour and the last day; together they take less than 30 kB.
constexpr Duration kShort = Seconds(10);
constexpr size_t kShortStretches = 360;
constexpr Duration kLong = Seconds(300);
constexpr size_t kLongStretches = 288;
// Looks further apart have seen nothing of the time between them.
constexpr Duration kLongestLook = Seconds(10);

}  // namespace

SwarmHistory::SwarmHistory()
    : levels_{{kShort, kShortStretches, 0, {}}, {kLong, kLongStretches, 0, {}}} {}

void SwarmHistory::Add(Instant now, const swarm::Snapshot& snapshot) {
  const uint64_t added = snapshot.generated_tokens - last_tokens_;
  last_tokens_ = snapshot.generated_tokens;
  const Duration seen = std::min(now - last_look_, kLongestLook);
  last_look_ = now;
  for (Level& level : levels_) {
    Advance(level, now);
    Stretch& stretch = level.stretches.back();
    ++stretch.looks;
    stretch.seen = stretch.seen + seen;
    if (snapshot.state == swarm::SwarmState::kUp) ++stretch.up_looks;
    stretch.tokens += added;
    stretch.devices += snapshot.workers.size();
  }
}

// Stretches without a look in them stay empty: a machine that slept has no history.
void SwarmHistory::Advance(Level& level, Instant now) {
  const int64_t end = now.us / level.width.us + 1;
  if (level.stretches.empty()) level.end = end - 1;
  const auto most = static_cast<int64_t>(level.most_stretches);
  if (end - level.end > most) {
    level.stretches.clear();
    level.end = end - most;
  }
  for (; level.end < end; ++level.end) level.stretches.push_back({});
  while (level.stretches.size() > level.most_stretches) level.stretches.pop_front();
}

std::string SwarmHistory::ToJson(Instant now) const {
  json::array levels;
  for (Level level : levels_) {
    Advance(level, now);
    json::array rates, devices, up;
    for (const Stretch& stretch : level.stretches) {
      if (stretch.looks == 0) {
        for (json::array* list : {&rates, &devices, &up}) list->push_back(nullptr);
        continue;
      }
      const double looks = stretch.looks;
      rates.push_back(static_cast<double>(stretch.tokens) / stretch.seen.seconds());
      devices.push_back(static_cast<double>(stretch.devices) / looks);
      up.push_back(stretch.up_looks / looks);
    }
    levels.push_back(json::object{{"step_s", level.width.seconds()},
                                  {"tokens_per_s", std::move(rates)},
                                  {"devices", std::move(devices)},
                                  {"up", std::move(up)}});
  }
  return json::serialize(json::object{{"levels", std::move(levels)}});
}

}  // namespace weft::server
