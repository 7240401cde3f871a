// `weft keys` and `weft join-link`: named API keys and join tokens, in the file that servers of
// this user read, in the database of a cluster, or of a running server over /api/keys.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>
#include <chrono>
#include <iostream>
#include <thread>

#include "apps/cluster_settings.h"
#include "apps/commands.h"
#include "apps/secret_file.h"
#include "apps/server_reply.h"
#include "apps/state_folder.h"
#include "apps/terminal_text.h"
#include "apps/text_columns.h"
#include "base/random.h"
#include "base/secret.h"
#include "base/unix_time.h"
#include "cluster_host/cluster_member.h"
#include "net/client.h"
#include "server/key_json.h"
#include "store/store.h"

namespace weft::apps {
namespace json = boost::json;

namespace {

using store::KeyStore;
using store::OpenMode;

struct KeysOptions {
  std::string file;     // "": in the state folder
  std::string cluster;  // "": the file; else the address of the cluster's database
  std::string server;   // "": the file, or the cluster
  std::string api_key_file, fingerprint;
  std::string api_key;  // of the server
  bool insecure = false;
  std::string name;
  // Of `add`.
  std::string role = "user", expires;
  uint32_t hours = 8;  // of join-link
  std::vector<std::string> models;
  std::optional<uint32_t> per_minute, at_once;
  std::optional<uint64_t> tokens_per_day;
  bool as_json = false;  // of `list`
};

Result<std::unique_ptr<KeyStore>> OpenStore(const KeysOptions& options, OpenMode mode) {
  if (!options.cluster.empty()) {
    ASSIGN_OR_RETURN(auto keys, cluster_host::OpenKeys(options.cluster));
    return std::unique_ptr<KeyStore>(std::move(keys));
  }
  const std::filesystem::path path = KeysFile(options.file);
  if (path.empty())
    return Error(ErrorCode::kInvalidArgument,
                 "There is no folder for keys: neither XDG_STATE_HOME nor HOME is set. Set one of "
                 "them, or name a file with --file.");
  ASSIGN_OR_RETURN(auto file, store::Store::Open(path, mode, UnixNowMs()));
  return std::unique_ptr<KeyStore>(std::move(file));
}

// No key was ever made.
bool IsNoFile(const KeysOptions& options, const Result<std::unique_ptr<KeyStore>>& opened) {
  return !opened.ok() && opened.error().code() == ErrorCode::kNotFound && options.cluster.empty();
}

Result<store::NewKey> NewKeyOf(const KeysOptions& options) {
  store::NewKey key;
  key.name = options.name;
  ASSIGN_OR_RETURN(key.role, store::ParseRole(options.role));
  key.models = options.models;
  key.limits = {options.per_minute, options.tokens_per_day, options.at_once};
  if (!options.expires.empty()) {
    ASSIGN_OR_RETURN(key.expires_ms, store::ParseExpiry(options.expires, UnixNowMs()));
  }
  TRY(store::CheckNewKey(key, UnixNowMs()));
  return key;
}

// What a server answers to this call of /api/keys.
Result<json::object> AskServer(const KeysOptions& options, const std::string& method,
                               const std::string& path, const std::string& body) {
  ASSIGN_OR_RETURN(const net::Url server, net::ParseUrl(options.server));
  net::HttpCall call;
  call.method = method;
  call.path = path;
  call.body = body;
  call.headers = {{"Content-Type", "application/json"}};
  if (!options.api_key.empty())
    call.headers.emplace_back("Authorization", "Bearer " + options.api_key);
  net::HttpClient client(server, {options.fingerprint, options.insecure});
  ASSIGN_OR_RETURN(const net::HttpReply reply, client.Call(call));
  if (reply.status != 200 && reply.status != 201)
    return Error(ErrorCode::kUnavailable, "The server answered " + std::to_string(reply.status) +
                                              ": " + ErrorText(reply.body));
  boost::system::error_code failed;
  json::value value = json::parse(reply.body, failed);
  if (failed || !value.is_object())
    return Error(ErrorCode::kInvalidData,
                 "What answers at " + server.Authority() + " is not a weft server.");
  return std::move(value.as_object());
}

// The text of that field, for a terminal; "" where it is none.
std::string TextOf(const json::object& object, const char* field) {
  const json::value* value = object.if_contains(field);
  return value != nullptr && value->is_string() ? TerminalText(std::string(value->as_string()))
                                                : "";
}

std::string NumberOf(const json::object& object, const char* field) {
  const json::value* value = object.if_contains(field);
  return value != nullptr && value->is_int64() ? std::to_string(value->as_int64()) : "";
}

// Makes it and gives it.
Result<std::string> MakeKey(const KeysOptions& options) {
  ASSIGN_OR_RETURN(const store::NewKey wanted, NewKeyOf(options));
  if (options.server.empty()) {
    ASSIGN_OR_RETURN(const auto store, OpenStore(options, OpenMode::kCreate));
    std::string key = store::MakeApiKey();
    TRY(store->AddKey(wanted, HashSecret(key), UnixNowMs()));
    // Whoever sees it may use it at once, at any server.
    if (!options.cluster.empty())
      std::this_thread::sleep_for(std::chrono::microseconds(2 * store::kKeysLookInterval.us));
    return key;
  }
  json::object body{{"name", wanted.name}, {"role", options.role}};
  if (options.per_minute) body["per_minute"] = *options.per_minute;
  if (options.tokens_per_day) body["tokens_per_day"] = *options.tokens_per_day;
  if (options.at_once) body["at_once"] = *options.at_once;
  if (!options.expires.empty()) body["expires"] = options.expires;
  if (!options.models.empty()) body["models"] = json::value_from(options.models);
  ASSIGN_OR_RETURN(const json::object made,
                   AskServer(options, "POST", "/api/keys", json::serialize(body)));
  return TextOf(made, "key");
}

Status AddKey(const KeysOptions& options) {
  ASSIGN_OR_RETURN(const std::string key, MakeKey(options));
  std::cerr << "The key '" << options.name << "' (" << options.role
            << ") is shown this once; only its hash is kept:\n";
  std::cout << key << std::endl;
  return OkStatus();
}

// A key whose role is helper, as a link where the server can say how it is reached. The link, or
// the token, is alone on stdout.
Status MakeJoinLink(const KeysOptions& given) {
  KeysOptions options = given;
  options.role = "helper";
  options.expires = std::to_string(options.hours) + "h";
  if (options.name.empty())
    options.name = "link-" + store::TimeText(UnixNowMs()).substr(0, 10) + "-" + SecureRandomHex(3);
  std::string page;
  if (!options.server.empty()) {
    ASSIGN_OR_RETURN(const json::object share, AskServer(options, "GET", "/api/share", ""));
    page = TextOf(share, "join_url");
    page = page.substr(0, page.find('#')) + "#";
  }
  ASSIGN_OR_RETURN(const std::string token, MakeKey(options));
  std::cerr << "Good for " << options.hours << " h (weft keys end " << options.name
            << " ends it before)."
            << (page.empty() ? " A join token, to put behind https://HOST:PORT/join# or into "
                               "WEFT_JOIN_TOKEN:\n"
                             : "\n");
  std::cout << page << token << std::endl;
  return OkStatus();
}

Result<json::array> FindKeys(const KeysOptions& options) {
  if (!options.server.empty()) {
    ASSIGN_OR_RETURN(json::object listed, AskServer(options, "GET", "/api/keys", ""));
    json::array* data = listed["data"].if_array();
    if (data == nullptr)
      return Error(ErrorCode::kInvalidData, "The server's list of keys has no 'data'.");
    return std::move(*data);
  }
  json::array keys;
  const auto opened = OpenStore(options, OpenMode::kExisting);
  if (IsNoFile(options, opened)) return keys;
  if (!opened.ok()) return opened.error();
  const int64_t now_ms = UnixNowMs();
  ASSIGN_OR_RETURN(const std::vector<store::Key> found, opened.value()->Keys());
  ASSIGN_OR_RETURN(const auto usage, opened.value()->UsageSince(store::DayOf(now_ms)));
  for (const store::Key& key : found) {
    const auto today = usage.find(key.id);
    keys.push_back(
        server::KeyJson(key, today == usage.end() ? store::Usage() : today->second, now_ms));
  }
  return keys;
}

// "60/min, 200000 tokens/day, 2 at once"; "-" without limits.
std::string LimitsText(const json::object& key) {
  std::string text;
  const auto add = [&](const char* field, const char* unit) {
    const std::string number = NumberOf(key, field);
    if (!number.empty()) text += (text.empty() ? "" : ", ") + number + unit;
  };
  add("per_minute", "/min");
  add("tokens_per_day", " tokens/day");
  add("at_once", " at once");
  return text.empty() ? "-" : text;
}

Status ListKeys(const KeysOptions& options) {
  ASSIGN_OR_RETURN(const json::array keys, FindKeys(options));
  if (options.as_json) {
    std::cout << json::serialize(keys) << "\n";
    return OkStatus();
  }
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "ROLE", "STATE", "EXPIRES", "REQUESTS TODAY", "TOKENS TODAY", "LIMITS"}};
  size_t ended = 0;
  for (const json::value& value : keys) {
    if (!value.is_object()) continue;
    const json::object& key = value.as_object();
    if (TextOf(key, "state") == "ended") {
      ++ended;
      continue;
    }
    const json::value* usage = key.if_contains("today");
    const json::object today =
        usage != nullptr && usage->is_object() ? usage->as_object() : json::object();
    const std::string expires = TextOf(key, "expires");
    rows.push_back({TextOf(key, "name"), TextOf(key, "role"), TextOf(key, "state"),
                    expires.empty() ? "never" : expires, NumberOf(today, "requests"),
                    NumberOf(today, "counted_tokens"), LimitsText(key)});
  }
  if (rows.size() > 1)
    PrintColumns(rows);
  else
    std::cout << "There are no keys; weft keys add NAME makes one.\n";
  if (ended > 0) std::cout << "\n" << ended << " ended before (--json shows them).\n";
  return OkStatus();
}

