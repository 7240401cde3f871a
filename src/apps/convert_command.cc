#include "apps/convert_command.h"

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <cstdio>
#include <memory>

#include "apps/commands.h"
#include "apps/converting.h"
#include "base/bytes.h"
#include "convert/convert.h"
#include "convert/model/parse_config.h"
#include "convert/source/gguf.h"

namespace weft::apps {
namespace {

struct Arguments {
  std::string source;
  std::string package;
  std::string quantisation = "keep";
  std::string boundary;
  std::string name;
  std::string embedding;
  bool matryoshka = false;
  uint32_t context_length = 0;
  bool force = false;
  bool without_tokenizer = false;
  bool json = false;
};

void PrintReport(const convert::ConvertReport& report, const Arguments& arguments, double seconds) {
  for (const std::string& note : NotesOf(report)) {
    std::fprintf(stderr, "weft convert: note: %s\n", note.c_str());
  }
  if (arguments.json) {
    const boost::json::object object{{"package", arguments.package},
                                     {"name", report.name},
                                     {"architecture", report.architecture},
                                     {"quantisation", report.quantisation},
                                     {"transformer_layers", report.transformer_layers},
                                     {"pooling", report.pooling},
                                     {"source_bytes", report.source_bytes},
                                     {"kept_bytes", report.kept_bytes},
                                     {"package_bytes", report.package_bytes},
                                     {"lowered", report.lowered},
                                     {"why_not_lowered", report.why_not_lowered},
                                     {"seconds", seconds}};
    std::printf("%s\n", boost::json::serialize(object).c_str());
    return;
  }
  std::printf("Wrote %s: %s, %u layers, weights %s, %s (from %s in %.1f s, %s/s).\n",
              arguments.package.c_str(), report.architecture.c_str(), report.transformer_layers,
              report.quantisation.c_str(), HumanBytes(report.package_bytes).c_str(),
              HumanBytes(report.source_bytes).c_str(), seconds,
              HumanBytes(static_cast<uint64_t>(static_cast<double>(report.source_bytes) /
                                               std::max(seconds, 1e-3)))
                  .c_str());
  if (!report.pooling.empty()) {
    std::printf("It makes embeddings (%s row%s) and writes no text.\n",
                report.pooling == "mean" ? "the mean of all" : "the last",
                report.pooling == "mean" ? "s" : "");
  }
  if (!report.lowered) std::printf("%s\n", WhyOnlyBrowsers(report).c_str());
}

int Run(const Arguments& arguments) {
  convert::ConvertOptions options;
  options.source = arguments.source;
  options.package = arguments.package;
  options.keeps_k_quants = arguments.quantisation == "keep-k";
  if (!arguments.quantisation.starts_with("keep")) {
    options.quantisation = DTypeFromName(arguments.quantisation);
  }
  options.boundary_dtype = DTypeFromName(arguments.boundary);  // nullopt when not given
  options.name = arguments.name;
  if (arguments.context_length > 0) options.context_length = arguments.context_length;
  options.embedding.pooling = package::PoolingFromName(arguments.embedding);
  options.embedding.none = arguments.embedding == "none";
  options.embedding.matryoshka = arguments.matryoshka;
  options.force = arguments.force;
  options.without_tokenizer = arguments.without_tokenizer;

  double seconds = 0;
  const auto report = ConvertWithProgress(options, &seconds);
  if (!report.ok()) {
    std::fprintf(stderr, "weft convert: %s\n", report.error().ToString().c_str());
    return 1;
  }
  PrintReport(*report, arguments, seconds);
  return 0;
}

}  // namespace

void AddConvertCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "convert",
      "Make a model package from a Hugging Face checkpoint folder (safetensors), a GGUF file or an "
      "ONNX decoder");
  command->footer("Architectures: " + convert::SupportedArchitectures() +
                  ". GGUF types: " + convert::SupportedGgufTypes() + ".");
  command
      ->add_option(
          "source", arguments->source,
          "Folder with config.json, *.safetensors and tokenizer.json; a .gguf file (any part of a "
          "split one); or a folder with model.onnx and config.json or genai_config.json")
      ->required();
  command->add_option("package", arguments->package, "Folder to make")->required();
  command
      ->add_option(
          "--quant", arguments->quantisation,
          "Weights as f32, f16, q8 or q4 (blocks of 32; embeddings and head at q8), as q4s "
          "(superblocks of 256: nearer and smaller than q4; embeddings and head at q6k), or keep "
          "them as they are; keep-k: Q4_K, Q5_K and Q6_K of GGUF files, too, which keep makes q8")
      ->check(CLI::IsMember({"f32", "f16", "q8", "q4", "q4s", "keep", "keep-k"}))
      ->capture_default_str();
  command->add_option("--name", arguments->name,
                      "Name of the model (default: that of the folder or file)");
  command
      ->add_option("--boundary", arguments->boundary,
                   "What crosses the network between layers: f16, bf16 for models whose "
                   "activations overflow f16, or f32 (default: f32 with --quant f32, else f16)")
      ->check(CLI::IsMember({"f16", "bf16", "f32"}));
  command
      ->add_option("--context", arguments->context_length,
                   "Positions that a checkpoint is made for (default: all, but with longrope those "
                   "of its short table)")
      ->check(CLI::Range(1, 1 << 28));
  command
      ->add_option("--embedding", arguments->embedding,
                   "Make a package that makes embeddings, of the mean of a text's rows or of its "
                   "last row, or none (default: what the checkpoint says)")
      ->check(CLI::IsMember({"mean", "last", "none"}));
  command->add_flag("--matryoshka", arguments->matryoshka,
                    "The first columns of its embeddings are embeddings, too, as the model's card "
                    "says");
  command->add_flag("--force", arguments->force, "Replace an existing package");
  command->add_flag("--no-tokenizer", arguments->without_tokenizer,
                    "Do not look at tokenizer.json, nor warn when there is none (for packages "
                    "that are evaluated, not chatted with)");
  command->add_flag("--json", arguments->json, "Print the result as one line of JSON");
  command->callback([arguments, exit_code] {
    OutliveReaders();
    *exit_code = Run(*arguments);
  });
}

}  // namespace weft::apps
