#include "server/key_table.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/sentence.h"

namespace weft::server {
namespace {

constexpr std::string_view kClientPrefix = "key ";
constexpr Duration kMinute = Seconds(60);
constexpr Duration kOthersWait = Seconds(5);  // of requests that other servers have let in
constexpr int64_t kMsPerDay = 86'400'000;

int64_t CeilSeconds(Duration duration) {
  return (std::max<int64_t>(duration.us, 0) + 999'999) / 1'000'000;
}

// OpenAI's spelling: "1m30s", "45s", "0s".
std::string DurationText(Duration duration) {
  const int64_t seconds = CeilSeconds(duration);
  const std::string rest = std::to_string(seconds % 60) + "s";
  return seconds < 60 ? rest : std::to_string(seconds / 60) + "m" + rest;
}

api::ApiError OverLimit(std::string message) {
  return {429, std::move(message), "rate_limit_error", "", "rate_limit_exceeded"};
}

std::string JoinNames(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "'" : ", '") + name + "'";
  return text;
}

}  // namespace

std::string ClientOfKey(int64_t key) {
  return std::string(kClientPrefix) + std::to_string(key);
}

int64_t KeyOfClient(std::string_view client) {
  if (!client.starts_with(kClientPrefix)) return 0;
  client.remove_prefix(kClientPrefix.size());
  int64_t key = 0;
  const auto [end, error] = std::from_chars(client.data(), client.data() + client.size(), key);
  return error == std::errc() && end == client.data() + client.size() ? key : 0;
}

KeyTable::Place::Place(std::shared_ptr<std::map<int64_t, uint32_t>> under_way, int64_t key)
    : under_way_(std::move(under_way)), key_(key) {
  ++(*under_way_)[key_];
}

KeyTable::Place::~Place() {
  const auto entry = under_way_->find(key_);
  if (--entry->second == 0) under_way_->erase(entry);
}

void KeyTable::Replace(std::vector<store::Key> keys, std::map<int64_t, store::Usage> today,
                       int64_t day_ms) {
  keys_ = std::move(keys);
  today_ = std::move(today);
  day_ms_ = day_ms;
  by_hash_.clear();
  by_id_.clear();
  for (size_t i = 0; i < keys_.size(); ++i) {
    by_hash_[keys_[i].hash] = i;
    by_id_[keys_[i].id] = i;
  }
  std::erase_if(minutes_, [this](const auto& entry) {
    const store::Key* key = OfId(entry.first);
    return key == nullptr || key->ended_ms;
  });
}

const store::Key* KeyTable::Find(const std::string& hash) const {
  const auto found = by_hash_.find(hash);
  return found == by_hash_.end() ? nullptr : &keys_[found->second];
}

bool KeyTable::IsGood(const std::string& hash, store::Role role) const {
  const store::Key* key = Find(hash);
  return key != nullptr && key->role == role && !key->ended_ms && !key->IsExpired(now_ms());
}

const store::Key* KeyTable::OfId(int64_t key) const {
  const auto found = by_id_.find(key);
  return found == by_id_.end() ? nullptr : &keys_[found->second];
}

std::optional<api::ApiError> KeyTable::FindEnd(const store::Key& key) const {
  const bool is_expired = key.IsExpired(now_ms());
  if (!key.ended_ms && !is_expired) return std::nullopt;
  const std::string when = key.ended_ms ? " was ended " + store::TimeText(*key.ended_ms)
                                        : " expired " + store::TimeText(*key.expires_ms);
  return api::ApiError{401, "The API key '" + key.name + "'" + when + ". Ask for a new one.",
                       "invalid_request_error", "", "invalid_api_key"};
}

std::deque<Instant>& KeyTable::MinuteOf(const store::Key& key) {
  std::deque<Instant>& minute = minutes_[key.id];
  const Instant now = clocks_.now();
  while (!minute.empty() && minute.front() + kMinute <= now) minute.pop_front();
  return minute;
}

std::optional<KeyTable::Refusal> KeyTable::FindLimit(const store::Key& key,
                                                     const std::deque<Instant>& minute) const {
  const store::KeyLimits& limits = key.limits;
  const std::string who = "The API key '" + key.name + "'";
  if (limits.tokens_per_day) {
    const int64_t used = TodayOf(key.id).counted_tokens();
    if (used >= static_cast<int64_t>(*limits.tokens_per_day)) {
      const int64_t left_ms = store::DayOf(now_ms()) + kMsPerDay - now_ms();
      return Refusal{OverLimit(Sentence(who, " has used ", used, " of its ", *limits.tokens_per_day,
                                        " tokens of today (UTC). Try again tomorrow.")),
                     CeilSeconds(Milliseconds(left_ms))};
    }
  }
  const store::KeyLoad others = OthersOf(key);
  const auto own = under_way_->find(key.id);
  const uint32_t under_way = others.under_way + (own == under_way_->end() ? 0 : own->second);
  if (limits.at_once && under_way >= ShareOf(*limits.at_once))
    return Refusal{OverLimit(Sentence(who, " has ", under_way,
                                      " requests under way, its limit. Try again when one has "
                                      "ended.")),
                   1};
  if (!limits.per_minute) return std::nullopt;
  const size_t most = ShareOf(*limits.per_minute), count = minute.size() + others.last_minute;
  if (count < most) return std::nullopt;
  // When those of others were sent is not known.
  const Duration wait =
      minute.size() >= most ? minute[minute.size() - most] + kMinute - clocks_.now() : kOthersWait;
  return Refusal{
      OverLimit(Sentence(who, " has sent ", count, " requests within a minute, its limit.")),
      CeilSeconds(wait)};
}

uint32_t KeyTable::ShareOf(uint32_t limit) const {
  return counts_alone_ ? std::max<uint32_t>(1, limit / server_count_) : limit;
}

store::KeyLoad KeyTable::OthersOf(const store::Key& key) const {
  const auto found = others_.find(key.id);
  return counts_alone_ || found == others_.end() ? store::KeyLoad() : found->second;
}

std::vector<store::KeyLoad> KeyTable::Loads() {
  std::vector<store::KeyLoad> loads;
  for (const store::Key& key : keys_) {
    if (key.ended_ms || (!key.limits.per_minute && !key.limits.at_once)) continue;
    const auto under_way = under_way_->find(key.id);
    const store::KeyLoad load{key.id, static_cast<uint32_t>(MinuteOf(key).size()),
                              under_way == under_way_->end() ? 0 : under_way->second};
    if (load.last_minute > 0 || load.under_way > 0) loads.push_back(load);
  }
  return loads;
}

void KeyTable::NoteOthers(const store::OthersLoads& others) {
  others_.clear();
  for (const store::KeyLoad& load : others.loads) others_[load.key] = load;
  server_count_ = others.server_count;
  counts_alone_ = false;
}

void KeyTable::CountAlone() {
  counts_alone_ = true;
}

net::Headers KeyTable::MinuteHeaders(const store::Key& key,
                                     const std::deque<Instant>& minute) const {
  if (!key.limits.per_minute) return {};
  const size_t most = ShareOf(*key.limits.per_minute);
  const size_t count = minute.size() + OthersOf(key).last_minute;
  const Duration until_all_is_left =
      minute.empty() ? Duration() : minute.back() + kMinute - clocks_.now();
  return {{"X-Ratelimit-Limit-Requests", std::to_string(most)},
          {"X-Ratelimit-Remaining-Requests", std::to_string(most - std::min(most, count))},
          {"X-Ratelimit-Reset-Requests", DurationText(until_all_is_left)}};
}

KeyTable::Admission KeyTable::Admit(const store::Key& key, const std::string& model) {
  Admission admission;
  const std::string& asked = model.empty() ? model_ : model;
  if (!key.models.empty() &&
      std::find(key.models.begin(), key.models.end(), asked) == key.models.end()) {
    admission.refusal = api::ApiError{
        403,
        "The API key '" + key.name + "' is for " + JoinNames(key.models) +
            (model.empty() ? "; this server has '" : "; the request asks '") + asked + "'.",
        "invalid_request_error", "model", "model_not_allowed"};
    return admission;
  }
  std::deque<Instant>& minute = MinuteOf(key);
  if (auto limit = FindLimit(key, minute)) {
    admission.refusal = std::move(limit->error);
    admission.retry_after_s = limit->retry_after_s;
  } else {
    if (key.limits.per_minute) minute.push_back(clocks_.now());
    admission.place = std::make_unique<Place>(under_way_, key.id);
    Add(key, {.requests = 1}, asked);
  }
  admission.headers = MinuteHeaders(key, minute);
  return admission;
}

void KeyTable::Add(const store::Key& key, const store::Usage& usage, const std::string& model) {
  unwritten_[key.id][{store::HourOf(now_ms()), model}] += usage;
  by_role_[static_cast<size_t>(key.role)] += usage;
}

void KeyTable::Count(int64_t key, uint32_t prompt_tokens, uint32_t cached_tokens,
                     uint32_t generated_tokens, const std::string& model) {
  const store::Key* known = OfId(key);
  if (known == nullptr) return;
  Add(*known,
      {.requests = 0,
       .prompt_tokens = prompt_tokens,
       .cached_tokens = cached_tokens,
       .generated_tokens = generated_tokens},
      model.empty() ? model_ : model);
}

store::Usage KeyTable::TodayOf(int64_t key) const {
  const int64_t day_ms = store::DayOf(now_ms());
  store::Usage sum;
  const auto known = today_.find(key);
  if (known != today_.end() && day_ms_ == day_ms) sum = known->second;
  for (const auto* part : {&unwritten_, &writing_}) {
    const auto hours = part->find(key);
    if (hours == part->end()) continue;
    for (auto hour = hours->second.lower_bound({day_ms, ""}); hour != hours->second.end(); ++hour)
      sum += hour->second;
  }
  return sum;
}

std::vector<store::HourlyUsage> KeyTable::TakeUnwritten() {
  CHECK(writing_.empty(), "what was taken before is not settled");
  writing_ = std::exchange(unwritten_, {});
  std::vector<store::HourlyUsage> rows;
  for (const auto& [key, hours] : writing_)
    for (const auto& [hour, usage] : hours) rows.push_back({hour.first, key, usage, hour.second});
  return rows;
}

void KeyTable::NoteWritten(bool is_written) {
  const auto taken = std::exchange(writing_, {});
  if (is_written) return;
  for (const auto& [key, hours] : taken)
    for (const auto& [hour, usage] : hours) unwritten_[key][hour] += usage;
}

size_t KeyTable::LiveCount(store::Role role) const {
  const int64_t now = now_ms();
  return static_cast<size_t>(
      std::count_if(keys_.begin(), keys_.end(), [role, now](const store::Key& key) {
        return key.role == role && !key.ended_ms && !key.IsExpired(now);
      }));
}

}  // namespace weft::server
