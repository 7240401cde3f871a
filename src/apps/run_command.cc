// `weft run`: a chat in the terminal over the OpenAI-compatible API of a running server, or of one
// that it starts itself for a model.
#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "apps/chat_servers.h"
#include "apps/commands.h"
#include "apps/line_input.h"
#include "apps/pull_model.h"
#include "apps/serve_command.h"
#include "apps/server_reply.h"
#include "apps/terminal_text.h"
#include "base/log.h"
#include "base/secret.h"
#include "net/client.h"
#include "registry/library.h"

namespace weft::apps {
namespace json = boost::json;

namespace {

struct RunOptions {
  std::vector<std::string> targets;  // a model, or servers; none: that of this machine
  std::string revision;
  bool offline = false;
  std::string api_key;
  std::string system;
  std::string prompt;                     // one question, then the end
  std::vector<std::string> fingerprints;  // of each server, or one for all
  bool insecure = false;
  double temperature = -1;
  uint32_t max_tokens = 0;
};

std::atomic<bool> interrupted = false;

constexpr const char* kOwnServer = "http://127.0.0.1:8080";

// Without a byte of an answer. Of a server that this process starts itself, which loads the model
// first, as long as that may take.
constexpr uint32_t kPatience_s = 600;
constexpr uint32_t kOwnServerWait_s = 590;

class TerminalChat {
 public:
  TerminalChat(RunOptions options, std::vector<ServerAddress> servers)
      : options_(std::move(options)), servers_(std::move(servers)) {}

  Status Run() {
    ASSIGN_OR_RETURN(model_, FindModel());
    if (!options_.system.empty()) Say("system", options_.system);
    if (!options_.prompt.empty()) return Ask(options_.prompt);
    std::cerr << "Chatting with " << TerminalText(model_) << " on " << servers_.authority()
              << ". /new starts over, /bye or Ctrl-D ends, Ctrl-C stops an answer.\n";
    std::signal(SIGINT, [](int) { interrupted = true; });
    for (std::string line; Prompt(&line);) {
      if (line == "/bye") break;
      if (line == "/new") {
        messages_.clear();
        if (!options_.system.empty()) Say("system", options_.system);
        continue;
      }
      if (line.empty()) continue;
      const Status answered = Ask(line);
      if (!answered.ok()) std::cerr << "weft: " << answered.error().ToString() << "\n";
    }
    return OkStatus();
  }

 private:
  bool Prompt(std::string* line) {
    if (input_.is_terminal()) std::cerr << std::endl;
    const auto typed = input_.Read("> ");
    interrupted = false;  // by Ctrl-C while nothing was answered
    if (!typed && input_.is_terminal()) std::cerr << std::endl;  // behind the ^D
    *line = typed.value_or("");
    return typed.has_value();
  }

  void Say(const char* role, const std::string& text) {
    messages_.push_back({{"role", role}, {"content", text}});
  }

  net::Headers Headers() const {
    net::Headers headers = {{"Content-Type", "application/json"}};
    if (!options_.api_key.empty())
      headers.emplace_back("Authorization", "Bearer " + options_.api_key);
    return headers;
  }

  Result<std::string> FindModel() {
    net::HttpCall call;
    call.path = "/v1/models";
    call.headers = Headers();
    ASSIGN_OR_RETURN(const net::HttpReply reply, servers_.Call(call));
    if (reply.status != 200) {
      return Error(ErrorCode::kUnavailable, "The server answered " + std::to_string(reply.status) +
                                                ": " + ErrorText(reply.body));
    }
    boost::system::error_code error;
    const json::value value = json::parse(reply.body, error);
    const json::value* id = error ? nullptr : value.find_pointer("/data/0/id", error);
    if (id == nullptr || !id->is_string()) {
      return Error(ErrorCode::kInvalidData,
                   "What answers at " + servers_.authority() + " is not a weft server.");
    }
    const std::string model(id->as_string());
    servers_.FindOthers(model, Headers());
    return model;
  }

  Status Ask(const std::string& question) {
    Say("user", question);
    json::object body = {{"model", model_}, {"messages", messages_}, {"stream", true}};
    if (options_.temperature >= 0) body["temperature"] = options_.temperature;
    if (options_.max_tokens > 0) body["max_tokens"] = options_.max_tokens;
    net::HttpCall call;
    call.method = "POST";
    call.path = "/v1/chat/completions";
    call.headers = Headers();
    call.body = json::serialize(body);
    // Before its answer a server waits for a swarm that is down (`weft serve --wait`); then it
    // sends a sign of life every few seconds.
    call.timeout = Seconds(kPatience_s);
    call.cancelled = &interrupted;
    std::string answer;
    std::string failure;
    bool thinks = false;
    ChatServers::Reader reader;
    reader.on_data = [&](std::string_view event) {
      return OnEvent(event, &answer, &failure, &thinks);
    };
    reader.on_comment = OnComment;
    reader.on_move = [&failure] {
      failure.clear();
      SayMoving();
    };
    reader.is_stopped = [] { return interrupted.load() || !std::cout.good(); };
    const auto reply = servers_.Stream(std::move(call), reader);
    std::cout << std::endl;
    Status outcome = OkStatus();
    if (!std::cout.good()) {
      // Nobody reads the answer: its rest is not computed.
      outcome = Error(ErrorCode::kIo, "The answer cannot be written to standard output.");
      std::cout.clear();
    } else if (!reply.ok() && reply.error().code() != ErrorCode::kCancelled) {
      outcome = reply.error();
    } else if (reply.ok() && reply->status != 200) {
      outcome = Error(ErrorCode::kUnavailable, ErrorText(reply->body));
    } else if (!failure.empty()) {
      outcome = Error(ErrorCode::kUnavailable, failure);
    }
    if (outcome.ok() || !answer.empty()) {
      Say("assistant", answer);
    } else {
      messages_.pop_back();  // the question can be asked again
    }
    return outcome;
  }

