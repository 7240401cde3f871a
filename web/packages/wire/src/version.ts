// Versions and limits that both ends of a connection compare: src/wire/version.h, program/ir.h and
// package/manifest.h of the C++ side.

export const kProtocolVersion = 5;
export const kProgramVersion = 2;
export const kPackageFormat = 2;
// The oldest that are read. A server names the version that its model needs.
export const kOldestProgramVersion = 1;
export const kOldestPackageFormat = 1;

// First byte of a WebSocket message that holds a control message; data frames begin with 'W'.
export const kControlByte = 0x01;
