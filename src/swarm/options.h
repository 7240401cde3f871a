// What the core is told at start: the model's numbers (no files, no graphs), limits and timeouts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/sha256.h"
#include "tensor/dtype.h"

namespace weft::swarm {

struct ModelLayer {
  uint64_t weight_bytes = 0;
  uint64_t download_bytes = 0;          // blobs, program included
  uint64_t read_bytes_per_token = 0;    // C_i at position 0
  uint64_t kv_bytes_per_position = 0;
};

struct ModelInfo {
  std::string name;
  Sha256Digest package_digest{};
  std::vector<ModelLayer> layers;       // n + 2
  uint32_t hidden_columns = 0;
  uint32_t vocabulary = 0;
  DType boundary_dtype = DType::kF16;
  bool lowered = true;
};

// Every timeout of the orchestrator, in one place.
struct Timeouts {
  Duration ping_interval = Seconds(2);
  Duration silence_limit = Seconds(10);         // no byte received: the worker is lost
  Duration step_deadline_min = Seconds(2);      // deadline = max(this, factor x predicted)
  double step_deadline_factor = 5;
  Duration connect_limit = Seconds(5);          // socket open to Connect (excluding the download probe)
  Duration prepare_min = Seconds(20);           // prepare limit = max(this, factor x bytes / bandwidth)
  double prepare_factor = 3;
  Duration measure_limit = Seconds(30);
  Duration commit_limit = Seconds(10);
  Duration replan_interval = Seconds(15);
};

struct CoreOptions {
  ModelInfo model;
  uint32_t context_length = 4096;               // positions a session may hold
  uint32_t session_count = 4;                   // sessions held at once
  uint32_t queue_limit = 64;                    // requests waiting beyond that are refused
  uint32_t prefill_chunk_rows = 128;            // upper bound of rows in one prefill frame
  uint32_t candidate_count = 64;                // asked of the last stage when sampling
  std::string join_token_sha256_hex;            // empty: no token needed
  Timeouts timeouts;
};

}  // namespace weft::swarm