Status EndKey(const KeysOptions& options) {
  if (options.server.empty()) {
    auto opened = OpenStore(options, OpenMode::kExisting);
    if (IsNoFile(options, opened))
      return Error(ErrorCode::kNotFound,
                   "There is no key '" + options.name + "': " + opened.error().message());
    if (!opened.ok()) return opened.error();
    TRY(opened.value()->EndKey(options.name, UnixNowMs()));
  } else {
    store::NewKey named;
    named.name = options.name;
    TRY(store::CheckNewKey(named, UnixNowMs()));  // it becomes a part of the path
    TRY(AskServer(options, "DELETE", "/api/keys/" + options.name, ""));
  }
  std::cerr << "The key '" << options.name << "' has ended.\n";
  return OkStatus();
}

// With the key for the server, which leaves the environment.
Status Run(KeysOptions options, Status (*command)(const KeysOptions&)) {
  options.api_key = TakeFromEnvironment("WEFT_API_KEY");
  if (options.file.empty() && options.server.empty()) options.cluster = ClusterUrl(options.cluster);
  if (!options.api_key_file.empty()) {
    ASSIGN_OR_RETURN(options.api_key, ReadSecretFile(options.api_key_file, "API key"));
  }
  return command(options);
}

// What all of them take.
void AddPlace(CLI::App& command, KeysOptions& options) {
  CLI::Option* file = command.add_option(
      "--file", options.file, "File with the keys (default: weft.db in the state folder)");
  CLI::Option* server = command.add_option(
      "--server", options.server, "Ask this running server, with an admin key in WEFT_API_KEY");
  server->excludes(file);
  command
      .add_option("--cluster", options.cluster,
                  "Address of a cluster's database (default: WEFT_CLUSTER), whose servers share "
                  "keys")
      ->excludes(file)
      ->excludes(server);
  command
      .add_option("--api-key-file", options.api_key_file,
                  "File whose first line is the server's admin key")
      ->needs(server);
  command
      .add_option("--fingerprint", options.fingerprint,
                  "SHA-256 of the server's self-signed certificate")
      ->needs(server);
  command.add_flag("--insecure", options.insecure, "Accept any certificate")->needs(server);
}

