// Rows of a product: those of the step, or for experts (row, expert of its route).
fn last_row() -> u32 {
  return row_count() * select(1u, op.top_k, kExperts) - 1u;
}

fn input_row(row: u32) -> u32 {
  let clamped = min(row, last_row());
  return select(clamped, clamped / op.top_k, kExperts);
}
