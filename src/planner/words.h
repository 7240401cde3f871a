// Numbers with units, names and layers as people read them.
#pragma once

#include <string>
#include <vector>

#include "planner/problem.h"

namespace weft::planner {

std::string FormatBytes(double bytes);      // "1.2 GB", "512.0 MB"; decimal units
std::string FormatMicroseconds(double us);  // "850 us", "12.3 ms", "4.2 s"
// A worker's name for a terminal: short, and without control characters; "worker 3" where it has
// none.
std::string ShownName(const std::vector<WorkerMetrics>& workers, int worker);
// `text` followed by blanks up to so many characters; counts UTF-8 characters, not bytes.
std::string Padded(std::string text, size_t characters);
// [first, end) in the words of the pages: "the embedding and layers 1-3", "layer 8 and the head",
// "the whole model". REQUIRES: 0 <= first < end <= layer_count.
std::string FormatLayers(int first, int end, int layer_count);

}  // namespace weft::planner