template <typename Parse>
CLI::Validator Parsed(const char* name, Parse parse) {
  return CLI::Validator(
      [parse](const std::string& text) {
        const auto parsed = parse(text);
        return parsed.ok() ? std::string() : parsed.error().message();
      },
      name);
}

void AddLimits(CLI::App& command, KeysOptions& options) {
  command.add_option("--per-minute", options.per_minute, "Requests in any 60 s, at most")
      ->check(CLI::Range(1u, store::kMostPerMinute));
  command
      .add_option("--tokens-per-day", options.tokens_per_day,
                  "Tokens in a day (UTC), at most: those of prompts that are computed, and answers")
      ->check(CLI::Range(uint64_t{1}, store::kMostTokensPerDay));
  command.add_option("--at-once", options.at_once, "Requests that may be under way together")
      ->check(CLI::Range(1u, store::kMostAtOnce));
  command
      .add_option(
          "--expires", options.expires,
          "When it ends: 2027-06-30 or 2027-06-30T18:00 (UTC), or from now 30m, 8h, 90d, 2w")
      ->check(Parsed(
          "TIME", [](const std::string& text) { return store::ParseExpiry(text, UnixNowMs()); }));
  command
      .add_option("--models", options.models,
                  "The models that it may ask, with commas between them (default: all)")
      ->delimiter(',');
}

}  // namespace

void AddKeysCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<KeysOptions>();
  CLI::App* keys =
      app.add_subcommand("keys", "Named API keys with limits, for several users of a server.");
  keys->require_subcommand(1);
  CLI::App* add = keys->add_subcommand("add", "Make a key and print it, once.");
  add->add_option("name", options->name, "Whose it is, e.g. maths")->required();
  add->add_option(
         "--role", options->role,
         "user: the API and the chat; admin: everything; metrics: /metrics alone; helper: a "
         "join token")
      ->capture_default_str()
      ->check(Parsed("ROLE", store::ParseRole));
  AddLimits(*add, *options);
  AddPlace(*add, *options);
  add->callback([options, exit_code] { *exit_code = ReportStatus(Run(*options, AddKey)); });
  CLI::App* list = keys->add_subcommand("list", "The keys, and what was used of them today.");
  list->add_flag("--json", options->as_json, "All that is known, of ended keys as well");
  AddPlace(*list, *options);
  list->callback([options, exit_code] { *exit_code = ReportStatus(Run(*options, ListKeys)); });
  CLI::App* end = keys->add_subcommand("end", "End a key; servers that run see it in a second.");
  end->add_option("name", options->name, "The key's name")->required();
  AddPlace(*end, *options);
  end->callback([options, exit_code] { *exit_code = ReportStatus(Run(*options, EndKey)); });
}

void AddJoinLinkCommand(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<KeysOptions>();
  CLI::App* command = app.add_subcommand(
      "join-link", "A join link for helpers that ends by itself, or with weft keys end.");
  command->add_option("--hours", options->hours, "How long it lets devices join")
      ->capture_default_str()
      ->check(CLI::Range(1, 24 * 366));
  command->add_option("--name", options->name, "Its name among the keys (default: by date)");
  AddPlace(*command, *options);
  command->callback(
      [options, exit_code] { *exit_code = ReportStatus(Run(*options, MakeJoinLink)); });
}

}  // namespace weft::apps
