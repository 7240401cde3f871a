#include "apps/pull_model.h"

#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "apps/converting.h"
#include "apps/local_model.h"
#include "apps/progress_line.h"
#include "base/bytes.h"
#include "convert/convert.h"
#include "registry/library.h"
#include "registry/pull.h"
#include "registry/registry_cache.h"

namespace weft::apps {
namespace {

namespace fs = std::filesystem;

std::atomic<bool> interrupted = false;

// While it lives, the first Ctrl-C asks for an orderly end; a second one ends the process.
class InterruptGuard {
 public:
  InterruptGuard() {
    interrupted = false;
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = true; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &old_int_);
    sigaction(SIGTERM, &action, &old_term_);
  }
  ~InterruptGuard() {
    sigaction(SIGINT, &old_int_, nullptr);
    sigaction(SIGTERM, &old_term_, nullptr);
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction old_int_ = {};
  struct sigaction old_term_ = {};
};

void Say(const std::string& text) {
  std::fprintf(stderr, "%s\n", text.c_str());
}

Result<registry::PulledModel> Download(const registry::RegistrySettings& settings,
                                       const registry::ModelReference& reference) {
  const InterruptGuard guard;
  std::unique_ptr<ProgressLine> line;
  registry::PullCallbacks callbacks;
  callbacks.on_summary = [&](const registry::PullSummary& summary) -> Status {
    Say(reference.repository + " (" + reference.revision + ", commit " +
        summary.commit.substr(0, 12) + ") from " + settings.endpoint_text + ": " +
        std::to_string(summary.file_count) + " files, " + HumanBytes(summary.total_bytes) +
        (summary.missing_bytes < summary.total_bytes
             ? ", of which " + HumanBytes(summary.missing_bytes) + " are not here yet."
             : "."));
    line = std::make_unique<ProgressLine>("Downloading");
    return OkStatus();
  };
  callbacks.on_progress = [&](const registry::PullProgress& progress) {
    if (line) line->Show(progress.done_bytes, progress.total_bytes, progress.fresh_bytes);
  };
  callbacks.on_note = [&](const std::string& note) {
    if (line) line->Finish();
    Say("weft pull: note: " + note);
  };
  auto pulled = registry::Pull(settings, reference, callbacks, interrupted);
  if (line) line->Finish();
  if (pulled.ok() && pulled->fresh_bytes > 0) {
    const double seconds = std::max(line->seconds(), 1e-3);
    char took[32];
    std::snprintf(took, sizeof(took), "%.1f s", seconds);
    const auto rate = static_cast<uint64_t>(static_cast<double>(pulled->fresh_bytes) / seconds);
    Say("Downloaded " + HumanBytes(pulled->fresh_bytes) + " in " + took + " (" + HumanBytes(rate) +
        "/s); every file has the hash that the registry states.");
  }
  return pulled;
}

// A package of q4 is about a third of a 16-bit checkpoint, one of f32 twice as large.
uint64_t ExpectedBytes(const registry::PulledModel& pulled) {
  const double factor = pulled.quantisation == "q4"    ? 0.35
                        : pulled.quantisation == "q4s" ? 0.35
                        : pulled.quantisation == "q8"  ? 0.6
                        : pulled.quantisation == "f32" ? 2.0
                                                       : 1.0;
  return static_cast<uint64_t>(static_cast<double>(pulled.total_bytes) * factor);
}

Status Convert(const registry::ModelReference& reference, const registry::PulledModel& pulled,
               const fs::path& package) {
  std::error_code failure;
  fs::create_directories(package.parent_path(), failure);
  if (failure) {
    return Error(ErrorCode::kIo, "Cannot make the library folder '" +
                                     package.parent_path().string() + "': " + failure.message() +
                                     ". WEFT_HOME names another one.");
  }
  const auto free_bytes = registry::FreeBytesAt(package.parent_path());
  if (free_bytes.ok() && *free_bytes < ExpectedBytes(pulled)) {
    Say("weft pull: note: the package may have " + HumanBytes(ExpectedBytes(pulled)) + ", and '" +
        package.parent_path().string() + "' has " + HumanBytes(*free_bytes) + " free.");
  }
  convert::ConvertOptions options;
  options.source = pulled.source;
  options.package = package;
  if (pulled.quantisation != "keep") options.quantisation = DTypeFromName(pulled.quantisation);
  options.name = reference.ToText();
  options.force = true;  // a package of another commit is replaced when the new one is whole
  const auto report = ConvertWithProgress(options);
  if (!report.ok()) {
    return Error(report.error())
        .Context("While converting '" + pulled.source.string() + "', which stays there");
  }
  for (const std::string& note : NotesOf(*report)) Say("weft pull: note: " + note);
  Say("Converted to " + package.string() + ": " + report->architecture + ", " +
      std::to_string(report->transformer_layers) + " layers, weights " + report->quantisation +
      ", " + HumanBytes(report->package_bytes) + ".");
  if (!report->lowered) Say(WhyOnlyBrowsers(*report));
  return OkStatus();
}

bool IsMadeFrom(const fs::path& package, const registry::PulledModel& pulled) {
  const auto entry = registry::ReadEntry(package);
  return entry.ok() && entry->source && entry->source->commit == pulled.commit;
}

}  // namespace

Result<fs::path> PullModel(const PullRequest& request) {
  ASSIGN_OR_RETURN(const registry::ModelReference reference,
                   registry::ParseModelReference(request.model, request.revision));
  ASSIGN_OR_RETURN(registry::RegistrySettings settings,
                   registry::ReadRegistrySettings(std::getenv));
  settings.offline = settings.offline || request.offline;
  settings.connections = request.connections;
  ASSIGN_OR_RETURN(const registry::PulledModel pulled, Download(settings, reference));
  if (request.download_only) return pulled.folder;
  const fs::path package = registry::LibraryFolder(std::getenv) / reference.PackageName();
  if (IsMadeFrom(package, pulled)) {
    Say("The library has " + reference.PackageName() +
        " of this commit already: " + package.string());
    return package;
  }
  TRY(Convert(reference, pulled, package));
  TRY(registry::WriteSource(package, {settings.endpoint_text, reference.repository,
                                      reference.revision, pulled.commit, pulled.files}));
  return package;
}

Result<fs::path> FindOrPull(const PullRequest& request) {
  const fs::path library = registry::LibraryFolder(std::getenv);
  const auto reference = registry::ParseModelReference(request.model, request.revision);
  if (request.revision.empty()) {
    auto found = registry::FindPackage(library, request.model);
    if (found.ok()) return found;
    if (IsLocalModel(request.model)) return ConvertLocalModel(request.model);
    // A word alone is a name that was mistyped rather than one of the registry's few old models.
    const bool is_registry_name = reference.ok() && request.model.find('/') != std::string::npos;
    if (!is_registry_name) return found;
  }
  if (!reference.ok()) return reference.error();
  if (auto found = registry::FindInLibrary(library, reference->PackageName()); found.ok()) {
    return found;
  }
  std::error_code failure;
  if (fs::is_directory(request.model, failure)) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + request.model +
                     "' is a folder here, but no model package. `weft convert` makes one from a "
                     "checkpoint; `weft pull " +
                     request.model + "` takes the registry's model of that name.");
  }
  return PullModel(request);
}

}  // namespace weft::apps
