// Tables for the terminal.
#pragma once

#include <string>
#include <vector>

namespace weft::apps {

// Rows of equal length as columns on stdout; the last one is not padded. REQUIRES: there is a row.
void PrintColumns(const std::vector<std::vector<std::string>>& rows);

}  // namespace weft::apps
