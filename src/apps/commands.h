// Each of these adds a subcommand of `weft` with its options, and sets `exit_code` when it ran.
#pragma once

#include <CLI/CLI.hpp>

#include "base/result.h"

namespace weft::apps {

void AddServeCommand(CLI::App& app, int* exit_code);
void AddWorkerCommand(CLI::App& app, int* exit_code);
void AddRunCommand(CLI::App& app, int* exit_code);
void AddPullCommand(CLI::App& app, int* exit_code);
void AddLibraryCommands(CLI::App& app, int* exit_code);  // list, show, rm
void AddKeysCommand(CLI::App& app, int* exit_code);      // add, list, end
void AddStateCommand(CLI::App& app, int* exit_code);     // export, import
void AddClusterCommand(CLI::App& app, int* exit_code);   // init, status, drain
void AddConfigCommand(CLI::App& app, int* exit_code);    // check
void AddJoinLinkCommand(CLI::App& app, int* exit_code);
void AddPlanCommand(CLI::App& app, int* exit_code);
void AddGenerateCommand(CLI::App& app, int* exit_code);
void AddEvalCommand(CLI::App& app, int* exit_code);
void AddGroupsCommand(CLI::App& app, int* exit_code);
void AddProfileCommand(CLI::App& app, int* exit_code);
void AddTextCommands(CLI::App& app, int* exit_code);  // tokenize, render
void AddGrammarCommand(CLI::App& app, int* exit_code);
void AddSimCommand(CLI::App& app, int* exit_code);
void AddOnnxSplitCommand(CLI::App& app, int* exit_code);

// Exit codes tell whoever starts weft what trying again would change (docs/operations.md).
inline constexpr int kExitFailed = 1;  // anything else; later it may go well
inline constexpr int kExitUsage = 2;   // flags, settings, input
int ExitCodeOf(ErrorCode code);

// Prints "weft: <sentence>" on stderr and gives the error's exit code, or 0 for an ok status.
int ReportStatus(const Status& status);

// Makes a write to a pipe that nobody reads any more fail, in place of ending weft (`weft serve
// 2>&1 | tee log`, whose tee has ended). Commands that serve, compute or write files call it. Those
// that only print are left to end quietly, as in `weft list | head -1`.
void OutliveReaders();

// Gives an option validator for "192.168.1.7" and "fe80::1".
CLI::Validator AddressOption();

// Gives an option validator for "4GiB", "512MiB", "1000000".
CLI::Validator ByteCountOption();
// Adds --marks, of commands that plan a swarm (CoreOptions::marks).
void AddMarksOption(CLI::App& command, uint32_t& marks);

}  // namespace weft::apps
