// Unicode as the Hugging Face tokenizers library has it for the normal forms and StripAccents:
// version 9 (its crate unicode-normalization-alignments), whatever utf8proc knows beyond that.
#pragma once

#include <cstdint>

namespace weft {

// Whether the normal forms of Unicode 9 leave the character as and where it is, though today's may
// not: a mark, or a character with a decomposition, that came later. True also of some characters
// that none of them changes.
bool IsPlainInUnicode9(uint32_t code_point);

// Whether the character is a mark (categories Mn, Mc, Me) in Unicode 9.
bool IsMarkInUnicode9(uint32_t code_point);

}  // namespace weft
