// What lanes add up of a superblock of q4k or q5k: H, L and B.
alias Found = vec3<i32>;

fn found_of(sum: Sum, least: i32) -> Found {
  return vec3(sum, least);
}

fn least_found(found: Found) -> i32 {
  return found.z;
}
