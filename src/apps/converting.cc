#include "apps/converting.h"

#include "apps/progress_line.h"
#include "base/bytes.h"

namespace weft::apps {

Result<convert::ConvertReport> ConvertWithProgress(const convert::ConvertOptions& options,
                                                   double* seconds) {
  ProgressLine line("Converting");
  auto report = convert::ConvertCheckpoint(options, [&](const convert::ConvertProgress& progress) {
    line.Show(progress.done_bytes, progress.total_bytes, progress.done_bytes - progress.kept_bytes);
  });
  line.Finish();
  if (seconds != nullptr) *seconds = line.seconds();
  return report;
}

std::vector<std::string> NotesOf(const convert::ConvertReport& report) {
  std::vector<std::string> notes = report.warnings;
  if (report.kept_bytes > 0) {
    notes.push_back(HumanBytes(report.kept_bytes) + " of " + HumanBytes(report.source_bytes) +
                    " were kept from an interrupted conversion.");
  }
  return notes;
}

std::string WhyOnlyBrowsers(const convert::ConvertReport& report) {
  return "It can only be served by browsers with onnxruntime-web: " + report.why_not_lowered;
}

}  // namespace weft::apps
