// A table in q6k that is the head, too: both read the same panels, which are held once.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/engine.h"
#include "engine/test_model.h"
#include "tensor/blocks.h"

namespace weft::engine {
namespace {

// A model with rows of one superblock.
struct WithTable {
  explicit WithTable(bool tied) : engine(MakeNativeEngine({.thread_count = 2})) {
    spec.hidden = 256;
    spec.table_dtype = DType::kQ6K;
    spec.tied = tied;
    programs = ModelBuilder(spec, RandomTensors(1), source).Build();
    status = engine->Load(programs, source);
  }

  uint64_t weight_bytes() const { return engine->memory().weight_bytes; }

  ModelSpec spec;
  MemorySource source;
  std::vector<program::Program> programs;
  std::unique_ptr<StageEngine> engine;
  Status status = OkStatus();
};

// 128 rows of 210 bytes.
TEST(TiedTable, PanelsAreHeldOnce) {
  const WithTable untied(false);
  const WithTable tied(true);
  ASSERT_TRUE(tied.status.ok()) << tied.status.error().ToString();
  const uint64_t once = tied.weight_bytes();
  EXPECT_EQ(untied.weight_bytes() - once, 128u * 210);
  // The head keeps what it shared with the table.
  tied.engine->Unload({0, 1});
  EXPECT_EQ(tied.weight_bytes(), once);
  tied.engine->Unload({1, tied.spec.layers + 2});
  EXPECT_EQ(tied.weight_bytes(), 0u);
}

TEST(TiedTable, RowsAreThoseOfTheStoredTable) {
  WithTable tied(true);
  ASSERT_TRUE(tied.status.ok()) << tied.status.error().ToString();
  const std::vector<int32_t> ids = {127, 0, 15, 16, 64};
  const engine::Run run = {1, 0, 0, static_cast<uint32_t>(ids.size()), {OutputKind::kHidden}};
  const auto output = tied.engine->Step({{0, 1}, {&run, 1}, ids, {}});
  ASSERT_TRUE(output.ok()) << output.error().ToString();
  const program::Weight& table = tied.programs[0].weights[0];
  ASSERT_EQ(table.dtype, DType::kQ6K);
  const auto data = tied.source.Read(table.data[0]), scale = tied.source.Read(table.scale[0]);
  ASSERT_TRUE(data.ok() && scale.ok());
  ASSERT_EQ(output->hidden.size(), ids.size() * 256);
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto row = static_cast<size_t>(ids[i]);
    std::vector<uint16_t> words(41);
    std::memcpy(words.data(), scale->bytes().data() + row * 82, 82);
    std::vector<float> wanted(256);
    DequantizeRow(DType::kQ6K, data->bytes().subspan(row * 128, 128), words, {}, wanted);
    const auto got = output->hidden.begin() + static_cast<ptrdiff_t>(i * 256);
    EXPECT_EQ(std::vector<float>(got, got + 256), wanted) << row;
  }
}

}  // namespace
}  // namespace weft::engine
