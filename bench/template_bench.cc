// What a chat template costs: to parse one, and to render a conversation of 3 or of 101 messages.
// `./dev bench template`. All published templates of the reference data take part; those that
// refuse such a conversation are left out.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <boost/json/value.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/jinja/chat_template.h"

namespace weft {
namespace {

namespace json = boost::json;

std::vector<std::string> Sources() {
  const char* data = std::getenv("WEFT_DATA");
  std::vector<std::filesystem::path> paths;
  const std::filesystem::path folder =
      std::filesystem::path(data != nullptr ? data : "build/test-data") / "templates";
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".jinja") paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<std::string> sources;
  for (const auto& path : paths) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    sources.push_back(text.str());
  }
  return sources;
}

json::object Conversation(int turns) {
  json::array messages = {{{"role", "system"}, {"content", "You are brief."}}};
  for (int i = 0; i < turns; ++i) {
    if (i > 0)
      messages.push_back({{"role", "assistant"},
                          {"content", "The fox said \"no\" and went on through the wood.\n"}});
    messages.push_back(
        {{"role", "user"}, {"content", "What did the fox do on day " + std::to_string(i) + "?"}});
  }
  return {{"messages", messages},
          {"add_generation_prompt", true},
          {"bos_token", "<s>"},
          {"eos_token", "</s>"}};
}

void ParseAll(benchmark::State& state) {
  const auto sources = Sources();
  for (auto _ : state)
    for (const std::string& source : sources) CHECK(ChatTemplate::Parse(source).ok());
  state.counters["templates"] = static_cast<double>(sources.size());
}
BENCHMARK(ParseAll)->Unit(benchmark::kMicrosecond);

void RenderAll(benchmark::State& state) {
  const json::object conversation = Conversation(static_cast<int>(state.range(0)));
  std::vector<ChatTemplate> templates;
  for (const std::string& source : Sources()) {
    auto parsed = ChatTemplate::Parse(source);
    if (parsed.ok() && parsed->Render(conversation).ok())
      templates.push_back(std::move(parsed).value());
  }
  for (auto _ : state)
    for (const ChatTemplate& each : templates)
      benchmark::DoNotOptimize(each.Render(conversation).ok());
  state.counters["templates"] = static_cast<double>(templates.size());
}
BENCHMARK(RenderAll)->Arg(1)->Arg(50)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace weft

BENCHMARK_MAIN();
