#include "swarm/workers/package_doubts.h"

#include <utility>

namespace weft::swarm {

void PackageDoubts::Accuse(Accusation accusation) {
  open_.push_back(std::move(accusation));
  if (!checking_) Check(open_.back().layers);
}

std::vector<Accusation> PackageDoubts::OnChecked(const LayersChecked& event) {
  if (!checking_) return {};
  const LayerSpan checked = *std::exchange(checking_, std::nullopt);
  problem_ = event.problem.value_or("");
  std::vector<Accusation> wrong;
  for (Accusation& accusation : std::exchange(open_, {})) {
    if (roster_.Find(accusation.worker) == nullptr || event.problem) continue;
    const bool is_known =
        checked.first <= accusation.layers.first && accusation.layers.end <= checked.end;
    (is_known ? wrong : open_).push_back(std::move(accusation));
  }
  if (!open_.empty()) Check(open_.front().layers);
  return wrong;
}

void PackageDoubts::Check(LayerSpan layers) {
  checking_ = layers;
  outbox_.Add(CheckLayers{layers.first, layers.end});
}

}  // namespace weft::swarm
