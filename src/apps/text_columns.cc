#include "apps/text_columns.h"

#include <algorithm>
#include <iostream>

namespace weft::apps {

void PrintColumns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      std::cout << row[i] << std::string(widths[i] - row[i].size() + 2, ' ');
    }
    std::cout << row.back() << "\n";
  }
}

}  // namespace weft::apps
