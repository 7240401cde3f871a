#include "swarm/workers/probation.h"

#include <algorithm>

namespace weft::swarm {
namespace {
constexpr size_t kRecordLimit = 256;
}

bool Probation::NoteFailure(const std::string& device, Instant now) {
  Record& record = records_[device];
  record.last_failure = now;
  const bool aside = ++record.failures >= options_.failure_limit;
  if (aside) {
    const int doublings = static_cast<int>(std::min(record.times_aside++, 20u));
    const Duration wait = std::min(options_.timeouts.aside_max,
                                   options_.timeouts.aside_first * (int64_t{1} << doublings));
    record.aside_until = now + wait;
    record.returns = true;
  }
  if (records_.size() > kRecordLimit)
    records_.erase(
        std::min_element(records_.begin(), records_.end(), [](const auto& a, const auto& b) {
          return a.second.last_failure < b.second.last_failure;
        }));
  return aside;
}

void Probation::PutAside(const std::string& device, Instant now) {
  Record& record = records_[device];
  record.failures_before = record.failures;
  record.failures = std::max(record.failures, options_.failure_limit - 1);
  NoteFailure(device, now);
}

bool Probation::Withdraw(const std::string& device) {
  const auto found = records_.find(device);
  if (found == records_.end() || !found->second.returns) return false;
  Record& record = found->second;
  record.failures = record.failures_before;
  record.times_aside -= 1;
  record.aside_until = Instant{INT64_MIN};
  record.returns = false;
  return true;
}

bool Probation::IsAside(const std::string& device, Instant now) const {
  return AsideUntil(device, now).has_value();
}

std::optional<Instant> Probation::AsideUntil(const std::string& device, Instant now) const {
  const auto found = records_.find(device);
  if (found == records_.end() || now >= found->second.aside_until) return std::nullopt;
  return found->second.aside_until;
}

void Probation::Hasten(Duration wait) {
  for (auto& [device, record] : records_)
    if (record.returns)
      record.aside_until = std::min(record.aside_until, record.last_failure + wait);
}

std::optional<Instant> Probation::next_return() const {
  std::optional<Instant> next;
  for (const auto& [device, record] : records_)
    if (record.returns && (!next || record.aside_until < *next)) next = record.aside_until;
  return next;
}

bool Probation::TakeReturn(Instant now) {
  bool taken = false;
  for (auto& [device, record] : records_) {
    if (!record.returns || record.aside_until > now) continue;
    record.returns = false;
    taken = true;
  }
  return taken;
}

}  // namespace weft::swarm
