#include "program/ir.h"

namespace weft::program {
namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};
template <typename... Visitors>
Overloaded(Visitors...) -> Overloaded<Visitors...>;

}  // namespace

const Attention* FindAttention(const Program& program) {
  for (const Op& op : program.ops) {
    if (const auto* attention = std::get_if<Attention>(&op)) return attention;
  }
  return nullptr;
}

std::string_view OpName(const Op& op) {
  return std::visit(Overloaded{
                        [](const Embed&) { return "Embed"; },
                        [](const RmsNorm&) { return "RmsNorm"; },
                        [](const LayerNorm&) { return "LayerNorm"; },
                        [](const MatMul&) { return "MatMul"; },
                        [](const Add&) { return "Add"; },
                        [](const Scale&) { return "Scale"; },
                        [](const Softcap&) { return "Softcap"; },
                        [](const QkNormRope&) { return "QkNormRope"; },
                        [](const Attention&) { return "Attention"; },
                        [](const GatedActivation&) { return "GatedActivation"; },
                        [](const MoeRoute&) { return "MoeRoute"; },
                        [](const MoeExperts&) { return "MoeExperts"; },
                        [](const Exchange&) { return "Exchange"; },
                        [](const SlotExchange&) { return "SlotExchange"; },
                        [](const Gate&) { return "Gate"; },
                        [](const CausalConv&) { return "CausalConv"; },
                        [](const DeltaRule&) { return "DeltaRule"; },
                        [](const SsmScan&) { return "SsmScan"; },
                    },
                    op);
}

}  // namespace weft::program
