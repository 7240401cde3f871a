// Secrets of a process: those that came in its environment or its command line are wiped where they
// stand, since the system shows both for as long as a process runs, the command line to everybody.
#pragma once

#include <string>
#include <vector>

namespace weft {

// Overwrites the bytes; the text is empty then.
void Wipe(std::string& secret);

// The variable's value, "" where there is none. It leaves the environment.
std::string TakeFromEnvironment(const char* name);

// A copy of the command line. In the one that was given, which `ps` shows, every secret is
// overwritten: values of --token and --api-key, and what stands behind '#' in an address.
std::vector<std::string> TakeArguments(int count, char** arguments);

}  // namespace weft
