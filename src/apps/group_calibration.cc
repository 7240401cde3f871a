#include "apps/group_calibration.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "apps/text_evaluation.h"
#include "program/neuron_groups.h"
#include "program/product_ranges.h"
#include "program/shards.h"
#include "text/utf8.h"

namespace weft::apps {
namespace {

constexpr size_t kMostTokens = 512;  // of a document
constexpr size_t kMostChats = 8;
constexpr size_t kChatTextBytes = 400;  // of a document that is a message of a chat

}  // namespace

Result<Documents> ReadTokens(const std::string& path, const api::ModelText& text,
                             size_t documents) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, ReadDocuments(path));
  Documents read;
  for (const std::string& each : texts) {
    if (read.size() == documents) break;
    ASSIGN_OR_RETURN(std::vector<int32_t> ids, text.EncodeText(each));
    if (ids.size() > kMostTokens) ids.resize(kMostTokens);
    if (!ids.empty()) read.push_back(std::move(ids));
  }
  if (!read.empty()) return read;
  return Error(ErrorCode::kInvalidData, "'" + path + "' has no document with a token.");
}

Result<Documents> ReadChats(const std::string& path, const api::ModelText& text) {
  if (text.chat_templates().named.empty()) return Documents();
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, ReadDocuments(path));
  Documents read;
  for (const std::string& each : texts) {
    if (read.size() == kMostChats) break;
    std::string begin = each.substr(0, kChatTextBytes);
    begin.resize(std::min(begin.size(), utf8::FindInvalid(begin)));  // whole characters
    api::ChatRequest chat;
    for (const char* role : {"user", "assistant", "user"})
      chat.messages.push_back({{"role", role}, {"content", begin}});
    auto ids = text.EncodeChat(chat);
    if (!ids.ok()) break;  // the template takes no such chat
    read.push_back(*std::move(ids));
  }
  return read;
}

Result<std::vector<program::Program>> InGroups(std::span<const program::Program> programs,
                                               uint32_t columns,
                                               std::span<const program::SumGrid> grids) {
  std::vector<program::Program> grouped;
  bool any = false;
  for (size_t layer = 0; layer < programs.size(); ++layer) {
    const program::Program& dense = programs[layer];
    if (program::HasGroups(dense))
      return Error(ErrorCode::kUnsupported, "The model is in neuron groups already.");
    if (program::FindExperts(dense) != nullptr)
      return Error(ErrorCode::kUnsupported,
                   "Layer " + std::to_string(layer) +
                       " is a mixture of experts, which is divided without neuron groups: serve "
                       "it with --plan experts.");
    const uint32_t width = program::MlpColumns(dense);
    any = any || width > 0;
    ASSIGN_OR_RETURN(
        grouped.emplace_back(),
        program::GroupedProgram(dense, program::GroupColumns(std::max(1u, width), columns),
                                grids.empty() ? program::SumGrid{} : grids[layer]));
  }
  if (any) return grouped;
  return Error(ErrorCode::kUnsupported,
               "The model has no gated MLP, which is what neuron groups are cut of.");
}

GroupCalibration::GroupCalibration(const package::Manifest& manifest,
                                   std::vector<program::Program> grouped,
                                   engine::WeightSource& source, uint32_t thread_count)
    : grouped_(std::move(grouped)),
      source_(source),
      hub_(engine::MakeNativeEngine({.thread_count = thread_count,
                                     .kv_dtype = package::KvDType(manifest.quantisation),
                                     .residual_dtype = manifest.boundary_dtype})),
      holder_(engine::MakeNativeEngine({.thread_count = thread_count})),
      largest_(grouped_.size()),
      norm_sums_(grouped_.size()),
      rows_(grouped_.size()) {}

