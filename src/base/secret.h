// Secrets of a process that came in its environment or its command line are wiped where they stand.
// The system shows both for as long as a process runs, the command line to everybody. And those
// that others show, which are compared.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// SHA-256 of a secret in hex: who only has to know it again keeps this.
std::string HashSecret(std::string_view secret);
// Whether `hash` is the one that is expected, or one of the earlier ones. Every byte is looked at
// whatever the first ones are, so that time tells nothing.
bool IsOneOfHashes(std::string_view hash, std::string_view expected,
                   std::span<const std::string> earlier);

// Overwrites the bytes; the text is empty then.
void Wipe(std::string& secret);

// The variable's value, "" where there is none. It leaves the environment.
std::string TakeFromEnvironment(const char* name);

// A copy of the command line. In the one that was given, which `ps` shows, every secret is
// overwritten: values of --token and --api-key, and what stands behind '#' in an address.
std::vector<std::string> TakeArguments(int count, char** arguments);

}  // namespace weft