  // What redirects the answer does not get it.
  static void OnComment(std::string_view comment) {
    if (comment == R"(progress {"moving":true})") SayMoving();
  }
  static void SayMoving() { std::cerr << "\n(moving to another server)" << std::endl; }

  // Thoughts are shown in front of the answer, and are not said again in the next turn. False: the
  // server cannot go on with it.
  static bool OnEvent(std::string_view event, std::string* answer, std::string* failure,
                      bool* thinks) {
    boost::system::error_code error;
    const json::value value = json::parse(json::string_view(event.data(), event.size()), error);
    if (error) return true;
    if (value.is_object() && value.as_object().contains("error")) {
      *failure = ErrorText(std::string(event));
      const json::value* code = value.find_pointer("/error/code", error);
      return code == nullptr || *code != "unavailable";
    }
    const auto delta = [&value, &error](const char* name) {
      const json::value* text = value.find_pointer(name, error);
      return text != nullptr && text->is_string() ? std::string(text->as_string()) : "";
    };
    const std::string thoughts = delta("/choices/0/delta/reasoning_content");
    const std::string text = delta("/choices/0/delta/content");
    if (*thinks && !text.empty()) std::cout << "\n\n";
    *thinks = !thoughts.empty() || (*thinks && text.empty());
    *answer += text;
    std::cout << TerminalText(thoughts) << TerminalText(text) << std::flush;
    return true;
  }

  const RunOptions options_;
  LineInput input_{stdin, stderr};
  ChatServers servers_;
  std::string model_;
  json::array messages_;
};

// "http://host", "host:8080" and "localhost" are servers; everything else is a model.
bool IsServer(const std::string& target) {
  if (target.find("://") != std::string::npos || target == "localhost") return true;
  const size_t colon = target.rfind(':');
  if (colon == std::string::npos || colon + 1 == target.size()) return false;
  return target.find_first_not_of("0123456789", colon + 1) == std::string::npos;
}

// The model from the library or the registry, served by this process for as long as the chat lasts.
Status ChatWithModel(RunOptions options) {
  ASSIGN_OR_RETURN(const std::filesystem::path package,
                   FindOrPull({.model = options.targets.front(),
                               .revision = options.revision,
                               .offline = options.offline}));
  ASSIGN_OR_RETURN(const registry::LibraryEntry entry, registry::ReadEntry(package));
  if (!entry.manifest.lowered) {
    return Error(ErrorCode::kUnsupported,
                 "'" + package.string() +
                     "' can only be computed by browsers with onnxruntime-web, so that there is no "
                     "chat in the terminal alone. `weft serve " +
                     options.targets.front() + "` serves it for them.");
  }
  SetLogLevel("error");  // the chat has the terminal
  ServeOptions serve;
  serve.packages = {package.string()};
  serve.port = 0;
  serve.keys = "off";
  serve.own_secrets = true;  // the terminal is the only one that may ask
  serve.wait_s = kOwnServerWait_s;
  ASSIGN_OR_RETURN(const BackgroundServer server, BackgroundServer::Start(serve));
  ASSIGN_OR_RETURN(const net::Url url, net::ParseUrl(server.url()));
  options.api_key = server.api_key();
  const ServerAddress own{url, {}};
  return TerminalChat(std::move(options), {own}).Run();
}

Status RunChat(RunOptions options) {
  if (options.targets.empty()) options.targets = {kOwnServer};
  const auto model = std::ranges::find_if_not(options.targets, IsServer);
  if (model != options.targets.end() && options.targets.size() > 1)
    return Error(ErrorCode::kInvalidArgument,
                 "'" + *model +
                     "' is no address of a server; expected several servers, or one "
                     "model.");
  if (model != options.targets.end()) return ChatWithModel(std::move(options));
  ASSIGN_OR_RETURN(std::vector<ServerAddress> servers,
                   ParseServers(options.targets, options.fingerprints, options.insecure));
  if (options.api_key.empty()) {
    options.api_key = TakeFromEnvironment("WEFT_API_KEY");
  }
  return TerminalChat(std::move(options), std::move(servers)).Run();
}

}  // namespace

void AddRunCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Chat in the terminal with a model or a running server.");
  command
      ->add_option("target", options->targets,
                   "Address of a server, or a model to serve: a package's folder, a name in the "
                   "library, or ORGANISATION/NAME[:q4] of a registry, pulled when it is not there. "
                   "Of several servers another one goes on where one is lost")
      ->default_str(kOwnServer);
  command->add_option("--revision", options->revision,
                      "Branch, tag or commit of the registry's model");
  command->add_flag("--offline", options->offline, "Use what was downloaded before, no network");
  command->add_option("--prompt", options->prompt, "Ask this one question, print the answer, end");
  command->add_option("--system", options->system, "System message");
  command
      ->add_option("--temperature", options->temperature, "0 is greedy (default: the model's own)")
      ->check(CLI::Range(0.0, 2.0));
  command->add_option("--max-tokens", options->max_tokens, "Tokens of an answer at most");
  command->add_option("--api-key", options->api_key, "API key (also in WEFT_API_KEY)");
  command->add_option("--fingerprint", options->fingerprints,
                      "SHA-256 of the server's self-signed certificate; of several servers one "
                      "for all, or one for each");
  command->add_flag("--insecure", options->insecure, "Accept any certificate");
  command->callback([options, exit_code] {
    OutliveReaders();
    *exit_code = ReportStatus(RunChat(*options));
  });
}

}  // namespace weft::apps
