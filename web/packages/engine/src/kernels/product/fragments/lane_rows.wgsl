// Four lanes share a block of 32 columns; each has a quarter of a workgroup's outputs.
const kOutputs = 8u * kGroups;
const kLaneRows = 2u * kGroups;

// Of two bytes for each of the 8 rows of a group, brings those of the rows of lane q to the front.
fn lane_halves(all: vec4<u32>, q: u32) -> vec4<u32> {
  if (kLaneRows == 2u) {
    return vec4(all[q], 0u, 0u, 0u);
  }
  return select(all, all.zwzw, kLaneRows == 4u && (q & 1u) == 1u);
}
