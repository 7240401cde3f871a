// protobuf writes to stderr about messages that it cannot parse. Those come from peers, who could
// fill the log with them; our own errors say who sent what.
#pragma once

namespace weft::wire {

// For the whole process, once, at its start.
void SilenceProtobuf();

}  // namespace weft::wire
