#include "worker/sampling_table.h"

#include <algorithm>
#include <string>

#include "base/random.h"
#include "wire/sampling_message.h"

namespace weft::worker {
namespace {

constexpr size_t kMaxSessions = 65536;

Error Bad(const wire::pb::Sampling& message, const std::string& what) {
  return Error(ErrorCode::kInvalidData, "The server's sampling of session " +
                                            std::to_string(message.session()) + " " + what + ".");
}

}  // namespace

Status SamplingTable::OnMessage(const wire::pb::Sampling& message, uint32_t vocabulary) {
  if (message.has_params()) {
    auto parameters = wire::ReadSamplingParams(message.params());
    if (!parameters.ok()) return Bad(message, "is of no use: " + parameters.error().message());
    if (entries_.size() >= kMaxSessions && !entries_.contains(message.session()))
      return Bad(message, "comes beside that of " + std::to_string(kMaxSessions) +
                              " others, expected that sessions end");
    Entry& entry = entries_[message.session()];
    entry = {message.generation(), 0, {*std::move(parameters), {}}, {}};
  }
  const auto found = entries_.find(message.session());
  if (found == entries_.end() || found->second.generation != message.generation())
    return Bad(message, "continues generation " + std::to_string(message.generation()) +
                            ", which was not begun here");
  Entry& entry = found->second;
  for (const uint32_t token : message.tokens()) {
    if (token >= vocabulary)
      return Bad(message, "names token " + std::to_string(token) + ", expected less than " +
                              std::to_string(vocabulary));
    const auto [place, fresh] = entry.places.try_emplace(token, entry.sampling.counts.size());
    if (fresh) entry.sampling.counts.push_back({static_cast<int32_t>(token), 0});
    ++entry.sampling.counts[place->second].count;
  }
  entry.token_count += static_cast<uint64_t>(message.tokens_size());
  return OkStatus();
}

Result<SamplingTable::Found> SamplingTable::Find(uint32_t session, uint32_t generation,
                                                 uint64_t position) const {
  const auto found = entries_.find(session);
  if (found == entries_.end() || found->second.generation != generation)
    return Error(ErrorCode::kInvalidArgument,
                 "How session " + std::to_string(session) + " samples in generation " +
                     std::to_string(generation) + " was not told here.");
  const Entry& entry = found->second;
  if (entry.sampling.parameters.HasPenalties() && entry.token_count != position)
    return Error(ErrorCode::kInvalidArgument,
                 "Of session " + std::to_string(session) + " " + std::to_string(entry.token_count) +
                     " tokens are known here, expected the " + std::to_string(position) +
                     " before the one to choose.");
  return Found{&entry.sampling, CounterDouble(*entry.sampling.parameters.seed, position, 0)};
}

}  // namespace weft::worker
