#include "dispatch/holder_statement.h"

#include "wire/expert_sets.h"

namespace weft::dispatch {

Result<std::vector<Holder>> HoldersOf(const wire::pb::ExpertHolders& statement,
                                      uint32_t layer_count) {
  std::vector<Holder> holders;
  for (const auto& named : statement.holders()) {
    ASSIGN_OR_RETURN(const auto layers, wire::ReadExpertSets(named.sets(), layer_count));
    Holder& holder = holders.emplace_back();
    holder.id = named.peer();
    holder.sends_steps = named.steps();
    holder.takes_integers = named.integers();
    for (const wire::LayerExperts& layer : layers)
      for (const uint32_t expert : layer.experts)
        holder.experts.emplace_back(static_cast<uint16_t>(layer.layer),
                                    static_cast<uint16_t>(expert));
  }
  return holders;
}

}  // namespace weft::dispatch
