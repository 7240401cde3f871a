// What a program must satisfy before an engine may run it without further checks. Weights:
// check_weight.h. Operations: op_checker.h.
#include <optional>
#include <string>

#include "program/check_weight.h"
#include "program/codec.h"
#include "program/op_rules.gen.h"

namespace weft::program {
namespace {

constexpr uint32_t kMaxColumns = 1 << 24;
constexpr size_t kMaxItems = 1 << 16;

std::string Str(uint64_t value) {
  return std::to_string(value);
}

Status CheckCounts(const Program& program) {
  if (program.ops.empty()) return Invalid("it has no operations.");
  if (program.layer_index > kMaxItems) {
    return Invalid("its layer index is " + Str(program.layer_index) + "; at most " +
                   Str(kMaxItems) + ".");
  }
  for (const size_t count : {program.ops.size(), program.buffers.size(), program.weights.size()}) {
    if (count > kMaxItems) {
      return Invalid("it has " + Str(count) + " operations, buffers or weights; at most " +
                     Str(kMaxItems) + ".");
    }
  }
  for (const Buffer& buffer : program.buffers) {
    if (buffer.columns == 0 || buffer.columns > kMaxColumns) {
      return Invalid("buffer '" + buffer.name.substr(0, 200) + "' has " + Str(buffer.columns) +
                     " columns; expected 1 to " + Str(kMaxColumns) + ".");
    }
  }
  for (const std::optional<BufferId> id : {program.input, std::optional(program.output)}) {
    if (id && *id >= program.buffers.size()) {
      return Invalid("its input or output is buffer " + Str(*id) + "; it has " +
                     Str(program.buffers.size()) + ".");
    }
  }
  return OkStatus();
}

Status ValidateUnnamed(const Program& program) {
  TRY(CheckCounts(program));
  for (const Weight& weight : program.weights) TRY(CheckWeight(weight));
  OpChecker checker(program);
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const auto check = [&](const auto& op) { return CheckOp(checker, op); };
    Status status = std::visit(check, program.ops[i]);
    if (status.ok()) continue;
    return Invalid("operation " + Str(i) + " (" + std::string(OpName(program.ops[i])) +
                   "): " + status.error().message());
  }
  if (!program.input && !std::holds_alternative<Embed>(program.ops.front())) {
    return Invalid("without an input buffer it must begin with Embed.");
  }
  if (!checker.WholeBufferWritten(program.output)) {
    return Invalid("nothing writes the whole of its output buffer '" +
                   program.buffers[program.output].name.substr(0, 200) + "'.");
  }
  return OkStatus();
}

}  // namespace

Status Validate(const Program& program) {
  Status status = ValidateUnnamed(program);
  if (status.ok()) return status;
  return Error(status.error().code(), "The program of layer " + Str(program.layer_index) +
                                          " is not valid: " + status.error().message());
}

}  // namespace weft::program
