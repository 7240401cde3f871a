// Versions and limits that both ends of a connection compare: src/wire/version.h and
// package/manifest.h of the C++ side. Those of programs are the engine's (program/ir.ts).

export const kProtocolVersion = 5;
export const kPackageFormat = 2;
// The oldest that is read. A server names the format that its model needs.
export const kOldestPackageFormat = 1;

// First byte of a WebSocket message that holds a control message; data frames begin with 'W'.
export const kControlByte = 0x01;
