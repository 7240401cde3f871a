// Makes panels (panel_layout.h) of stored weights, of whatever form, and reads them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "kernels/matrix.h"
#include "kernels/panel_layout.h"

namespace weft::kernels {

// Whether every record of a stored matrix is one of its form; kInvalidData names the first row, and
// what is wrong with it. REQUIRES: IsSuperblockFormat.
Status CheckRecords(const Matrix& stored);
// Writes the panels of a stored matrix to `panels`, PanelsBytes bytes at a multiple of 64. Refuses
// what CheckRecords refuses.
Status PackPanels(const Matrix& stored, uint8_t* panels);
// A row as f32. REQUIRES: panels, out.size() == matrix.columns.
void ReadPanelRow(const Matrix& matrix, size_t row, std::span<float> out);

}  // namespace weft::kernels