Status GroupCalibration::Load() {
  std::vector<program::Program> hubs, shards;
  for (const program::Program& layer : grouped_) {
    hubs.push_back(program::HubProgram(program::WithWholeProducts(layer)));
    const program::MoeExperts* groups = program::FindExperts(layer);
    if (groups == nullptr) continue;
    std::vector<uint32_t> all(groups->experts);
    for (uint32_t i = 0; i < groups->experts; ++i) all[i] = i;
    ASSIGN_OR_RETURN(shards.emplace_back(), program::ExpertProgram(layer, all));
  }
  TRY(hub_->Load(hubs, source_));
  return holder_->Load(shards, source_);
}

Status GroupCalibration::Run(std::span<const std::vector<int32_t>> documents) {
  for (const std::vector<int32_t>& ids : documents) TRY(Run(ids));
  return OkStatus();
}

std::vector<program::SumGrid> GroupCalibration::Grids() const {
  std::vector<program::SumGrid> grids(grouped_.size());
  for (size_t layer = 0; layer < grids.size(); ++layer)
    if (const program::MoeExperts* groups = program::FindExperts(grouped_[layer]))
      grids[layer] = program::GridFor(largest_[layer], groups->experts);
  return grids;
}

package::GroupNorms GroupCalibration::Norms() const {
  package::GroupNorms norms(grouped_.size());
  for (size_t layer = 0; layer < norms.size(); ++layer)
    for (const double sum : norm_sums_[layer])
      norms[layer].push_back(static_cast<float>(sum / static_cast<double>(rows_[layer])));
  return norms;
}

Status GroupCalibration::Run(const std::vector<int32_t>& ids) {
  const engine::Run run = {
      ++session_, 0, 0, static_cast<uint32_t>(ids.size()), {engine::OutputKind::kNone}};
  const auto layers = static_cast<uint32_t>(grouped_.size());
  ASSIGN_OR_RETURN(engine::StepProgress progress, hub_->Begin({{0, layers}, {&run, 1}, ids, {}}));
  while (auto* pending = std::get_if<std::unique_ptr<engine::PendingStep>>(&progress)) {
    ASSIGN_OR_RETURN(const std::vector<float> slots, Slots((*pending)->request()));
    ASSIGN_OR_RETURN(progress, hub_->Resume(std::move(*pending), slots));
  }
  hub_->Release(session_);
  return OkStatus();
}

Result<std::vector<float>> GroupCalibration::Slots(const engine::SlotRequest& request) {
  std::vector<float> rows;
  for (size_t slot = 0; slot < request.row_count * request.top_k; ++slot) {
    const auto in = request.in.subspan(slot / request.top_k * request.columns, request.columns);
    rows.insert(rows.end(), in.begin(), in.end());
    rows.push_back(static_cast<float>(slot % request.top_k));
    rows.push_back(1);
  }
  const engine::Run run = {1,
                           ++generation_,
                           0,
                           static_cast<uint32_t>(request.row_count * request.top_k),
                           {engine::OutputKind::kHidden}};
  ASSIGN_OR_RETURN(engine::StepOutput output,
                   holder_->Step({{request.layer, request.layer + 1}, {&run, 1}, {}, rows}));
  for (const float value : output.hidden)
    largest_[request.layer] = std::max(largest_[request.layer], std::fabs(value));
  std::vector<double>& sums = norm_sums_[request.layer];
  sums.resize(request.top_k);
  rows_[request.layer] += request.row_count;
  std::vector<float> norms;
  for (size_t slot = 0; slot < request.row_count * request.top_k; ++slot) {
    double squares = 0;
    for (const float value :
         std::span(output.hidden).subspan(slot * request.columns, request.columns))
      squares += double{value} * value;
    sums[slot % request.top_k] += std::sqrt(squares);
    norms.push_back(static_cast<float>(std::sqrt(squares)));
  }
  if (observer_) observer_(request, norms);
  if (request.kind != SlotKind::kSums) return std::move(output.hidden);
  std::vector<float> row_sums(request.row_count * request.columns);
  for (size_t i = 0; i < output.hidden.size(); ++i)
    row_sums[i / (request.top_k * request.columns) * request.columns + i % request.columns] +=
        output.hidden[i];
  return row_sums;
}

}  // namespace weft::apps
