#include "server/metric_families.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace weft::server {
namespace {

prometheus::ClientMetric Labelled(const std::vector<std::pair<std::string, std::string>>& labels) {
  prometheus::ClientMetric metric;
  for (const auto& [name, value] : labels) metric.label.push_back({name, value});
  return metric;
}

// Prometheus counts in every bucket those of the shorter ones, too; the last one has no end.
prometheus::ClientMetric::Histogram HistogramOf(const TimeBuckets& times) {
  prometheus::ClientMetric::Histogram histogram;
  histogram.sample_count = times.count();
  histogram.sample_sum = times.sum_s();
  uint64_t cumulative = 0;
  for (size_t i = 0; i < TimeBuckets::kEndsS.size(); ++i) {
    cumulative += times.counts()[i];
    histogram.bucket.push_back({cumulative, TimeBuckets::kEndsS[i]});
  }
  return histogram;
}

}  // namespace

void AddFamily(MetricFamilies& families, const std::string& name, const std::string& help,
               const std::vector<MetricValue>& values) {
  if (values.empty()) return;
  const bool is_counter = name.ends_with("_total");
  prometheus::MetricFamily family{
      name, help, is_counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge, {}};
  for (const MetricValue& each : values) {
    prometheus::ClientMetric metric = Labelled(each.labels);
    if (is_counter)
      metric.counter.value = each.value;
    else
      metric.gauge.value = each.value;
    family.metric.push_back(std::move(metric));
  }
  families.push_back(std::move(family));
}

void AddHistogram(MetricFamilies& families, const std::string& name, const std::string& help,
                  const std::vector<MetricTimes>& values) {
  if (values.empty()) return;
  prometheus::MetricFamily family{name, help, prometheus::MetricType::Histogram, {}};
  for (const MetricTimes& each : values) {
    prometheus::ClientMetric metric = Labelled(each.labels);
    metric.histogram = HistogramOf(each.times);
    family.metric.push_back(std::move(metric));
  }
  families.push_back(std::move(family));
}

void AddLabelled(MetricFamilies& families, MetricFamilies more, const std::string& label,
                 const std::string& value) {
  for (prometheus::MetricFamily& family : more) {
    for (prometheus::ClientMetric& metric : family.metric)
      metric.label.insert(metric.label.begin(), {label, value});
    const auto known = std::find_if(families.begin(), families.end(),
                                    [&](const auto& each) { return each.name == family.name; });
    if (known == families.end())
      families.push_back(std::move(family));
    else
      known->metric.insert(known->metric.end(), family.metric.begin(), family.metric.end());
  }
}

std::string MetricText(const MetricFamilies& families) {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return std::move(text).str();
}

}  // namespace weft::server
