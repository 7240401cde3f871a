// `weft profile PACKAGE --text FILE`: trains predictors of which neuron groups matter for a token,
// and stores them in the package.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "apps/commands.h"
#include "apps/group_calibration.h"
#include "apps/model_info.h"
#include "apps/predictor_training.h"
#include "apps/progress_line.h"
#include "base/clock.h"
#include "package/predictors.h"
#include "program/shards.h"
#include "registry/library.h"
#include "registry/registry_settings.h"
#include "worker/layer_loader.h"
#include "worker/package_source.h"

namespace weft::apps {
namespace {

struct ProfileOptions {
  std::string package, text;
  uint32_t documents = 256;
  uint32_t rows = 8192;
  TrainingOptions training;
};

// Every tenth document is held out, the second one first.
bool IsHeldOut(size_t document) {
  return document % 10 == 1;
}

struct Gathered {
  PredictorCollector training, held_out;
};

// Runs the documents until there are rows enough.
Status Gather(const package::Package& package, const Documents& documents, uint32_t threads,
              Gathered& gathered) {
  worker::LayerLoader loader(package.manifest, worker::MakeLocalSource(package));
  ASSIGN_OR_RETURN(std::vector<program::Program> programs,
                   loader.Programs(0, static_cast<uint32_t>(package.manifest.layers.size())));
  if (std::none_of(programs.begin(), programs.end(), program::HasGroups))
    return Error(ErrorCode::kInvalidArgument, "'" + package.folder.string() +
                                                  "' is not in neuron groups. Make a package that "
                                                  "is with `weft groups`.");
  GroupCalibration calibration(package.manifest, std::move(programs), loader, threads);
  TRY(calibration.Load());
  PredictorCollector* into = nullptr;
  calibration.Observe([&into](const engine::SlotRequest& request, std::span<const float> norms) {
    into->Add(request, norms);
  });
  ProgressLine progress("Measuring", "documents");
  for (size_t i = 0; i < documents.size(); ++i) {
    into = IsHeldOut(i) ? &gathered.held_out : &gathered.training;
    if (into->IsFull()) continue;
    into->BeginDocument();
    TRY(calibration.Run(std::span(documents).subspan(i, 1)));
    progress.Show(i + 1, documents.size());
  }
  progress.Finish();
  return OkStatus();
}

Result<std::vector<TrainedPredictor>> Train(const Gathered& gathered,
                                            const TrainingOptions& options) {
  ProgressLine progress("Training", "epochs");
  auto trained =
      TrainPredictors(gathered.training.layers(), gathered.held_out.layers(), options,
                      [&progress](uint64_t done, uint64_t all) { progress.Show(done, all); });
  progress.Finish();
  return trained;
}

void Report(const package::Package& package, const std::vector<TrainedPredictor>& trained,
            const Gathered& gathered, double seconds) {
  PredictorQuality predicted, constant;
  uint64_t bytes = 0, weight_bytes = 0;
  std::printf("layer  loss    ranks   top quarter   mean norms: loss  ranks   top quarter\n");
  const auto add = [&](PredictorQuality& sum, const PredictorQuality& each) {
    const auto layers = static_cast<double>(trained.size());
    sum.loss += each.loss / layers;
    sum.ranks += each.ranks / layers;
    sum.recall += each.recall / layers;
  };
  const auto print = [](const std::string& name, const PredictorQuality& a,
                        const PredictorQuality& b) {
    std::printf("%5s  %5.2f%%  %6.3f  %10.1f%%        %5.2f%%  %6.3f  %10.1f%%\n", name.c_str(),
                100 * a.loss, a.ranks, 100 * a.recall, 100 * b.loss, b.ranks, 100 * b.recall);
  };
  for (const TrainedPredictor& each : trained) {
    add(predicted, each.predicted);
    add(constant, each.constant);
    bytes += each.blob.size();
    print(std::to_string(each.layer), each.predicted, each.constant);
  }
  print("mean", predicted, constant);
  weight_bytes = package::DownloadBytes(package.manifest, 0,
                                        static_cast<uint32_t>(package.manifest.layers.size()));
  std::printf(
      "%s: predictors of %zu layers, %s (%.2f%% of the weights), trained on %zu rows in %.1f s, "
      "measured on %zu others.\n",
      package.manifest.name.c_str(), trained.size(), HumanBytes(bytes).c_str(),
      100 * static_cast<double>(bytes) / static_cast<double>(weight_bytes),
      gathered.training.layers().front().count(), seconds,
      gathered.held_out.layers().front().count());
}

Status Profile(const ProfileOptions& options) {
  ASSIGN_OR_RETURN(const std::filesystem::path folder,
                   registry::FindPackage(registry::LibraryFolder(std::getenv), options.package));
  ASSIGN_OR_RETURN(const package::Package package, package::Package::Open(folder));
  ASSIGN_OR_RETURN(const api::ModelText text, LoadModelText(package));
  ASSIGN_OR_RETURN(const Documents documents, ReadTokens(options.text, text, options.documents));
  if (documents.size() < 2)
    return Error(ErrorCode::kInvalidData, "'" + options.text +
                                              "' has 1 document; expected at least 2, one to train "
                                              "on and one to measure on.");
  Gathered gathered{PredictorCollector(options.rows), PredictorCollector(options.rows)};
  TRY(Gather(package, documents, options.training.threads, gathered));
  const Instant began = MonotonicNow();
  ASSIGN_OR_RETURN(const std::vector<TrainedPredictor> trained, Train(gathered, options.training));
  const double seconds = (MonotonicNow() - began).seconds();
  std::map<uint32_t, std::vector<uint8_t>> blobs;
  for (const TrainedPredictor& each : trained) blobs[each.layer] = each.blob;
  TRY(package::StorePredictors(package, blobs));
  Report(package, trained, gathered, seconds);
  return OkStatus();
}

}  // namespace

void AddProfileCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<ProfileOptions>();
  options->training.threads = std::max(1u, std::thread::hardware_concurrency());
  CLI::App* command = app.add_subcommand(
      "profile",
      "Train predictors of which neuron groups matter for a token, and store them in the package; "
      "until they are stored it stays as it was");
  command
      ->add_option("package", options->package,
                   "A package of 'weft groups': its folder, or its name in the library")
      ->required();
  command
      ->add_option("--text", options->text,
                   "JSON lines, a document each, as the model will see them; a tenth of them is "
                   "held out to measure the predictors on")
      ->required();
  command->add_option("--documents", options->documents, "Documents that are looked at, at most")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 20));
  command->add_option("--rows", options->rows, "Tokens to train on, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 24));
  command->add_option("--hidden", options->training.hidden, "Values between the two matrices")
      ->capture_default_str()
      ->check(CLI::Range(1u, package::kMaxPredictorHidden));
  command
      ->add_option("--epochs", options->training.epochs, "Times that the tokens are gone through")
      ->capture_default_str()
      ->check(CLI::Range(1, 10000));
  command->add_option("--seed", options->training.seed, "The same seed gives the same predictors")
      ->capture_default_str();
  command->add_option("--threads", options->training.threads, "Threads to compute with")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->callback([options, exit_code] {
    OutliveReaders();
    *exit_code = ReportStatus(Profile(*options));
  });
}

}  // namespace weft::apps
