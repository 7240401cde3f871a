// /metrics as Prometheus reads it: families, their types, and times in buckets.
#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/metric_families.h"
#include "server/swarm_host.h"

namespace weft::server {
namespace {

using testing::HasSubstr;

TEST(MetricFamiliesTest, ArePrintedWithTheirTypes) {
  MetricFamilies families;
  AddFamily(families, "weft_workers", "Workers", {{{}, 3}});
  AddFamily(families, "weft_calls_total", "Calls",
            {{{{"worker", "1"}}, 41}, {{{"worker", "2"}}, 0}});
  AddFamily(families, "weft_none", "Without values", {});
  EXPECT_EQ(MetricText(families),
            "# HELP weft_workers Workers\n# TYPE weft_workers gauge\nweft_workers 3\n"
            "# HELP weft_calls_total Calls\n# TYPE weft_calls_total counter\n"
            "weft_calls_total{worker=\"1\"} 41\nweft_calls_total{worker=\"2\"} 0\n");
}

TEST(MetricFamiliesTest, LargeCountsAreExact) {
  MetricFamilies families;
  AddFamily(families, "weft_bytes_total", "Bytes", {{{}, 123456789012}});
  EXPECT_THAT(MetricText(families), HasSubstr("\nweft_bytes_total 123456789012\n"));
}

TEST(MetricFamiliesTest, BucketsOfAHistogramAddUp) {
  TimeBuckets times;
  times.Add(Milliseconds(2));
  times.Add(Milliseconds(200));
  times.Add(Seconds(500));
  MetricFamilies families;
  AddHistogram(families, "weft_step_seconds", "Steps", {{{{"worker", "4"}}, times}});
  const std::string text = MetricText(families);
  EXPECT_THAT(text, HasSubstr("# TYPE weft_step_seconds histogram\n"));
  EXPECT_THAT(text, HasSubstr("weft_step_seconds_count{worker=\"4\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("weft_step_seconds_sum{worker=\"4\"} 500.202\n"));
  EXPECT_THAT(text, HasSubstr("weft_step_seconds_bucket{worker=\"4\",le=\"0.001\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("weft_step_seconds_bucket{worker=\"4\",le=\"0.0025\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("weft_step_seconds_bucket{worker=\"4\",le=\"0.25\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("weft_step_seconds_bucket{worker=\"4\",le=\"120\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("weft_step_seconds_bucket{worker=\"4\",le=\"+Inf\"} 3\n"));
}

TEST(SwarmMetricsTest, KeepTheirNames) {
  swarm::CoreOptions core;
  core.model.name = "tiny";
  core.model.layers.resize(3);
  core.model.hidden_columns = 8;
  core.model.vocabulary = 100;
  core.context_length = 64;
  net::EventLoop loop;
  TaskQueue planning(1);
  const SwarmHost host(loop, planning, core);
  MetricFamilies families;
  AddSwarmMetrics(families, host);
  AddKeyMetrics(families, KeyTable("tiny"));
  AddMoveMetrics(families, {.forwarded = 3, .moved = 2, .differences = 1});
  const std::string text = MetricText(families);
  for (const char* line : {"\nweft_core_events_total 0\n", "\nweft_frames_sent_total 0\n",
                           "\nweft_workers 0\n", "\nweft_up 0\n", "\nweft_keys{role=\"user\"} 0\n",
                           "\nweft_key_generated_tokens_total{role=\"helper\"} 0\n",
                           "# TYPE weft_requests_completed_total counter\n",
                           "\nweft_time_to_first_token_seconds_count 0\n",
                           "\nweft_time_between_tokens_seconds_count 0\n",
                           "\nweft_queue_seconds_count 0\n", "\nweft_requests_forwarded_total 3\n",
                           "\nweft_requests_moved_total 2\n", "\nweft_splice_differs_total 1\n"})
    EXPECT_THAT(text, HasSubstr(line));
}

}  // namespace
}  // namespace weft::server
