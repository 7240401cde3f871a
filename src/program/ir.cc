#include "program/ir.h"

#include "program/op_visits.gen.h"

namespace weft::program {
const Attention* FindAttention(const Program& program) {
  for (const Op& op : program.ops) {
    if (const auto* attention = std::get_if<Attention>(&op)) return attention;
  }
  return nullptr;
}

const MoeExperts* FindExperts(const Program& program) {
  for (const Op& op : program.ops)
    if (const auto* experts = std::get_if<MoeExperts>(&op)) return experts;
  return nullptr;
}

std::string_view OpName(const Op& op) {
  return std::visit([](const auto& any) { return OpNameOf(any); }, op);
}

}  // namespace weft::program
