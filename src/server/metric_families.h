// Families of metrics as prometheus-cpp prints them. The numbers are kept where they are counted;
// a family is made of them when somebody asks.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <utility>
#include <vector>

#include "base/time_buckets.h"

namespace weft::server {

using MetricFamilies = std::vector<prometheus::MetricFamily>;

// One value of a family: its labels and what it is.
struct MetricValue {
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};
struct MetricTimes {
  std::vector<std::pair<std::string, std::string>> labels;
  TimeBuckets times;
};

// A counter where the name ends with "_total", as Prometheus has it, otherwise a gauge. Without
// values there is no family.
void AddFamily(MetricFamilies& families, const std::string& name, const std::string& help,
               const std::vector<MetricValue>& values);
void AddHistogram(MetricFamilies& families, const std::string& name, const std::string& help,
                  const std::vector<MetricTimes>& values);

// Adds metrics with a further label; a family that is there already gets them.
void AddLabelled(MetricFamilies& families, MetricFamilies more, const std::string& label,
                 const std::string& value);

// In Prometheus' text format, version 0.0.4.
std::string MetricText(const MetricFamilies& families);

}  // namespace weft::server
