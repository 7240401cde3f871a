#include "apps/remote_cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::apps {
namespace {

using testing::HasSubstr;

TEST(RemoteCellsTest, ReadsWhichModelsAreLoaded) {
  const auto list = ParseCellList(
      R"({"version": 7, "cells": [{"cell": 3, "model": "tiny", "need_bytes": 1200}]})");
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->version, 7u);
  ASSERT_EQ(list->cells.size(), 1u);
  EXPECT_EQ(list->cells[0].cell, 3u);
  EXPECT_EQ(list->cells[0].model, "tiny");
  EXPECT_EQ(list->cells[0].need_bytes, 1200u);
  const auto none = ParseCellList(R"({"version": 1, "cells": []})");
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->cells.empty());
}

TEST(RemoteCellsTest, SaysWhatIsWrongWithAList) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "no JSON object"},
      {"[]", "no JSON object"},
      {R"({"cells": []})", "lacks its version"},
      {R"({"version": -1, "cells": []})", "lacks its version"},
      {R"({"version": 1, "cells": {}})", "lacks its version"},
      {R"({"version": 1, "cells": [3]})", "no object"},
      {R"({"version": 1, "cells": [{"cell": 0, "model": "a", "need_bytes": 1}]})",
       "without number"},
      {R"({"version": 1, "cells": [{"cell": 4294967296, "model": "a", "need_bytes": 1}]})",
       "without number"},
      {R"({"version": 1, "cells": [{"cell": 1, "model": 2, "need_bytes": 1}]})", "without number"},
      {R"({"version": 1, "cells": [{"cell": 1, "model": "a"}]})", "without number"},
  };
  for (const auto& [text, why] : wrong) {
    const auto list = ParseCellList(text);
    ASSERT_FALSE(list.ok()) << text;
    EXPECT_THAT(list.error().message(), HasSubstr(why)) << text;
  }
}

}  // namespace
}  // namespace weft::apps
