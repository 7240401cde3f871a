// `weft groups PACKAGE FOLDER --text FILE`: a package of the same model whose MLPs are in neuron
// groups, for `weft serve --plan tensor`. Of a mixture, without a text, one whose experts are in
// parts, for `weft serve --plan experts`.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "apps/commands.h"
#include "apps/group_calibration.h"
#include "apps/model_info.h"
#include "apps/progress_line.h"
#include "convert/package/group_package.h"
#include "program/expert_parts.h"
#include "program/product_ranges.h"
#include "program/shards.h"
#include "program/weight_parts.h"
#include "registry/library.h"
#include "registry/registry_settings.h"
#include "worker/layer_loader.h"
#include "worker/package_source.h"

namespace weft::apps {
namespace {

struct GroupsOptions {
  std::string package, folder, text;
  std::optional<uint32_t> columns;
  uint32_t documents = 64;
  uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
  bool whole_head = false;
  std::string attention = "whole";
  bool force = false;
};

// Columns of a neuron group, if nobody says how many.
constexpr uint32_t kGroupColumns = 256;
// Bytes of a part of an expert, if nobody says how wide it is. A core reads them in 3 ms or so.
// Each part's row comes back to the hub: 0.13 ms on a line of 1 Gbit/s (4,096 columns).
constexpr uint64_t kPartBytes = uint64_t{32} << 20;

uint32_t WantedPartColumns(const program::Program& layer) {
  const program::MoeExperts& experts = *program::FindExperts(layer);
  uint64_t bytes = 0;
  for (const program::WeightId id : {experts.gate_up, experts.down})
    for (const auto* parts :
         {&layer.weights[id].data, &layer.weights[id].scale, &layer.weights[id].zero})
      bytes += program::ByteCount(*parts);
  const double columns = static_cast<double>(program::ExpertColumns(layer));
  return static_cast<uint32_t>(std::min(
      columns,
      columns * static_cast<double>(kPartBytes * experts.experts) / static_cast<double>(bytes)));
}

// `wanted`: what the user said, if anything.
Error NoParts(uint32_t width, std::optional<uint32_t> wanted) {
  std::string why =
      " and small enough to be computed by one device each: serve the package as it is with --plan "
      "experts, or say with --columns how wide parts may be.";
  if (wanted && *wanted < width)
    why = ", which are not cut between blocks of their weights: there are no narrower parts.";
  else if (wanted)
    why = ", so parts of " + std::to_string(*wanted) +
          " would be whole experts: say fewer "
          "--columns.";
  return Error(ErrorCode::kUnsupported,
               "The experts are " + std::to_string(width) + " columns wide" + why);
}

Status MakeParts(const GroupsOptions& options, const package::Package& package,
                 std::span<const program::Program> programs) {
  const auto mixture = std::ranges::find_if(programs, [](const program::Program& layer) {
    return program::FindExperts(layer) != nullptr;
  });
  const auto columns_of = [&](const program::Program& layer) {
    return program::PartColumns(layer, options.columns.value_or(WantedPartColumns(layer)));
  };
  const uint32_t width = program::ExpertColumns(*mixture), columns = columns_of(*mixture);
  if (columns == width) return NoParts(width, options.columns);
  uint64_t done = 0, total = 0;
  for (const package::LayerInfo& layer : package.manifest.layers) total += layer.weight_bytes;
  ProgressLine line("Cutting");
  const auto cut = [&](const program::Program& layer) -> Result<program::Program> {
    line.Show(std::exchange(done, done + package.manifest.layers[layer.layer_index].weight_bytes),
              total);
    if (program::FindExperts(layer) == nullptr) return layer;
    return program::PartedProgram(layer, columns_of(layer));
  };
  ASSIGN_OR_RETURN(auto made,
                   convert::GroupPackage::Make(package, {programs.begin(), programs.end()},
                                               options.folder, options.force, cut));
  line.Finish();
  TRY(made.Finish(package));
  const program::MoeExperts& whole = *program::FindExperts(*mixture);
  std::printf(
      "%s: %u experts in %u parts of %u columns each, of which a token has %u. Serve it with  weft "
      "serve %s --plan experts\n",
      package.manifest.name.c_str(), whole.experts, width / columns, columns,
      whole.top_k * (width / columns), options.folder.c_str());
  return OkStatus();
}

uint64_t BytesOf(const program::Weight& weight) {
  return program::ByteCount(weight.data) + program::ByteCount(weight.scale) +
         program::ByteCount(weight.zero);
}

// Puts products inside layers in ranges of about as many bytes as a neuron group.
void DivideAttention(std::vector<program::Program>& layers) {
  for (program::Program& layer : layers) {
    if (program::FindExperts(layer) == nullptr) continue;
    const program::MoeExperts& groups = *program::FindExperts(layer);
    const uint64_t group_bytes =
        (BytesOf(layer.weights[groups.gate_up]) + BytesOf(layer.weights[groups.down])) /
        groups.experts;
    uint64_t most_row_bytes = 1;
    for (const program::Op& op : layer.ops) {
      const auto* product = std::get_if<program::MatMul>(&op);
      if (product == nullptr) continue;
      const program::Weight& weight = layer.weights[product->weight.weight];
      most_row_bytes = std::max(most_row_bytes, BytesOf(weight) / weight.shape[0]);
    }
    layer = program::ProductsInRanges(layer, static_cast<uint32_t>(group_bytes / most_row_bytes));
  }
}

Status MakeGroups(const GroupsOptions& options) {
  ASSIGN_OR_RETURN(const std::filesystem::path source,
                   registry::FindPackage(registry::LibraryFolder(std::getenv), options.package));
  ASSIGN_OR_RETURN(const package::Package package, package::Package::Open(source));
  const package::Manifest& manifest = package.manifest;
  worker::LayerLoader loader(manifest, worker::MakeLocalSource(package));
  ASSIGN_OR_RETURN(const std::vector<program::Program> programs,
                   loader.Programs(0, static_cast<uint32_t>(manifest.layers.size())));
  const bool is_mixture = std::ranges::any_of(programs, [](const program::Program& layer) {
    return program::FindExperts(layer) != nullptr && !program::HasGroups(layer);
  });
  if (is_mixture) return MakeParts(options, package, programs);
  if (options.text.empty())
    return Error(ErrorCode::kInvalidArgument,
                 "--text is missing: documents show how large the outputs of neuron groups are.");
  ASSIGN_OR_RETURN(std::vector<program::Program> plain,
                   InGroups(programs, options.columns.value_or(kGroupColumns)));
  if (!manifest.embedding && !options.whole_head)
    plain.back() = program::HeadInRanges(plain.back());
  if (options.attention == "divided") DivideAttention(plain);
  ASSIGN_OR_RETURN(const api::ModelText text, LoadModelText(package));
  ASSIGN_OR_RETURN(Documents documents, ReadTokens(options.text, text, options.documents));
  ASSIGN_OR_RETURN(Documents chats, ReadChats(options.text, text));
  std::ranges::move(chats, std::back_inserter(documents));
  ASSIGN_OR_RETURN(auto made, convert::GroupPackage::Make(package, std::move(plain), options.folder,
                                                          options.force));
  worker::LayerLoader weights(made.weights().manifest, worker::MakeLocalSource(made.weights()));
  GroupCalibration calibration(manifest, made.programs(), weights, options.threads);
  TRY(calibration.Load());
  ProgressLine line("Measuring", "documents");
  for (size_t i = 0; i < documents.size(); ++i) {
    TRY(calibration.Run(std::span(documents).subspan(i, 1)));
    line.Show(i + 1, documents.size());
  }
  line.Finish();
  TRY(made.Finish(package, calibration.Grids(), calibration.Norms()));
  uint32_t layers = 0, groups = 0;
  for (const program::Program& layer : made.programs())
    if (program::HasGroups(layer)) ++layers, groups = program::FindExperts(layer)->experts;
  const auto ranges = program::FindHeadRanges(made.programs().back());
  const std::string head =
      ranges ? ", the output head in " + std::to_string(ranges->count) + " ranges" : "";
  uint32_t in_layers = 0;
  for (const program::Program& layer : made.programs())
    for (const program::ProductRanges& each : program::FindRanges(layer))
      if (program::HasGroups(layer)) in_layers += each.count;
  const std::string attention =
      in_layers > 0 ? ", attention in " + std::to_string(in_layers) + " ranges" : "";
  std::printf("%s: %u layers of %u neuron groups%s%s. Serve it with  weft serve %s --plan tensor\n",
              manifest.name.c_str(), layers, groups, attention.c_str(), head.c_str(),
              options.folder.c_str());
  return OkStatus();
}

}  // namespace

void AddGroupsCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<GroupsOptions>();
  CLI::App* command = app.add_subcommand(
      "groups",
      "Make a package whose dense MLPs are in neuron groups, which several devices compute "
      "together for every token (serve --plan tensor), or whose large experts are in parts (serve "
      "--plan experts)");
  command->add_option("package", options->package, "A package's folder, or its name in the library")
      ->required();
  command->add_option("folder", options->folder, "Folder to make")->required();
  command->add_option(
      "--text", options->text,
      "JSON lines, a document each, as the model will see them: they show how large "
      "the groups' outputs are. The first eight are looked at as chats, too. Parts "
      "of experts need none");
  command
      ->add_option("--columns", options->columns,
                   "Columns of an MLP in a group, at most [256], or of an expert in a part [as "
                   "many as take 32 MiB]")
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--documents", options->documents, "Documents that are looked at, at most")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--threads", options->threads, "Threads to compute with")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_flag(
      "--whole-head", options->whole_head,
      "Leave the output head on the hub: for lines that lose packets (serve --lossy)");
  command
      ->add_option("--attention", options->attention,
                   "Whether attention's products are the hub's, or several devices hold and "
                   "compute them, too: whole or divided")
      ->capture_default_str()
      ->check(CLI::IsMember({"whole", "divided"}));
  command->add_flag("--force", options->force, "Replace an existing package");
  command->callback([options, exit_code] {
    OutliveReaders();
    *exit_code = ReportStatus(MakeGroups(*options));
  });
}

}  // namespace weft::apps
