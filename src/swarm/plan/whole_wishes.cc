#include "swarm/plan/whole_wishes.h"

#include <algorithm>

#include "base/secret.h"

namespace weft::swarm {
namespace {

// Devices whose last wish is remembered, and devices that the owner is asked for at once.
constexpr size_t kMostDevices = 1024, kMostAsked = 4;

std::string SecondsOf(Duration duration) {
  return std::to_string((duration.us + 999'999) / 1'000'000) + " s";
}

}  // namespace

bool WholeWishes::HasRight(const std::string& api_key) const {
  if (api_key.empty()) return false;
  const std::string hash = HashSecret(api_key);
  if (options_.is_owner_key && options_.is_owner_key(hash)) return true;
  if (options_.api_key_sha256_hex.empty()) return false;
  return IsOneOfHashes(hash, options_.api_key_sha256_hex, options_.earlier_api_keys_sha256_hex);
}

std::string WholeWishes::Obstacle(const Worker& worker, Instant now) const {
  if (!planning_.FitsWhole(worker, now))
    return "This device cannot run the whole model: it does not fit what is offered, or it is left "
           "out for a while.";
  if (!planning_.MayTakeOver(worker))
    return checks_.MayServe(worker)
               ? "The swarm serves, and no device that is trusted can check whether this one "
                 "computes what it should: start it on the server's machine, or with its API key."
               : "This device is not checked yet, and the swarm serves: try again in a moment.";
  return "";
}

void WholeWishes::OnWish(Worker& worker, const wire::RunHere& wish, Instant now) {
  if (!wish.wanted) {
    if (asked_.erase(worker.id) > 0) End(worker, "", now);
    planning_.RunWholeOn(worker, false, now);
    return planning_.TellWhole(worker, "", now);
  }
  if (asked_.contains(worker.id) || planning_.whole_on() == worker.id)
    return planning_.TellWhole(worker, "", now);
  if (HasRight(wish.api_key)) {
    members_.Trust(worker);
    checks_.Trust(worker);
  }
  if (const std::string why = Obstacle(worker, now); !why.empty())
    return planning_.TellWhole(worker, why, now);
  const auto last = last_.find(worker.probation_key);
  if (last != last_.end() && now < last->second + options_.timeouts.run_here_interval)
    return planning_.TellWhole(
        worker,
        "A device may ask for the whole model once a minute: try again in " +
            SecondsOf(last->second + options_.timeouts.run_here_interval - now) + ".",
        now);
  if (worker.trusted) {
    NoteTime(worker.probation_key, now);
    planning_.RunWholeOn(worker, true, now);
    return planning_.TellWhole(worker, "", now);
  }
  if (asked_.size() >= kMostAsked)
    return planning_.TellWhole(
        worker, "The swarm's owner is asked by others already: try again in a minute.", now);
  NoteTime(worker.probation_key, now);
  asked_[worker.id] = now + options_.timeouts.consent_limit;
  worker.whole_asked.edit() = true;
  changes_.Note({.view = true});
  planning_.TellWhole(worker,
                      "The swarm's owner is asked on its page, /swarm, and has " +
                          SecondsOf(options_.timeouts.consent_limit) + " to agree.",
                      now);
}

void WholeWishes::OnConsent(WorkerId id, bool allowed, Instant now) {
  Worker* worker = roster_.Find(id);
  if (asked_.erase(id) == 0 || worker == nullptr) return;
  if (!allowed) return End(*worker, "The swarm's owner did not agree.", now);
  const std::string why = Obstacle(*worker, now);
  End(*worker, why, now);
  if (why.empty()) planning_.RunWholeOn(*worker, true, now);
}

void WholeWishes::End(Worker& worker, const std::string& message, Instant now) {
  worker.whole_asked.edit() = false;
  changes_.Note({.view = true});
  if (!message.empty()) planning_.TellWhole(worker, message, now);
}

void WholeWishes::EndOverdue(Instant now) {
  for (auto asked = asked_.begin(); asked != asked_.end();) {
    const auto each = asked++;
    Worker* worker = roster_.Find(each->first);
    if (worker != nullptr && now < each->second) continue;
    asked_.erase(each);
    if (worker != nullptr)
      End(*worker,
          "Nobody agreed on the swarm's page within " + SecondsOf(options_.timeouts.consent_limit) +
              ", which counts as a no.",
          now);
  }
}

std::optional<Instant> WholeWishes::next_timer() const {
  std::optional<Instant> next;
  for (const auto& [id, until] : asked_)
    if (!next || until < *next) next = until;
  return next;
}

std::vector<ConsentSnapshot> WholeWishes::Consents(Instant now) const {
  std::vector<ConsentSnapshot> consents;
  for (const auto& [id, until] : asked_)
    if (roster_.Find(id) != nullptr)
      consents.push_back({id, static_cast<double>((until - now).us) * 1e-6});
  return consents;
}

void WholeWishes::NoteTime(const std::string& device, Instant now) {
  last_[device] = now;
  if (last_.size() > kMostDevices)
    last_.erase(std::min_element(last_.begin(), last_.end(),
                                 [](const auto& a, const auto& b) { return a.second < b.second; }));
}

}  // namespace weft::swarm
