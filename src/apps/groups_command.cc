// `weft groups PACKAGE FOLDER --text FILE`: a package of the same model whose MLPs are in neuron
// groups, for `weft serve --plan tensor`.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <thread>

#include "apps/commands.h"
#include "apps/group_calibration.h"
#include "apps/model_info.h"
#include "apps/progress_line.h"
#include "convert/package/group_package.h"
#include "program/head_ranges.h"
#include "program/shards.h"
#include "registry/library.h"
#include "registry/registry_settings.h"
#include "worker/layer_loader.h"
#include "worker/package_source.h"

namespace weft::apps {
namespace {

struct GroupsOptions {
  std::string package, folder, text;
  uint32_t columns = 256;
  uint32_t documents = 64;
  uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
  bool whole_head = false;
  bool force = false;
};

Status MakeGroups(const GroupsOptions& options) {
  ASSIGN_OR_RETURN(const std::filesystem::path source,
                   registry::FindPackage(registry::LibraryFolder(std::getenv), options.package));
  ASSIGN_OR_RETURN(const package::Package package, package::Package::Open(source));
  const package::Manifest& manifest = package.manifest;
  worker::LayerLoader loader(manifest, worker::MakeLocalSource(package));
  ASSIGN_OR_RETURN(const std::vector<program::Program> programs,
                   loader.Programs(0, static_cast<uint32_t>(manifest.layers.size())));
  ASSIGN_OR_RETURN(std::vector<program::Program> plain, InGroups(programs, options.columns));
  if (!manifest.embedding && !options.whole_head)
    plain.back() = program::HeadInRanges(plain.back());
  ASSIGN_OR_RETURN(const api::ModelText text, LoadModelText(package));
  ASSIGN_OR_RETURN(Documents documents, ReadTokens(options.text, text, options.documents));
  ASSIGN_OR_RETURN(Documents chats, ReadChats(options.text, text));
  std::ranges::move(chats, std::back_inserter(documents));
  ASSIGN_OR_RETURN(auto made, convert::GroupPackage::Make(package, std::move(plain), options.folder,
                                                          options.force));
  worker::LayerLoader weights(made.weights().manifest, worker::MakeLocalSource(made.weights()));
  GroupCalibration calibration(manifest, made.programs(), weights, options.threads);
  TRY(calibration.Load());
  for (size_t i = 0; i < documents.size(); ++i) {
    TRY(calibration.Run(std::span(documents).subspan(i, 1)));
    std::fprintf(stderr, "\rMeasured %zu of %zu documents", i + 1, documents.size());
  }
  std::fprintf(stderr, "\n");
  TRY(made.Finish(package, calibration.Grids(), calibration.Norms()));
  uint32_t layers = 0, groups = 0;
  for (const program::Program& layer : made.programs())
    if (program::HasGroups(layer)) ++layers, groups = program::FindExperts(layer)->experts;
  const auto ranges = program::FindHeadRanges(made.programs().back());
  const std::string head =
      ranges ? ", the output head in " + std::to_string(ranges->count) + " ranges" : "";
  std::printf("%s: %u layers of %u neuron groups%s. Serve it with  weft serve %s --plan tensor\n",
              manifest.name.c_str(), layers, groups, head.c_str(), options.folder.c_str());
  return OkStatus();
}

}  // namespace

void AddGroupsCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<GroupsOptions>();
  CLI::App* command = app.add_subcommand(
      "groups",
      "Make a package whose dense MLPs are in neuron groups, which several devices compute "
      "together for every token (serve --plan tensor)");
  command->add_option("package", options->package, "A package's folder, or its name in the library")
      ->required();
  command->add_option("folder", options->folder, "Folder to make")->required();
  command
      ->add_option("--text", options->text,
                   "JSON lines, a document each, as the model will see them: they show how large "
                   "the groups' outputs are. The first eight are looked at as chats, too")
      ->required();
  command->add_option("--columns", options->columns, "Columns of an MLP in a group, at most")
      ->capture_default_str()
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
  command->add_flag("--force", options->force, "Replace an existing package");
  command->callback([options, exit_code] {
    OutliveReaders();
    *exit_code = ReportStatus(MakeGroups(*options));
  });
}

}  // namespace weft::apps
