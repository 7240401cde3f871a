#include "swarm/workers/absences.h"

#include <algorithm>

namespace weft::swarm {

void Absences::Note(const Worker& worker, Instant until) {
  if (!worker.ready || worker.offer.device_id.empty()) return;
  Absence absence;
  absence.device = worker.offer.device_id;
  absence.worker = worker.id;
  std::copy_if(worker.bindings->begin(), worker.bindings->end(),
               std::back_inserter(absence.bindings),
               [](const Binding& binding) { return binding.loaded; });
  absence.times = worker.times;
  absence.memory = *worker.memory;
  absence.measured = worker.measure->tried;
  absence.check = worker.check->state;
  absence.until = until;
  Add(std::move(absence));
}

void Absences::Add(Absence absence) {
  Take(absence.device);
  absences_.push_back(std::move(absence));
  if (absences_.size() > kMost) absences_.erase(absences_.begin());
}

std::optional<Absence> Absences::Take(const std::string& device) {
  const auto found = std::find_if(absences_.begin(), absences_.end(),
                                  [&](const Absence& each) { return each.device == device; });
  if (found == absences_.end()) return std::nullopt;
  Absence absence = std::move(*found);
  absences_.erase(found);
  return absence;
}

bool Absences::Knows(const std::string& device) const {
  return std::any_of(absences_.begin(), absences_.end(),
                     [&](const Absence& each) { return each.device == device; });
}

bool Absences::Holds(BindingId binding) const {
  for (const Absence& absence : absences_)
    for (const Binding& each : absence.bindings)
      if (each.id == binding) return true;
  return false;
}

bool Absences::Expire(Instant now) {
  return std::erase_if(absences_, [now](const Absence& each) { return each.until <= now; }) > 0;
}

std::optional<Instant> Absences::next_timer() const {
  if (absences_.empty()) return std::nullopt;
  return absences_.front().until;
}

}  // namespace weft::swarm
