// Python's view of characters and numbers: its classes of characters and its changes of case, where
// they are not those of utf8.h, and its spelling of floats.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::jinja::python {

bool IsSpace(uint32_t c);      // str.isspace: also the separators U+001C to U+001F
bool IsLetter(uint32_t c);     // str.isalpha
bool IsDecimal(uint32_t c);    // str.isdecimal
bool IsDigit(uint32_t c);      // str.isdigit: superscripts, too
bool IsNumber(uint32_t c);     // str.isnumeric
bool IsPrintable(uint32_t c);  // str.isprintable: what repr shows as it is
bool IsLower(uint32_t c);
bool IsUpper(uint32_t c);
bool IsTitle(uint32_t c);
bool IsCased(uint32_t c);
bool EndsLine(uint32_t c);  // where str.splitlines cuts

// Full mappings; Lower looks at what stands around a capital sigma.
std::string Lower(std::string_view text);
std::string Upper(std::string_view text);
std::string Title(std::string_view text);       // str.title
std::string Capitalize(std::string_view text);  // str.capitalize
std::string SwapCase(std::string_view text);
std::string CaseFold(std::string_view text);

// The value of a decimal digit of any script; -1 for other characters.
int DigitValue(uint32_t c);

// repr of a string.
std::string Quoted(std::string_view text);
// The shortest digits that give the number back, "1.0" for whole ones.
std::string FloatText(double value);
// As Python's float(text) reads it.
std::optional<double> ParseFloat(std::string_view text);
// round(value, digits): the decimal number nearest to the exact value.
double Round(double value, int digits);

}  // namespace weft::jinja::python

namespace weft::jinja {

// The text without white space around it and with digits of all scripts as ASCII.
std::string AsciiDigits(std::string_view text);

}  // namespace weft::jinja
