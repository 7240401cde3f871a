// What named API keys cost: a request's check against many of them, a look for changes of the file,
// and a flush of usage. Beside them the same request without named keys.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "base/file_testing.h"
#include "base/secret.h"
#include "server/access.h"
#include "server/key_table.h"
#include "store/store.h"

namespace weft::server {
namespace {

constexpr const char* kSecret = "weft-0123456789abcdef0123456789abcdef";

net::HttpRequest RequestWith(const std::string& secret) {
  net::HttpRequest request;
  request.method = "POST";
  request.headers = {{"host", "127.0.0.1:8080"},
                     {"content-type", "application/json"},
                     {"authorization", "Bearer " + secret}};
  request.remote_address = "192.168.1.7";
  return request;
}

store::Key KeyOf(int64_t id, const std::string& secret) {
  store::Key key;
  key.id = id;
  key.name = "key" + std::to_string(id);
  key.hash = HashSecret(secret);
  key.limits = {100'000, 1'000'000'000, 100};
  return key;
}

AccessPolicy PolicyWith(KeyTable* table) {
  AccessPolicy policy;
  policy.api_key_hash = HashSecret("key-key-key");
  policy.keys = table;
  return policy;
}

// All that the router asks of a request beside its name and origin.
void Check(const AccessPolicy& policy, const net::HttpRequest& request) {
  benchmark::DoNotOptimize(CheckSecret(policy, request, Secret::kApiKey));
  benchmark::DoNotOptimize(ClientOf(policy, request));
  benchmark::DoNotOptimize(SaltOf(policy, request));
}

void WithoutNamedKeys(benchmark::State& state) {
  KeyTable table("weft-tiny");
  const AccessPolicy policy = PolicyWith(&table);
  const net::HttpRequest request = RequestWith("key-key-key");
  for (auto _ : state) Check(policy, request);
}
BENCHMARK(WithoutNamedKeys);

void WithNamedKeys(benchmark::State& state) {
  KeyTable table("weft-tiny");
  std::vector<store::Key> keys = {KeyOf(1, kSecret)};
  for (int64_t id = 2; id <= state.range(0); ++id) keys.push_back(KeyOf(id, std::to_string(id)));
  table.Replace(std::move(keys), {}, 0);
  const AccessPolicy policy = PolicyWith(&table);
  const net::HttpRequest request = RequestWith(kSecret);
  for (auto _ : state) {
    Check(policy, request);
    KeyTable::Admission admission = table.Admit(*NamedKeyOf(policy, request));
    benchmark::DoNotOptimize(admission);
    table.Count(1, 20, 10, 100);
  }
}
BENCHMARK(WithNamedKeys)->Arg(1)->Arg(10'000)->Iterations(90'000);

struct Filled {
  Filled(int64_t keys) {
    store =
        store::Store::Open(folder.path() / store::kFileName, store::OpenMode::kCreate, UnixNowMs())
            .value();
    for (int64_t i = 0; i < keys; ++i) {
      store::NewKey key;
      key.name = "key" + std::to_string(i);
      ids.push_back(store->AddKey(key, HashSecret(key.name), UnixNowMs())->id);
    }
  }
  const TemporaryFolder folder;
  std::unique_ptr<store::Store> store;
  std::vector<int64_t> ids;
};

void LookForChanges(benchmark::State& state) {
  Filled filled(100);
  for (auto _ : state)
    benchmark::DoNotOptimize(filled.store->IsInPlace() && filled.store->DataVersion().ok());
}
BENCHMARK(LookForChanges);

void ReadKeys(benchmark::State& state) {
  Filled filled(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(filled.store->Keys());
    benchmark::DoNotOptimize(filled.store->UsageSince(0));
  }
}
BENCHMARK(ReadKeys)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

void FlushUsage(benchmark::State& state) {
  Filled filled(state.range(0));
  std::vector<store::HourlyUsage> rows;
  for (const int64_t id : filled.ids)
    rows.push_back({store::HourOf(UnixNowMs()), id, {1, 20, 10, 100}});
  for (auto _ : state)
    benchmark::DoNotOptimize(filled.store->AddUsage(rows, "weft-tiny", "8080", UnixNowMs()));
}
BENCHMARK(FlushUsage)->Arg(1)->Arg(100)->Arg(1000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace weft::server

BENCHMARK_MAIN();
